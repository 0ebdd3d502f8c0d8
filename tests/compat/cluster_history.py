#!/usr/bin/env python3
"""cluster_history - replicas whose data, or whose files, are of another history than their primary's stand for no election.

    cluster_history.py --server target/release/cinnabar-server [--peers ~/.cache/peers]

Three primaries and a replica, all with `cluster-replica-validity-factor 0`. A primary is stopped and replaced, and its successor dies
before it has synchronized it; a replica gets the data of another primary over the link, and is killed before it saves.
Exits with 1 if one of them takes over with its old data.
"""
import argparse
import os
import signal
import time

from cluster_processes import ClusterTool, Node, scratch_folder

OPTIONS = ["--cluster-replica-validity-factor", "0", "--save", "3600 1000000", "--cluster-allow-replica-migration", "no",
           "--cluster-require-full-coverage", "no", "--repl-backlog-size", "16384"]
# Seconds in which an election would be over.
ELECTION = 12


def keys_of(node):
    """Names of keys of which the node owns the slots."""
    first, last = next(map(int, slots.split("-")) for slots in slots_of(node) if "-" in slots)
    found = (f"k{number}" for number in range(100_000))
    return [name for name in found if first <= int(node("CLUSTER", "KEYSLOT", name)[1:]) <= last][:100]


def slots_of(node):
    line = next(line for line in node("CLUSTER", "NODES").decode().splitlines() if "myself" in line)
    return line.split()[8:]


def leads(node):
    return node.role() == b"master" and bool(slots_of(node))


def check_stays(node, what):
    end = time.time() + ELECTION
    while time.time() < end:
        if leads(node):
            raise SystemExit(f"{what} has taken over with its old data")
        time.sleep(0.2)


def former_primary(nodes):
    """A primary that was replaced waits for its synchronization, and its successor dies."""
    first, replica = nodes[0], nodes[3]
    names = keys_of(first)
    os.kill(first.process.pid, signal.SIGSTOP)
    replica.until("a takeover", leads)
    for name in names:
        replica("SET", name, "1" * 4096)
    # The stream does not reach back that far, and the successor's snapshot comes when it is too late.
    replica("CONFIG", "SET", "repl-diskless-sync-delay", "3600")
    os.kill(first.process.pid, signal.SIGCONT)
    first.until("its new role", lambda node: node.role() == b"slave")
    time.sleep(1)
    if first.is_synced():
        raise SystemExit("the former primary is synchronized too soon")
    replica.kill()
    check_stays(first, "a former primary")
    replica.start()
    replica.until("its role", leads)
    replica("CONFIG", "SET", "repl-diskless-sync-delay", "0")
    first.until("the data", Node.is_synced)


def old_files(nodes):
    """A replica is killed before it has saved the data of its new primary."""
    _, second, _, replica = nodes
    replica.until("its role", leads)
    nodes[0].until("the data", Node.is_synced)
    nodes[0]("CLUSTER", "FAILOVER")
    nodes[0].until("its place", leads)
    replica.until("the data", Node.is_synced)
    replica("SAVE")
    replica("CONFIG", "SET", "repl-diskless-load", "flush-before-load")
    replica("CLUSTER", "REPLICATE", second.id())
    replica.until("its new data", lambda node: node.is_synced() and node("DBSIZE") == second("DBSIZE"))
    replica.kill()
    second.kill()
    replica.start()
    check_stays(replica, "a replica with old files")
    replica("CLUSTER", "FAILOVER", "FORCE")
    check_stays(replica, "a replica that was ordered to")
    second.start()
    replica.until("the data", Node.is_synced)
    replica("CLUSTER", "FAILOVER")
    replica.until("its place", leads)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--server", required=True)
    options.add_argument("--peers", default=os.path.expanduser("~/.cache/peers"))
    options = options.parse_args()
    with scratch_folder("cluster_history") as folder:
        nodes = []
        try:
            for number in range(4):
                nodes.append(Node(os.path.abspath(options.server), os.path.join(folder, str(number)), *OPTIONS))
            tool = ClusterTool(options.peers)
            tool.create(nodes[:3], 0)
            for node in nodes[:3]:
                node.until("the cluster", Node.is_up)
            replica = nodes[3]
            replica("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
            replica.until("the others", lambda node: len(node("CLUSTER", "NODES").splitlines()) == 4)
            replica.until("the first one", lambda node: node("CLUSTER", "REPLICATE", nodes[0].id()) == b"+OK")
            replica.until("the data", Node.is_synced)
            for name in keys_of(nodes[0]):
                nodes[0]("SET", name, "0")
            for step in (former_primary, old_files):
                step(nodes)
                print(f"cluster_history: {step.__name__} is in order")
        finally:
            for node in nodes:
                node.kill()


if __name__ == "__main__":
    main()
