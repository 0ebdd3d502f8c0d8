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

from cluster_mixed import Writer
from cluster_processes import Node
from wire import Client

# Each case moves such a range; the writer's keys lie in all of them.
WIDTH = 400
STATIC = 600
ENDED = (b"success", b"failed", b"cancelled")


def pairs(reply):
    return [dict(zip(job[::2], job[1::2])) for job in reply]


class RestingWriter(Writer):
    """Writes nothing while it rests."""

    rests = has_rested = False

    def rest(self, rests):
        self.has_rested, self.rests = False, rests
        while rests and not self.has_rested:
            time.sleep(0.01)

    def ask(self, words):
        while self.rests:
            self.has_rested = True
            time.sleep(0.01)
        return super().ask(words)


class Fleet:
    def __init__(self, options, folder):
        real = os.path.join(options.peers, "newest/bin/valkey-server")
        ours = options.server
        self.kinds = {real: "valkey", ours: "cinnabar"}
        kinds = [real, real, ours, ours, ours, real, ours, real]
        self.nodes = [Node(kind, os.path.join(folder, str(index)), "--cluster-databases", 2, "--enable-debug-command", "yes",
                           "--cluster-allow-replica-migration", "no", "--cluster-require-full-coverage", "no",
                           # No replica takes over from a node that is slow on a busy machine.
                           "--cluster-replica-no-failover", "yes", "--cluster-node-timeout", 30000)
                      for index, kind in enumerate(kinds)]
        self.primaries, self.replicas = self.nodes[:4], self.nodes[4:]
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
        self.writer = RestingWriter([node.port for node in self.primaries], options.seed)
        self.writer.start()
        self.random = random.Random(options.seed)
        self.wrong, self.filled, self.is_moving = [], 0, False

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

    def fill(self, node, slots, target):
        """Keys of all types, in slots of the node, and what their values are: in both databases among ours: a real
        target tells its replicas wrongly in which database a source's commands are."""
        client = Client(node.port)
        names = []
        self.filled += 1
        both = self.is_moving and node.binary == target.binary == self.primaries[-1].binary
        for number in range(STATIC):
            slot = self.random.randint(*slots)
            name = f"{{{self.tags[slot]}}}static:{self.filled}:{number}"
            db = number % 2 if both else 0
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
        """Waits until a job has ended; returns a node's entry of it."""
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
                self.complain(what)
                return False
            time.sleep(0.05)
        return True

    def differences(self, *nodes):
        """Returns the first keys that differ between two nodes."""
        found = []
        for db in (0, 1):
            clients = [Client(node.port) for node in nodes]
            for client in clients:
                client("READONLY")
                client("SELECT", db)
            for key in sorted({key for client in clients for key in client("KEYS", "*")}):
                values = [client("DEBUG", "DIGEST-VALUE", key)[0] for client in clients]
                expiries = [client("PEXPIRETIME", key) for client in clients]
                if values[0] != values[1] or expiries[0] != expiries[1]:
                    found.append(f"{db} {key} {values} {expiries} {[client('TYPE', key) for client in clients]}")
        return found[:5]

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
        """Checks that the replica has the same data as its primary."""
        replica = self.replicas[self.primaries.index(node)]
        self.writer.rest(True)
        if not self.expect(f"{self.kind(replica)} differs from {self.kind(node)}",
                           lambda: node("DEBUG", "DIGEST") == replica("DEBUG", "DIGEST"), 20):
            print("    " + ", ".join(self.differences(node, replica)))
        self.writer.rest(False)
        jobs = pairs(replica("CLUSTER", "GETSLOTMIGRATIONS"))
        if any(job[b"state"] not in ENDED for job in jobs):
            self.expect(f"{self.kind(replica)} has jobs that have not ended: {self.job(replica)}",
                        lambda: all(job[b"state"] in ENDED for job in pairs(replica("CLUSTER", "GETSLOTMIGRATIONS"))))

    def check_writes(self):
        """Checks that each counter has its last reply's value, or more for a write without a reply yet."""
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
    """Moves slots from each kind of server to each kind: every key is there, once."""
    a, b, c, d = fleet.primaries
    fleet.is_moving = True
    for source, target in ((c, d), (d, c), (a, c), (c, b), (b, d), (d, a)):
        slots = fleet.owned(source)
        values = fleet.fill(source, slots, target)
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
        second = Client(target.port)
        second("SELECT", 1)
        second("FLUSHDB")
        print(f"  {fleet.kind(source)} -> {fleet.kind(target)}: slots {slots}")
    fleet.is_moving = False


