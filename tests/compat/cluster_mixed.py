#!/usr/bin/env python3
"""cluster_mixed - a cluster of real nodes and ours, while slots move, nodes take over and are killed.

    cluster_mixed.py --server target/release/cinnabar-server --peers ~/.cache/peers [--seconds 40] [--seed 1]
        [--library redis-py] [--library ioredis]

Three primaries with a replica each, real and ours in turn, so that each kind replaces the other one. Clients write counters all the
time and follow what they are told (MOVED, ASK, TRYAGAIN). In turn: slots move both ways with `--cluster reshard` and MIGRATESLOTS,
replicas take over by hand, a primary is killed and comes back. Writes that were acknowledged before a planned change must be there after it; after a
kill only writes acknowledged in the last moments may be missing. Exits with 1 if anything is wrong.
"""
import argparse
import os
import random
import threading
import time

from cluster_processes import TIMEOUT_MS, ClusterTool, Node, scratch_folder
from cluster_writers import LIBRARIES
from wire import Client

KEYS = 300


class Writer(threading.Thread):
    """Counts up keys, and records the last reply for each."""

    def __init__(self, ports, seed):
        super().__init__(daemon=True)
        self.ports, self.random, self.clients = ports, random.Random(seed), {}
        self.told, self.errors, self.ended, self.count = {}, [], False, 0

    def client(self, port):
        if port not in self.clients:
            self.clients[port] = Client(port)
        return self.clients[port]

    def ask(self, words):
        """The reply of the node that is responsible; None if none answers."""
        port, asking = self.random.choice(self.ports), False
        for _ in range(40):
            try:
                client = self.client(port)
                if asking:
                    client("ASKING")
                reply = client(*words)
            except (OSError, EOFError):
                self.clients.pop(port, None)
                port, asking = self.random.choice(self.ports), False
                time.sleep(0.05)
                continue
            if isinstance(reply, bytes) and reply[:1] == b"-":
                error = reply.split()
                if error[0] in (b"-MOVED", b"-ASK"):
                    port, asking = int(error[2].rsplit(b":", 1)[1]), error[0] == b"-ASK"
                    continue
                if error[0] in (b"-TRYAGAIN", b"-CLUSTERDOWN", b"-LOADING", b"-READONLY", b"-MASTERDOWN"):
                    time.sleep(0.1)
                    continue
                self.errors.append(reply)
            return reply
        return None

    def run(self):
        while not self.ended:
            key = f"k{self.random.randrange(KEYS)}"
            reply = self.ask(("INCR", key))
            if isinstance(reply, bytes) and reply[:1] == b":":
                self.told[key] = max(self.told.get(key, 0), int(reply[1:]))
                self.count += 1


