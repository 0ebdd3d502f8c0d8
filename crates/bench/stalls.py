#!/usr/bin/env python3
"""How long others wait while one client gets rid of, or works out, something huge: two servers in one run.

usage: stalls.py [--only WORD] [--members N] [--rounds N] [--port PORT] NAME=COMMAND NAME=COMMAND...
{port} in a COMMAND is replaced. A process of its own pings every 100 us. For each case it prints, of all rounds:
  wait   the longest round trip, the median round's; in parentheses the one of the round with the shortest
  over   how many round trips took more than a millisecond, a round
  cpu    processor time of the busiest thread that serves clients, in the same time, without pings (none on a thread
         that frees in the background)
The case `idle` is the machine's noise: the same time with nothing to do. `nice -n -15` keeps other work of the machine out.
"""
import argparse, os, shlex, socket, statistics, subprocess, sys, tempfile, time

PROBE = r"""
import gc, socket, sys, time
gc.disable()
s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); s.setsockopt(6, 1, 1)
clock, send, recv = time.perf_counter, s.sendall, s.recv
import select
print("ready", flush=True)
waits, at = [], clock()
while True:
    start = clock()
    send(b"PING\r\n"); recv(64)
    end = clock()
    waits.append(end - start)
    if len(waits) % 64 == 0 and select.select([sys.stdin], [], [], 0)[0]: break
    at = max(at + 1e-4, end)
    while clock() < at: pass
print(max(waits) * 1e3, sum(w > 1e-3 for w in waits))
"""


def encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = self.socket.makefile("rb", 1 << 16)

    def skip(self):
        line = self.replies.readline()
        if line[:1] == b"-":
            raise SystemExit(line.decode())
        if line[:1] == b"$" and line[1:2] != b"-":
            self.replies.read(int(line[1:]) + 2)
        elif line[:1] in b"*%~":
            for _ in range(int(line[1:]) * (2 if line[:1] == b"%" else 1)):
                self.skip()
        return line

    def run(self, *words):
        self.socket.sendall(encode(*words))
        return self.skip()

    def load(self, commands):
        """Commands that were encoded before, some hundred together."""
        for some in commands:
            self.socket.sendall(some[0])
            for _ in range(some[1]):
                self.skip()


class Server:
    def __init__(self, command, port):
        self.port = port
        self.process = subprocess.Popen(shlex.split(command.format(port=port)), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, cwd=tempfile.gettempdir())
        for _ in range(200):
            try:
                self.client = Connection(port)
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"{command} did not start")

    def threads(self):
        """Returns nanoseconds on a processor of each thread that does not free memory."""
        times = {}
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            place = f"/proc/{self.process.pid}/task/{thread}/"
            name = open(place + "comm").read()
            if not name.startswith(("lazy-free", "bio_", "jemalloc")):
                times[thread] = int(open(place + "schedstat").read().split()[0])
        return times

    def stop(self):
        self.process.kill()
        self.process.wait()


def batches(commands, together=20):
    commands = list(commands)
    return [(b"".join(commands[at:at + together]), len(commands[at:at + together])) for at in range(0, len(commands), together)]


def fillings(members):
    """Returns the commands that fill the key `big` with a collection of each type, a hundred members a command."""
    def each(head, element):
        return batches(encode(*head, *(word for n in range(at, at + 100) for word in element(n))) for at in range(0, members, 100))
    return {
        "list": each(("RPUSH", "big"), lambda n: (b"item-%027d" % n,)),
        "set": each(("SADD", "big"), lambda n: (b"member:%08d" % n,)),
        "hash": each(("HSET", "big"), lambda n: (b"field:%09d" % n, b"12345678")),
        "zset": each(("ZADD", "big"), lambda n: (n * 0.5, b"member:%08d" % n)),
        "stream": batches((encode("XADD", "big", f"{n + 1}-1", "sensor", "12", "temp", "20") for n in range(members)), 500),
    }


