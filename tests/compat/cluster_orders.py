#!/usr/bin/env python3
"""cluster_orders - SETSLOT with replicas that have it, have it late or never: every reply and state is compared.

    cluster_orders.py --server target/release/cinnabar-server --peers ~/.cache/peers

Each server has two primaries, and a replica of the first. Exits with 1 if there is a difference.
"""
import argparse
import os
import signal
import sys
import tempfile
import threading

from cluster_fleet import Fleet
from wire import TextClient

# A slot of the first primary, and one of the second.
OWN, OTHER = 5, 16000

# While the replica is stopped: the order must not be executed.
LATE = [
    ("SETSLOT", OWN, "MIGRATING", "{second}", "TIMEOUT", 300),
    ("SETSLOT", OTHER, "IMPORTING", "{second}", "TIMEOUT", 300),
    ("SETSLOT", OWN, "STABLE", "TIMEOUT", 300),
    ("SETSLOT", OWN, "MIGRATING", "{second}"),
    # A wrong order fails at once.
    ("SETSLOT", OTHER, "MIGRATING", "{second}", "TIMEOUT", 0),
    ("SETSLOT", OWN, "MIGRATING", "nobody"),
    ("SETSLOT", OWN, "MIGRATING", "{second}", "TIMEOUT"),
    ("SETSLOT", OWN, "MIGRATING", "{second}", "TIMEOUT", "x"),
    ("SETSLOT", OWN, "MIGRATING", "{second}", "TIMEOUT", -1),
]

# While the replica runs: it has the primary's state.
SOON = [
    ("SETSLOT", OWN, "MIGRATING", "{second}"),
    ("SETSLOT", OTHER, "IMPORTING", "{second}", "TIMEOUT", 0),
    ("SETSLOT", OWN, "STABLE", "TIMEOUT", 5000),
    ("SETSLOT", OTHER, "NODE", "{first}"),
    ("SETSLOT", OWN, "NODE", "{second}"),
]


def run(server, folder):
    fleet = Fleet(server, folder, 3)
    try:
        return steps(fleet)
    finally:
        fleet.stop()


def steps(fleet):
    fleet.take_shape([[(0, 8191)], [(8192, 16383)], 0])
    first, second, replica = fleet.nodes
    ids = {"first": first.id(), "second": second.id(), "replica": replica.id()}
    seen = []

    def order(words):
        words = [str(word).format(**ids) for word in words]
        seen.append((words[1:], first.client("CLUSTER", *words)))

    def states(*nodes):
        seen.extend(next(line for line in node.lines() if "myself" in line[2])[8:] for node in nodes)

    os.kill(replica.process.pid, signal.SIGSTOP)
    try:
        for words in LATE:
            order(words)
        states(first)
        # The order continues when the replica does.
        waiting = TextClient(first.port)
        reply = []
        call = ("CLUSTER", "SETSLOT", OWN, "MIGRATING", ids["second"], "TIMEOUT", 0)
        thread = threading.Thread(target=lambda: reply.append(waiting(*call)))
        thread.start()
        fleet.wait(lambda: "blocked_clients:1" in first.call("INFO", "clients"), "the client does not wait")
        states(first)
    finally:
        os.kill(replica.process.pid, signal.SIGCONT)
    thread.join(10)
    seen.append(reply)
    states(first)
    for words in SOON:
        order(words)
        # No node announces its open slots on the bus: the replica has those that its primary sent.
        states(first, replica) if words[2] != "NODE" else states(first)
    # A message that the first one had sent before may undo the last order at its replica, until the new owner claims the slot.
    seen.append(second.client("CLUSTER", "SETSLOT", OWN, "NODE", ids["second"]))
    fleet.wait(lambda: owners(first) == owners(replica), "the replica does not know it")
    seen.extend(sorted(ids_to_names(line, ids) for line in owners(first)))
    return [[ids_to_names(part, ids) for part in (step if isinstance(step, (list, tuple)) else [step])] for step in seen]


def owners(node):
    """Returns ranges of slots by node, without open slots."""
    return sorted((line[0], [slots for slots in line[8:] if not slots.startswith("[")])
                  for line in node.lines())


def ids_to_names(part, ids):
    text = repr(part)
    for name, node_id in ids.items():
        text = text.replace(node_id, name)
    return text


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--server", required=True)
    options.add_argument("--peers", required=True)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = run(os.path.abspath(options.server), os.path.join(folder, "own"))
        real = run(os.path.join(os.path.abspath(options.peers), "newest/bin/valkey-server"), os.path.join(folder, "real"))
    differences = [(mine, theirs) for mine, theirs in zip(own, real, strict=True) if mine != theirs]
    for mine, theirs in differences:
        print("here  %s\nthere %s\n" % (mine, theirs))
    print("cluster_orders: %d steps, %d differ" % (len(real), len(differences)))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