class Run:
    def __init__(self, options, folder):
        self.tool = ClusterTool(options.peers)
        real = os.path.join(options.peers, "newest/bin/valkey-server")
        kinds = [real, options.server, options.server, options.server, real, real]
        self.nodes = [Node(kind, os.path.join(folder, str(index))) for index, kind in enumerate(kinds)]
        self.random, self.unfinished = random.Random(options.seed), 0
        self.tool.create(self.nodes)
        for node in self.nodes:
            node.until("the cluster", Node.is_up)
        for replica in self.replicas():
            replica.until("its data", Node.is_synced)
        ports = [node.port for node in self.nodes]
        self.writers = [Writer(ports, options.seed), *(LIBRARIES[name](ports, options.seed) for name in options.library)]
        for writer in self.writers:
            writer.start()

    def primaries(self):
        return [node for node in self.nodes if node.role() == b"master"]

    def replicas(self):
        return [node for node in self.nodes if node.role() == b"slave"]

    def of(self, primary):
        """The replica of a primary."""
        return next(node for node in self.replicas() if node("ROLE")[2] == b":%d" % primary.port)

    def move_slots(self):
        source, target = self.random.sample(self.primaries(), 2)
        self.unfinished += self.tool.reshard(source, target, 200)

    def move_slots_at_once(self):
        source, target = self.random.sample(self.primaries(), 2)
        start, end, *_ = next(slots for slots in source("CLUSTER", "SLOTS") if slots[2][2] == source("CLUSTER", "MYID"))
        start, end = int(start[1:]), min(int(end[1:]), int(start[1:]) + 199)
        was = self.told()
        reply = source("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", start, end, "NODE", target("CLUSTER", "MYID"))
        if reply != b"+OK":
            raise SystemExit(f"MIGRATESLOTS: {reply}")
        job = dict(zip(*[iter(source("CLUSTER", "GETSLOTMIGRATIONS")[0])] * 2))[b"name"]
        for node in (source, target):
            jobs = lambda node: [dict(zip(*[iter(job)] * 2)) for job in node("CLUSTER", "GETSLOTMIGRATIONS")]
            node.until("the migration's end", lambda node: any(
                found[b"name"] == job and found[b"state"] == b"success" for found in jobs(node)))
        self.check("a migration of slots", was)

    def take_over(self):
        replica = self.random.choice(self.replicas())
        replica.until("its data", Node.is_synced)
        was = self.told()
        assert replica("CLUSTER", "FAILOVER") == b"+OK"
        replica.until("its promotion", lambda node: node.role() == b"master")
        self.check("a failover by hand", was)

    def kill(self):
        primary = self.random.choice(self.primaries())
        replica = self.of(primary)
        replica.until("its data", Node.is_synced)
        primary.kill()
        replica.until("its promotion", lambda node: node.role() == b"master")
        # Writes that the primary has acknowledged and its replica lacks are lost: the counters begin again from there.
        for writer in self.writers:
            writer.told.clear()
        primary.start()
        primary.until("its return", lambda node: node.role() == b"slave" and node.is_synced())
        for node in self.nodes:
            node.until("the cluster", Node.is_up)

    def told(self):
        return {key: value for writer in self.writers for key, value in dict(writer.told).items()}

    def check(self, what, told):
        for key, least in told.items():
            reply = self.writer_of_checks().ask(("GET", key))
            if reply is None or int(reply) < least:
                raise SystemExit(f"after {what}: {key} is {reply}, and its client was told {least}")

    def writer_of_checks(self):
        return Writer([node.port for node in self.nodes], 7)

    def end(self):
        for writer in self.writers:
            writer.ended = True
        for writer in self.writers:
            writer.join(10)
        self.check("the end", self.told())
        for one in self.nodes:
            for other in self.nodes:
                lines = [sorted(line.split()[0] + b" " + b" ".join(line.split()[8:]) for line in node("CLUSTER", "NODES").splitlines())
                         for node in (one, other)]
                if lines[0] != lines[1]:
                    raise SystemExit(f"{one.port} and {other.port} do not agree on the slots:\n{lines[0]}\n{lines[1]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", action="append", default=[], choices=list(LIBRARIES), help="write by this library, too")
    options = parser.parse_args()
    options.peers = os.path.expanduser(options.peers)
    with scratch_folder("cluster_mixed") as folder:
        run = None
        try:
            run = Run(options, folder)
            end, rounds = time.time() + options.seconds, 0
            while time.time() < end:
                for step in (run.move_slots, run.take_over, run.move_slots_at_once, run.move_slots, run.move_slots_at_once, run.kill):
                    step()
                rounds += 1
            time.sleep(2 * TIMEOUT_MS / 1000)
            run.end()
            errors = {error for writer in run.writers for error in writer.errors}
            if errors or not all(writer.count for writer in run.writers):
                raise SystemExit(f"clients were told: {errors}")
            counts = " and ".join(str(writer.count) for writer in run.writers)
            print(f"cluster_mixed: {rounds} rounds, {counts} writes acknowledged, {run.unfinished} times a move was "
                  "taken up again, nothing wrong")
        finally:
            for node in run.nodes if run else []:
                node.kill()


if __name__ == "__main__":
    main()