def owners(node, slots):
    return [owner for start, end, owner in ranges(node) if start <= slots[0] <= end]


def ranges(node):
    return [(int(start[1:]), int(end[1:]), owner[2]) for start, end, owner, *_ in node("CLUSTER", "SLOTS")]


def in_the_middle(fleet, source, target):
    """Starts a migration that does not reach its pause; returns it with the data before it."""
    slots = fleet.owned(source)
    values = fleet.fill(source, slots, target)
    source("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 1)
    job = fleet.migrate(source, slots, target)
    fleet.expect("the source waits with its pause", lambda: fleet.job(source)[b"state"] == b"waiting-to-pause", 20)
    return slots, values, job[b"name"]


def check_failed(fleet, source, target, slots, values, name, state=b"failed"):
    """Checks that the source has all keys, and the target none."""
    source("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 0)
    for node, expected in ((source, state), (target, b"failed")):
        found = fleet.ended(node, name)
        if found and found[b"state"] != expected:
            fleet.complain(f"{fleet.kind(node)}: {found}")
    if fleet.ids[source] not in owners(source, slots):
        fleet.complain("the slots have gone")
    fleet.check_values(source, values)
    for node in (target, fleet.replicas[fleet.primaries.index(target)]):
        fleet.expect(f"{fleet.kind(node)} has keys left", lambda: fleet.count(node, slots) == 0, 20)
    fleet.check_replica(target)
    fleet.check_writes()
    print(f"  {fleet.kind(source)} -> {fleet.kind(target)}")


def info(node, field):
    return int(dict(line.split(b":", 1) for line in node("INFO", "all").split(b"\r\n") if b":" in line)[field])


def accounted(fleet):
    """INFO and MEMORY STATS report the buffers and the traffic of a migration's connections, at both ends."""
    for source, target in mixed(fleet):
        moved = [info(node, b"total_net_cluster_slot_%s_bytes" % way) for node, way in ((source, b"export"), (target, b"import"))]
        slots, values, name = in_the_middle(fleet, source, target)
        for node, way, other in ((source, b"export", b"import"), (target, b"import", b"export")):
            fleet.expect(f"{fleet.kind(node)} has memory for the {way}", lambda: info(node, b"mem_cluster_slot_%s" % way) > 0)
            stats = node("MEMORY", "STATS")
            stats = dict(zip(stats[::2], stats[1::2]))
            if int(stats[b"cluster.slot_" + way][1:]) == 0 or info(node, b"mem_cluster_slot_%s" % other) != 0:
                fleet.complain(f"{fleet.kind(node)}: {way} {stats[b'cluster.slot_' + way]}, {other} {info(node, b'mem_cluster_slot_%s' % other)}")
            before = moved.pop(0)
            # At least the large values, some of which are compressed on their way.
            if info(node, b"total_net_cluster_slot_%s_bytes" % way) < before + 100_000:
                fleet.complain(f"{fleet.kind(node)} has not counted what it moved: {before}")
        source("CLUSTER", "CANCELSLOTMIGRATIONS")
        check_failed(fleet, source, target, slots, values, name, b"cancelled")
        for node, way in ((source, b"export"), (target, b"import")):
            fleet.expect(f"{fleet.kind(node)} still has memory for the {way}", lambda: info(node, b"mem_cluster_slot_%s" % way) == 0)


def mixed(fleet):
    a, b, c, d = fleet.primaries
    return (c, d), (a, c), (c, b)


def hidden(fleet):
    """Keys of an import are hidden, and are visible afterwards."""
    for source, target in mixed(fleet):
        client = Client(target.port)
        before = {int(client("DBSIZE")[1:]), len(client("KEYS", "*"))}
        slots, values, name = in_the_middle(fleet, source, target)
        fleet.writer.rest(True)
        names = set(client("KEYS", "*"))
        if any(key[1].encode() in names for key in values) or int(client("DBSIZE")[1:]) != len(names):
            fleet.complain(f"{fleet.kind(target)} shows keys that come, or not others: {len(names)} {client('DBSIZE')} {before}")
        cursor, found = b"0", set()
        while True:
            cursor, some = client("SCAN", cursor, "COUNT", 500)
            found |= set(some)
            if cursor == b"0":
                break
        if found != names:
            fleet.complain(f"{fleet.kind(target)}: SCAN finds {len(found)}, KEYS {len(names)}")
        fleet.writer.rest(False)
        source("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 0)
        if fleet.ended(source, name).get(b"state") != b"success" or fleet.ended(target, name).get(b"state") != b"success":
            fleet.complain(f"{fleet.job(source)} {fleet.job(target)}")
        fleet.check_values(target, values)
        fleet.check_replica(target)
        fleet.check_writes()
        print(f"  {fleet.kind(source)} -> {fleet.kind(target)}")


def read_at_replicas(fleet):
    """A replica without the bus redirects readers before it loses a key, and serves a slot that is moved back."""
    _, _, source, target = fleet.primaries
    replica = fleet.replicas[2]
    reader = Client(replica.port)
    reader("READONLY")
    slots = fleet.owned(source)
    values = fleet.fill(source, slots, target)
    name = next(name for db, name in values if db == 0)
    fleet.expect("the replica has the key", lambda: reader("EXISTS", name) == b":1")
    replica("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -2)
    seen = set()
    job = fleet.migrate(source, slots, target)
    fleet.expect("the slots have gone", lambda: seen.add(reader("EXISTS", name)[:6]) or fleet.count(replica, slots) == 0, 20)
    seen.add(reader("EXISTS", name)[:6])
    if seen != {b":1", b"-MOVED"}:
        fleet.complain(f"{fleet.kind(replica)} tells who reads of {seen}")
    if fleet.ids[source] not in owners(replica, slots):
        fleet.complain("the replica was told of the move by the bus: nothing was tried")
    fleet.ended(source, job[b"name"])
    back = fleet.migrate(target, slots, source)
    for node in (target, source):
        fleet.ended(node, back[b"name"])
    fleet.expect("the replica serves the slots again", lambda: reader("EXISTS", name) == b":1")
    replica("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -1)
    fleet.expect("the replica knows the owner", lambda: fleet.ids[source] in owners(replica, slots))
    fleet.check_replica(source)
    print(f"  {fleet.kind(replica)}")


def cancelled(fleet):
    for source, target in mixed(fleet):
        slots, values, name = in_the_middle(fleet, source, target)
        if source("CLUSTER", "CANCELSLOTMIGRATIONS") != b"+OK":
            fleet.complain("CANCELSLOTMIGRATIONS is refused")
        check_failed(fleet, source, target, slots, values, name, b"cancelled")


def cut(fleet):
    """The connection is closed from either side."""
    for source, target in mixed(fleet):
        for node, flag in ((source, "E"), (target, "i")):
            slots, values, name = in_the_middle(fleet, source, target)
            client = node("CLIENT", "LIST", "FLAGS", flag).split()
            if not client or node("CLIENT", "KILL", "ID", client[0][3:]) != b":1":
                fleet.complain(f"{fleet.kind(node)} has no client with flag {flag}: {client}")
            check_failed(fleet, source, target, slots, values, name)


def flushed(fleet):
    """FLUSHDB at the target: the source continues with all its keys."""
    for source, target in mixed(fleet):
        slots, values, name = in_the_middle(fleet, source, target)
        fleet.writer.rest(True)
        target("FLUSHALL")
        fleet.writer.told.clear()
        fleet.writer.rest(False)
        check_failed(fleet, source, target, slots, values, name)


def killed(fleet):
    """Either end is killed and started again."""
    for source, target in mixed(fleet)[:2]:
        slots, values, name = in_the_middle(fleet, source, target)
        fleet.writer.rest(True)
        target.kill()
        found = fleet.ended(source, name)
        if found.get(b"state") != b"failed":
            fleet.complain(f"{fleet.kind(source)}: {found}")
        target.start()
        target.until("an answer", lambda node: node("PING") == b"+PONG")
        target.until("the cluster", Node.is_up)
        source("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 0)
        fleet.writer.told.clear()
        fleet.writer.rest(False)
        fleet.check_values(source, values)
        fleet.expect(f"{fleet.kind(target)} has keys left", lambda: fleet.count(target, slots) == 0, 20)
        print(f"  target {fleet.kind(target)}")
    for source, target in mixed(fleet)[:1]:
        slots, values, name = in_the_middle(fleet, source, target)
        fleet.writer.rest(True)
        source.kill()
        found = fleet.ended(target, name)
        if found.get(b"state") != b"failed":
            fleet.complain(f"{fleet.kind(target)}: {found}")
        fleet.expect(f"{fleet.kind(target)} has keys left", lambda: fleet.count(target, slots) == 0, 20)
        source.start()
        source.until("an answer", lambda node: node("PING") == b"+PONG")
        source.until("the cluster", Node.is_up)
        fleet.writer.told.clear()
        fleet.writer.rest(False)
        print(f"  source {fleet.kind(source)}")


def words(fleet):
    """Refusals have the same words, and jobs are listed in the same form."""
    real, _, ours, _ = fleet.primaries
    known, own = fleet.ids[fleet.primaries[1]], {real: fleet.ids[real], ours: fleet.ids[ours]}
    name = "a" * 40
    for form in ("MIGRATESLOTS", "MIGRATESLOTS INVALID 0 1", "MIGRATESLOTS SLOTSRANGE 0", "MIGRATESLOTS SLOTSRANGE 0 0",
                 "MIGRATESLOTS SLOTSRANGE 16385 16388", "MIGRATESLOTS SLOTSRANGE 0 a NODE x", "MIGRATESLOTS SLOTSRANGE a 0 NODE x",
                 "MIGRATESLOTS SLOTSRANGE -1 0 NODE x", "MIGRATESLOTS SLOTSRANGE 1 0 NODE x", "MIGRATESLOTS SLOTSRANGE 0 16383 NODE x",
                 "MIGRATESLOTS SLOTSRANGE {0} {1} NODE blah", "MIGRATESLOTS SLOTSRANGE {0} {1} NODE " + name,
                 "MIGRATESLOTS SLOTSRANGE {0} {1} NODE {own}", "MIGRATESLOTS SLOTSRANGE {0} {1} NODE",
                 "MIGRATESLOTS SLOTSRANGE {0} {1} {1} {1} NODE {own}", "MIGRATESLOTS SLOTSRANGE {other} {other} NODE {known}",
                 "MIGRATESLOTS SLOTSRANGE {0} {0} NODE {known} SLOTSRANGE {0} {1} NODE {known}",
                 "MIGRATESLOTS SLOTSRANGE {0} {0} NODE {known} X", "CANCELSLOTMIGRATIONS", "CANCELSLOTMIGRATIONS x",
                 "SYNCSLOTS", "SYNCSLOTS ACK", "SYNCSLOTS PAUSED", "SYNCSLOTS SNAPSHOT-EOF", "SYNCSLOTS REQUEST-PAUSE",
                 "SYNCSLOTS REQUEST-FAILOVER", "SYNCSLOTS FAILOVER-GRANTED", "SYNCSLOTS NOSUCH", "SYNCSLOTS ESTABLISH",
                 "SYNCSLOTS ESTABLISH SOURCE x", "SYNCSLOTS ESTABLISH NAME x", "SYNCSLOTS ESTABLISH SOURCE " + name,
                 "SYNCSLOTS ESTABLISH SOURCE {own}", "SYNCSLOTS ESTABLISH SLOTSRANGE {0} {1}",
                 "SYNCSLOTS ESTABLISH SOURCE {known} NAME " + name + " SLOTSRANGE {0} {1}",
                 "SYNCSLOTS ESTABLISH NAME " + name + " SLOTSRANGE {0} {1}", "SYNCSLOTS FINISH", "SYNCSLOTS FINISH STATE",
                 "SYNCSLOTS FINISH STATE x NAME y", "SYNCSLOTS FINISH STATE x NAME " + name, "SYNCSLOTS FINISH STATE failed",
                 "GETSLOTMIGRATIONS x"):
        said = []
        for node in (real, ours):
            first, _ = fleet.owned(node)
            other, _ = fleet.owned(fleet.primaries[1])
            filled = form.format(first, first + 1, own=own[node].decode(), known=known.decode(), other=other)
            said.append(str(node("CLUSTER", *filled.split())).replace(str(first + 1), "last").replace(str(first), "first"))
        if said[0] != said[1]:
            fleet.complain(f"CLUSTER {form}: {said[0]} and {said[1]}")
    forms = []
    for node in (real, ours):
        jobs = node("CLUSTER", "GETSLOTMIGRATIONS")
        forms.append({(job[1::2][1], tuple(job[::2]), tuple(value[:1] == b":" for value in job[1::2] if value is not None))
                      for job in jobs})
    if forms[0] & forms[1] == set():
        fleet.complain(f"jobs are listed as {forms}")


CASES = [moves, hidden, read_at_replicas, accounted, words, cancelled, cut, flushed, killed]


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
