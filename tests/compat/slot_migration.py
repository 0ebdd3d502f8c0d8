#!/usr/bin/env python3
"""slot_migration - whole slots that move at once, between real nodes and ours and among ours, while clients write.

    slot_migration.py --server target/release/cinnabar-server --peers ~/.cache/peers [--only WORD] [--seed 1]

A cluster of two real primaries and two of ours, each with a replica of the other kind. Clients write counters all the time and follow
what they are told. Slots with keys of all types move from each to each other one: what was told to have been written is there
afterwards, once, and values are the same; nothing is left where the slots were. Then migrations are cancelled, the other end is
killed or its connection cut in the middle, data is flushed, a replica takes over: the source goes on with all it had, and the target
has nothing left. Last, what is refused is refused in the same words by both kinds. Exits with 1 if anything is wrong.
"""
import argparse
import os
import random
import shutil
import sys
import tempfile
import time

from cluster_mixed import Node, Writer
from wire import Client

# Each case moves such a range; the writer's keys lie in all of them.
WIDTH = 400
STATIC = 600
ENDED = (b"success", b"failed", b"cancelled")


def pairs(reply):
    return [dict(zip(job[::2], job[1::2])) for job in reply]


class Fleet:
    def __init__(self, options, folder):
        real = os.path.join(options.peers, "newest/bin/valkey-server")
        ours = options.server
        self.kinds = {real: "valkey", ours: "cinnabar"}
        kinds = [real, real, ours, ours, ours, ours, real, real]
        self.nodes = [Node(kind, os.path.join(folder, str(index)), "--cluster-databases", 2, "--enable-debug-command", "yes",
                           "--cluster-allow-replica-migration", "no", "--cluster-require-full-coverage", "no")
                      for index, kind in enumerate(kinds)]
        self.primaries, self.replicas = self.nodes[:4], self.nodes[4:]
        for node in self.nodes:
            node.until("an answer", lambda node: node("PING") == b"+PONG")
        self.ids = {node: node("CLUSTER", "MYID") for node in self.nodes}
        for index, node in enumerate(self.primaries):
            node("CLUSTER", "ADDSLOTSRANGE", index * 4096, index * 4096 + 4095)
            node("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node in self.nodes[1:]:
            node("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
        for node in self.nodes:
            node.until("all nodes", lambda node: b"cluster_known_nodes:8" in node("CLUSTER", "INFO") and node.is_up())
        for primary, replica in zip(self.primaries, self.replicas):
            replica("CLUSTER", "REPLICATE", self.ids[primary])
        for replica in self.replicas:
            replica.until("its data", Node.is_synced)
        self.tags = tags_by_slot()
        self.writer = Writer([node.port for node in self.primaries], options.seed)
        self.writer.start()
        self.random = random.Random(options.seed)
        self.wrong = []

    def kind(self, node):
        return f"{self.kinds[node.binary]} {self.nodes.index(node)}"

    def owned(self, node):
        """Some slots of a node, in a row."""
        for start, end, owner in self.slots():
            if owner == self.ids[node] and end - start + 1 >= WIDTH:
                return start, start + WIDTH - 1
        raise SystemExit(f"{self.kind(node)} has not {WIDTH} slots in a row")

    def slots(self):
        return ranges(self.nodes[0])

    def fill(self, node, slots):
        """Keys of all types in both databases, in slots of the node, and what their values are."""
        client = Client(node.port)
        names = []
        for number in range(STATIC):
            slot = self.random.randint(*slots)
            name = f"{{{self.tags[slot]}}}static:{number}"
            db = number % 2
            client("SELECT", db)
            kind = number % 8
            many = range(5 if number % 50 else 6000)
            words = {
                0: [("SET", name, "v" * (3 if number % 40 else 200_000))],
                1: [("RPUSH", name, *many)],
                2: [("SADD", name, *(f"m{n}" for n in many))],
                3: [("HSET", name, *(word for n in many for word in (f"f{n}", n)))],
                4: [("ZADD", name, *(word for n in many for word in (n * 1.5, f"m{n}")))],
                5: [("XADD", name, f"{n + 1}-1", "f", n) for n in range(5)] + [("XGROUP", "CREATE", name, "g", "0")],
                6: [("SET", name, "v", "PX", 600_000 + number)],
                7: [("HSET", name, "f", 1, "g", 2), ("HPEXPIRE", name, 500_000, "FIELDS", 1, "f")],
            }[kind]
            for command in words:
                reply = client(*command)
                if isinstance(reply, bytes) and reply.startswith(b"-"):
                    raise SystemExit(f"{command[:3]}: {reply}")
            names.append((db, name))
        return {key: self.digest(client, *key) for key in names}

    @staticmethod
    def digest(client, db, name):
        client("SELECT", db)
        expiry = client("PEXPIRETIME", name)
        return client("DEBUG", "DIGEST-VALUE", name), expiry

    def migrate(self, source, slots, target):
        reply = source("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *slots, "NODE", self.ids[target])
        if reply != b"+OK":
            raise SystemExit(f"{self.kind(source)}: MIGRATESLOTS {reply}")
        return self.job(source)

    @staticmethod
    def job(node):
        jobs = pairs(node("CLUSTER", "GETSLOTMIGRATIONS"))
        return jobs[0] if jobs else None

    def ended(self, node, name, seconds=40):
        """How a node says that a job has ended."""
        end = time.time() + seconds
        while time.time() < end:
            found = [job for job in pairs(node("CLUSTER", "GETSLOTMIGRATIONS")) if job[b"name"] == name]
            if found and found[0][b"state"] in ENDED:
                return found[0]
            time.sleep(0.02)
        self.complain(f"{self.kind(node)}: the job does not end: {found}")
        return found[0] if found else {}

    def complain(self, text):
        print(f"  WRONG: {text}")
        self.wrong.append(text)

    def expect(self, what, condition, seconds=10):
        end = time.time() + seconds
        while not condition():
            if time.time() > end:
                return self.complain(what)
            time.sleep(0.05)

    def count(self, node, slots):
        client, keys = Client(node.port), 0
        if node in self.replicas:
            client("READONLY")
        for db in (0, 1):
            client("SELECT", db)
            for slot in range(slots[0], slots[1] + 1):
                keys += int(client("CLUSTER", "COUNTKEYSINSLOT", slot)[1:])
        return keys

    def check_values(self, node, values):
        client = Client(node.port)
        for key, value in values.items():
            found = self.digest(client, *key)
            if found != value:
                return self.complain(f"{self.kind(node)}: {key} is {found}, not {value}")

    def check_replica(self, node):
        """The replica has what its primary has."""
        replica = self.replicas[self.primaries.index(node)]
        self.expect(f"{self.kind(replica)} differs from {self.kind(node)}",
                    lambda: node("DEBUG", "DIGEST") == replica("DEBUG", "DIGEST"), 20)
        jobs = pairs(replica("CLUSTER", "GETSLOTMIGRATIONS"))
        if any(job[b"state"] not in ENDED for job in jobs):
            self.expect(f"{self.kind(replica)} has jobs that have not ended: {self.job(replica)}",
                        lambda: all(job[b"state"] in ENDED for job in pairs(replica("CLUSTER", "GETSLOTMIGRATIONS"))))

    def check_writes(self):
        """Each counter is what was told last, or more that is on its way to be told."""
        told = dict(self.writer.told)
        for key, value in told.items():
            found = self.writer_ask(("GET", key))
            if found is None or int(found) < value:
                return self.complain(f"{key} is {found}, and was {value}")
        if self.writer.errors:
            self.complain(f"clients were replied {self.writer.errors[:3]}")
            self.writer.errors.clear()

    def writer_ask(self, words):
        asker = Writer([node.port for node in self.primaries], 1)
        return asker.ask(words)


def tags_by_slot():
    """A tag for each slot."""
    tags = {}
    number = 0
    while len(tags) < 16384:
        tag = str(number)
        tags.setdefault(crc16(tag.encode()) % 16384, tag)
        number += 1
    return tags


def table():
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ (0x1021 if crc & 0x8000 else 0)
        yield crc & 0xFFFF


TABLE = list(table())


def crc16(data):
    crc = 0
    for byte in data:
        crc = ((crc << 8) & 0xFFFF) ^ TABLE[(crc >> 8) ^ byte]
    return crc


def moves(fleet):
    """Each kind to each kind: all is there, once."""
    a, b, c, d = fleet.primaries
    for source, target in ((c, d), (d, c), (a, c), (c, b), (b, d), (d, a)):
        slots = fleet.owned(source)
        values = fleet.fill(source, slots)
        job = fleet.migrate(source, slots, target)
        ends = [fleet.ended(node, job[b"name"]) for node in (source, target)]
        if any(end.get(b"state") != b"success" for end in ends):
            fleet.complain(f"{fleet.kind(source)} -> {fleet.kind(target)}: {ends}")
            continue
        fleet.expect("the slots have another owner", lambda: all(fleet.ids[target] in owners(node, slots) for node in (source, target)))
        fleet.check_values(target, values)
        fleet.expect(f"{fleet.kind(source)} has keys left", lambda: fleet.count(source, slots) == 0, 20)
        fleet.check_replica(target)
        fleet.check_replica(source)
        fleet.check_writes()
        print(f"  {fleet.kind(source)} -> {fleet.kind(target)}: slots {slots}")


def owners(node, slots):
    return [owner for start, end, owner in ranges(node) if start <= slots[0] <= end]


def ranges(node):
    return [(int(start[1:]), int(end[1:]), owner[2]) for start, end, owner, *_ in node("CLUSTER", "SLOTS")]


CASES = [moves]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="cinnabar-server")
    parser.add_argument("--peers", required=True, help="folder that fetch-peers filled")
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.server = os.path.abspath(options.server)
    folder = tempfile.mkdtemp(prefix="slot-migration-")
    fleet = None
    try:
        fleet = Fleet(options, folder)
        for case in CASES:
            if options.only in case.__name__:
                print(case.__name__)
                case(fleet)
    finally:
        if fleet:
            fleet.writer.ended = True
            for node in fleet.nodes:
                node.kill()
    if fleet.wrong:
        print(f"{len(fleet.wrong)} wrong; {folder}")
        sys.exit(1)
    shutil.rmtree(folder)
    print(f"all right; {fleet.writer.count} writes")


if __name__ == "__main__":
    main()