def cases(members):
    """Yields cases: name, filling, preparation of a later event, command, whether its work continues after its reply."""
    idle = ("idle", None, None, ("PING",), True)
    half = members // 2
    inputs = lambda word, head: [batches(encode(word, name, *(x for n in range(at, at + 100) for x in head(n + shift)))
        for at in range(0, half, 100)) for name, shift in (("a", 0), ("b", half // 2))]
    sets = inputs("SADD", lambda n: (b"m%d" % n,))
    sorted_sets = inputs("ZADD", lambda n: (n, b"m%d" % n))
    in_seconds = lambda seconds: batches((encode("HPEXPIREAT", "big", int((time.time() + seconds) * 1e3), "FIELDS", "100",
        *(b"field:%09d" % n for n in range(at, at + 100))) for at in range(0, members, 100)), 50)
    yield idle
    for kind in "list", "set", "hash", "zset", "stream":
        yield f"DEL of a {kind}", kind, None, ("DEL", "big"), True
    for kind in "list", "set", "hash", "zset", "stream":
        yield f"UNLINK of a {kind}", kind, None, ("UNLINK", "big"), True
    for kind in "list", "set", "hash", "zset", "stream":
        yield f"RENAME over a {kind}", kind, None, ("RENAME", "small", "big"), True
    for kind in "list", "set", "hash", "zset", "stream":
        yield f"end of a {kind}'s time", kind, None, ("PEXPIRE", "big", "20"), True
    for kind in "list", "set", "hash", "zset", "stream":
        yield f"FLUSHALL with a {kind}", kind, None, ("FLUSHALL",), True
    yield "LTRIM of nearly all", "list", None, ("LTRIM", "big", "5", "14"), True
    yield "LPOP of nearly all, replied", "list", None, ("LPOP", "big", members - 10), True
    yield "SPOP of nearly all, replied", "set", None, ("SPOP", "big", members - 10), True
    yield "ZREMRANGEBYRANK of nearly all", "zset", None, ("ZREMRANGEBYRANK", "big", "5", "-5"), True
    yield "XTRIM of nearly all", "stream", None, ("XTRIM", "big", "MAXLEN", "10"), True
    yield "end of all fields' time", "hash", in_seconds, ("PING",), True
    for name in "SINTER", "SUNION", "SDIFF", "SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE":
        yield f"{name} of two", sets, None, (name, *(["to"] if "STORE" in name else []), "a", "b"), False
    for name in "ZINTER", "ZUNION", "ZDIFF", "ZINTERSTORE", "ZUNIONSTORE", "ZDIFFSTORE":
        yield f"{name} of two", sorted_sets, None, (name, *(["to"] if "STORE" in name else []), "2", "a", "b"), False


def work(server, command, lasts):
    start = time.perf_counter()
    server.client.run(*command)
    took = time.perf_counter() - start
    time.sleep(lasts)
    return took


# Time until the announced event, and time that it may last.
SECONDS = 8
LASTS = 2


def measure(server, case, filled, rounds):
    _, filling, announce, command, lasts = case
    lasts = LASTS + 0.5 if announce else 0.6 if lasts else 0.02
    waits, overs, cpus, times = [], [], [], []
    for turn in range(rounds + 1):
        server.client.run("FLUSHALL")
        server.client.run("SET", "small", "x")
        for part in [filled[filling]] if isinstance(filling, str) else filling or []:
            server.client.load(part)
        at = time.time() + SECONDS
        if announce:
            server.client.load(announce(SECONDS))
        time.sleep(max(at - 0.5 - time.time(), 0) if announce else 0.3)
        if turn == rounds:
            was = server.threads()
            work(server, command, lasts)
            cpus = [time - was.get(thread, 0) for thread, time in server.threads().items()]
            continue
        probe = subprocess.Popen([sys.executable, "-c", PROBE, str(server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        probe.stdout.readline()
        time.sleep(0.05)
        times.append(work(server, command, lasts))
        told = probe.communicate("x\n")[0].split()
        waits.append(float(told[0]))
        overs.append(int(told[1]))
    return f"{statistics.median(waits):.2f} ms ({min(waits):.2f})", f"{statistics.median(overs):g}", f"{max(cpus) / 1e6:.2f} ms", f"{min(times) * 1e3:.1f} ms"


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--only", default="")
    options.add_argument("--members", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--port", type=int, default=29500)
    options.add_argument("servers", nargs="+")
    options = options.parse_args()
    filled = fillings(options.members)
    servers = []
    for at, server in enumerate(options.servers):
        name, command = server.split("=", 1)
        servers.append((name, Server(command, options.port + at)))
    print("| | server | wait | over | cpu | command |\n|---|---|---|---|---|---|")
    try:
        for case in cases(options.members):
            if options.only in case[0]:
                for name, server in servers:
                    print(f"| {case[0]} | {name} |", " | ".join(measure(server, case, filled, options.rounds)), "|", flush=True)
    finally:
        for _, server in servers:
            server.stop()


main()
