#!/usr/bin/env python3
"""Costs of moving whole slots: two nodes of each kind, one kind after the other, in one run, on a quiet machine.

usage: slots.py [--keys N] [--rounds N] [--slots N] NAME=COMMAND NAME=COMMAND...
A COMMAND gets --port, --dir and what a cluster needs appended. Data: N string keys of 100 B in some slots of one node, which go to
the other one and back while 8 clients SET keys in these slots, following MOVED. For each way: `took`, from MIGRATESLOTS until both
say success; `stall`, the longest time that one of another client's SETs took, redirections and all, and that of the seconds before
(the noise); `memory`, by how much the source's resident memory grew at most. Medians of the rounds; in parentheses the lowest and
the highest.
"""
import argparse, os, shlex, shutil, socket, statistics, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/compat"))
from wire import Client, free_port, request


class Node:
    def __init__(self, command, folder):
        self.port = free_port()
        os.makedirs(folder)
        words = [*shlex.split(command), "--port", self.port, "--dir", folder, "--cluster-enabled", "yes", "--cluster-port", free_port(),
                 "--save", "", "--appendonly", "no", "--cluster-require-full-coverage", "no",
                 "--client-output-buffer-limit", "replica 0 0 0"]
        self.words = [str(word) for word in words]
        self.bus = words[words.index("--cluster-port") + 1]
        self.begin()
        self.id = self.client("CLUSTER", "MYID")

    def begin(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.connected()

    def connected(self):
        for _ in range(200):
            try:
                return Client(self.port)
            except OSError:
                time.sleep(0.05)
        raise SystemExit("a node does not start")

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


WRITER = r"""
import gc, random, select, socket, sys, time
gc.disable()
ports, keys = [int(port) for port in sys.argv[2:4]], open(sys.argv[1]).read().split()
pause = float(sys.argv[4])
links = {}
def link(port):
    if port not in links:
        links[port] = socket.create_connection(("127.0.0.1", port)); links[port].setsockopt(6, 1, 1)
    return links[port]
port, worst, count = ports[0], 0.0, 0
print("ready", flush=True)
while True:
    if select.select([sys.stdin], [], [], pause)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        print(worst * 1e3, count, flush=True)
        worst, count = 0.0, 0
    key = random.choice(keys)
    start = time.perf_counter()
    while True:
        s = link(port)
        s.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$100\r\n%s\r\n" % (len(key), key.encode(), b"w" * 100))
        reply = s.recv(512)
        if reply[:6] == b"-MOVED":
            port = int(reply.split()[2].rsplit(b":", 1)[1])
            continue
        if reply[:1] != b"+":
            sys.exit(reply)
        break
    count += 1
    worst = max(worst, time.perf_counter() - start)
"""


class Load:
    def __init__(self, folder, keys, nodes, pause):
        self.process = subprocess.Popen([sys.executable, "-c", WRITER, keys, *(str(node.port) for node in nodes), str(pause)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def read(self):
        """Returns the longest time of a write since the last call, in milliseconds, and the number of writes."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        worst, count = self.process.stdout.readline().split()
        return float(worst), int(count)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def tags(slots):
    def crc16(data):
        crc = 0
        for byte in data:
            crc ^= byte << 8
            for _ in range(8):
                crc = ((crc << 1) ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
        return crc
    found, number = {}, 0
    while len(found) < slots:
        slot = crc16(b"%d" % number) % 16384
        if slot < slots:
            found.setdefault(slot, number)
        number += 1
    return list(found.values())


def fill(node, tags, count):
    with socket.create_connection(("127.0.0.1", node.port)) as link:
        for start in range(0, count, 500):
            some = range(start, min(start + 500, count))
            link.sendall(b"".join(request(("SET", "{%d}%d" % (tags[number % len(tags)], number), "v" * 100)) for number in some))
            left = 5 * len(some)
            while left:
                left -= len(link.recv(min(left, 1 << 16)))


def migrate(source, target, slots):
    grown, ended = [0], threading.Event()
    before = source.resident()

    def watch():
        while not ended.wait(0.01):
            grown[0] = max(grown[0], source.resident() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    start = time.perf_counter()
    reply = source.client("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, slots - 1, "NODE", target.id)
    assert reply == b"+OK", reply
    for node in (source, target):
        while True:
            job = node.client("CLUSTER", "GETSLOTMIGRATIONS")[0]
            job = dict(zip(job[::2], job[1::2]))
            if job[b"state"] == b"success":
                break
            assert job[b"state"] not in (b"failed", b"cancelled"), job
            time.sleep(0.005)
    took = time.perf_counter() - start
    ended.set()
    thread.join()
    return took, grown[0] / (1 << 20)


def run(name, command, options, folder):
    nodes = [Node(command, os.path.join(folder, f"{name}{index}")) for index in range(2)]
    try:
        nodes[0].client("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        nodes[1].client("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        nodes[1].client("CLUSTER", "SET-CONFIG-EPOCH", 1)
        nodes[1].client("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
        for node in nodes:
            while b"cluster_slots_assigned:16384" not in node.client("CLUSTER", "INFO"):
                time.sleep(0.1)
        time.sleep(2)
        of_slots = tags(options.slots)
        fill(nodes[0], of_slots, options.keys)
        keys = os.path.join(folder, f"{name}.keys")
        with open(keys, "w") as file:
            file.write(" ".join("{%d}%d" % (of_slots[number % len(of_slots)], number) for number in range(options.keys)))
        loads = [Load(folder, keys, nodes, 1e-3) for _ in range(7)]
        probe = Load(folder, keys, nodes, 5e-4)
        results = []
        for number in range(options.rounds):
            source, target = nodes[number % 2], nodes[1 - number % 2]
            time.sleep(2)
            probe.read()
            time.sleep(3)
            noise, _ = probe.read()
            took, grown = migrate(source, target, options.slots)
            time.sleep(0.3)
            stall, count = probe.read()
            results.append((took, stall, noise, grown))
            while source.client("CLUSTER", "COUNTKEYSINSLOT", options.slots - 1) != b":0":
                time.sleep(0.1)
            time.sleep(2)
        for load in (*loads, probe):
            load.end()
        for index, what in enumerate(("took, s", "stall, ms", "noise, ms", "memory, MB")):
            values = sorted(result[index] for result in results)
            print(f"{name:10} {what:10} {statistics.median(values):9.2f} ({values[0]:.2f} {values[-1]:.2f})", flush=True)
    finally:
        for node in nodes:
            node.process.kill()
            node.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="slots-")
    for server in options.servers:
        name, command = server.split("=", 1)
        run(name, command, options, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
