#!/usr/bin/env python3
"""How long a killed primary's slots are without one: clusters of each kind, one kind after the other, in one run.

usage: failover.py [--rounds N] [--node-timeout MS] NAME=COMMAND NAME=COMMAND...
A COMMAND gets --port, --dir and what a cluster needs appended. Three primaries and a replica of each; a client writes to a slot of one
of them at whichever node has it. `without`: from kill -9 to the first write that is acknowledged again. The killed node is started
again before the next round. Medians of the rounds; in parentheses the lowest and the highest.
"""
import argparse, os, shutil, statistics, tempfile, time

from slots import Node


def state(node):
    info = node.client("CLUSTER", "INFO")
    return b"cluster_state:ok" in info


def have_met(nodes):
    """Returns whether all nodes have met. Nodes that lack others get CLUSTER MEET again: a failed meeting is forgotten."""
    strangers = [node for node in nodes if b"cluster_known_nodes:6" not in node.client("CLUSTER", "INFO")]
    for node in strangers:
        node.client("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
    time.sleep(1)
    return not strangers and all(state(node) for node in nodes)


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} takes too long")
        time.sleep(0.05)


def write(nodes, key, value):
    """Returns whether some node executed the write."""
    for node in nodes:
        try:
            if node.process.poll() is None and node.client("SET", key, value) == b"+OK":
                return True
        except (OSError, EOFError):
            continue
    return False


def is_healthy(nodes):
    """Returns whether all nodes are known, each primary has its replica, and all agree."""
    for node in nodes:
        lines = node.client("CLUSTER", "NODES").splitlines()
        fine = [line for line in lines if b" connected" in line and b"fail" not in line and b"handshake" not in line]
        if len(fine) != len(nodes) or not state(node):
            return False
        role = node.client("ROLE")
        if role[0] == b"slave" and role[3] != b"connected":
            return False
    return True


def run(name, command, options, folder):
    folder = os.path.join(folder, name)
    command = f"{command} --cluster-node-timeout {options.node_timeout} --repl-diskless-sync-delay 0"
    nodes = [Node(command, os.path.join(folder, str(index))) for index in range(6)]
    try:
        bounds = [0, 5461, 10922, 16384]
        for index in range(3):
            nodes[index].client("CLUSTER", "ADDSLOTSRANGE", bounds[index], bounds[index + 1] - 1)
        for index, node in enumerate(nodes):
            node.client("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        until(lambda: have_met(nodes), 60, "the first meeting")
        for index in range(3):
            until(lambda: nodes[3 + index].client("CLUSTER", "REPLICATE", nodes[index].id) == b"+OK", 20, "REPLICATE")
        results = []
        for number in range(options.rounds):
            until(lambda: is_healthy(nodes), 90, "a cluster at rest")
            time.sleep(1)
            # "a" is of slot 15495, the third primary's.
            owner = next(node for node in nodes if node.client("SET", "a", "before") == b"+OK")
            start = time.perf_counter()
            owner.process.kill()
            owner.process.wait()
            others = [node for node in nodes if node is not owner]
            while not write(others, "a", str(number)):
                time.sleep(0.005)
            results.append(time.perf_counter() - start)
            owner.begin()
        results.sort()
        print(f"{name:10} without, s {statistics.median(results):9.2f} ({results[0]:.2f} {results[-1]:.2f})", flush=True)
    finally:
        for node in nodes:
            node.process.kill()
            node.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--node-timeout", type=int, default=2000)
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="failover-")
    for server in options.servers:
        name, command = server.split("=", 1)
        run(name, command, options, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
