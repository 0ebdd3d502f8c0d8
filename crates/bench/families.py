#!/usr/bin/env python3
"""Streams, sketches and places: two servers side by side, server CPU per command.

usage: families.py [--only WORD] [--rounds N] [--port PORT] BENCHMARK NAME=COMMAND NAME=COMMAND...
BENCHMARK is valkey-benchmark or cinnabar-benchmark; {port} in a COMMAND is replaced. Each server runs on processor 0 and
the load on processor 1. User and system time of the server by /proc counts, as a ratio to the first server's.
All commands go in pipelines of 16 over 50 connections, those of the job queue over 16.
"""
import argparse, itertools, os, random, shlex, socket, statistics, subprocess, sys, tempfile, time

TICK = os.sysconf("SC_CLK_TCK")
PIPELINE = 16
ENTRIES = 100_000
POINTS = 1_000_000
QUEUES = 16
JOBS = 20_000

ENTRY = ["sensor", "12", "temp", "20", "note", "abcdefgh"]
# Name, how many, the command. A point a square kilometer: 6.2 km around a place are some 100 of them.
CASES = [
    ("XADD of 3 fields", 1_000_000, ["XADD", "new", "*", *ENTRY]),
    ("XRANGE of 100", 40_000, ["XRANGE", "stream", "-", "+", "COUNT", "100"]),
    ("PFADD", 1_000_000, ["PFADD", "added", "element:__rand_int__"]),
    ("PFCOUNT of one", 1_000_000, ["PFCOUNT", "sketch:1"]),
    ("PFCOUNT of two", 60_000, ["PFCOUNT", "sketch:1", "sketch:2"]),
    ("PFMERGE of two", 60_000, ["PFMERGE", "merged", "sketch:1", "sketch:2"]),
    ("GEOSEARCH of 100", 20_000, ["GEOSEARCH", "points", "FROMLONLAT", "5.__rand_int__", "5.5", "BYRADIUS", "6.2", "km"]),
]


def encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Server:
    def __init__(self, command, port):
        self.command, self.port = command, port
        self.process = subprocess.Popen(["taskset", "-c", "0", *shlex.split(command.format(port=port))],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tempfile.gettempdir())
        for _ in range(200):
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"{command} did not start")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def load(self, commands, batch=1000):
        """Sends commands that are answered with one line."""
        connection = self.connect()
        replies = connection.makefile("rb")
        commands = iter(commands)
        while part := list(itertools.islice(commands, batch)):
            connection.sendall(b"".join(part))
            for _ in part:
                line = replies.readline()
                if line.startswith(b"-"):
                    raise SystemExit(line)
                if line.startswith(b"$"):
                    replies.readline()
        connection.close()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def fill(server):
    server.load(encode("XADD", "stream", "*", *ENTRY) for _ in range(ENTRIES))
    for sketch in 1, 2:
        server.load(encode("PFADD", f"sketch:{sketch}", *(f"{sketch}:{n}" for n in range(at, at + 100))) for at in range(0, 100_000, 100))
    rng = random.Random(7)
    server.load(encode("GEOADD", "points", *(word for n in range(at, at + 100)
                                            for word in (f"{rng.random() * 10:.6f}", f"{rng.random() * 10:.6f}", f"place:{n:07}")))
                for at in range(0, POINTS, 100))
    for queue in range(QUEUES):
        server.load([encode("XGROUP", "CREATE", f"jobs-{queue}", "workers", "0", "MKSTREAM")])
        server.load(encode("XADD", f"jobs-{queue}", f"1-{n}", *ENTRY) for n in range(1, JOBS + 1))


def jobs(server):
    """One entry is read for a group and acknowledged, then the next: microseconds for both commands."""
    connections = [server.connect() for _ in range(QUEUES)]
    before = server.cpu()
    for first in range(1, JOBS + 1, PIPELINE // 2):
        numbers = range(first, min(first + PIPELINE // 2, JOBS + 1))
        for queue, connection in enumerate(connections):
            name = f"jobs-{queue}"
            connection.sendall(b"".join(encode("XREADGROUP", "GROUP", "workers", "me", "COUNT", "1", "STREAMS", name, ">")
                                        + encode("XACK", name, "workers", f"1-{n}") for n in numbers))
        for connection in connections:
            replies = b""
            while replies.count(b":1\r\n") < len(numbers):
                replies += connection.recv(1 << 16)
    took = server.cpu() - before
    for connection in connections:
        connection.close()
    return took / (QUEUES * JOBS) * 1e6


def benchmark(program, server, count, command):
    before = server.cpu()
    done = subprocess.run(["taskset", "-c", "1", program, "-p", str(server.port), "-P", str(PIPELINE), "-n", str(count), "-c", "50",
                           "-r", "999999999999" if command[0] == "GEOSEARCH" else "1000000", "-q", *command], capture_output=True, text=True)
    if done.returncode or "rror" in done.stdout + done.stderr:
        raise SystemExit(done.stdout + done.stderr)
    return (server.cpu() - before) / count * 1e6


def options_of(usage):
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=26000)
    parser.add_argument("benchmark")
    parser.add_argument("servers", nargs="+")
    return parser.parse_args()


def measure(options, fill, cases):
    """Fills every server anew in each round and has it run the cases, of which each is a name and what measures a server;
    {case: {server: [figure of each round]}}."""
    took = {}
    servers = [spec.split("=", 1) for spec in options.servers]
    for round in range(options.rounds):
        for at, (name, command) in enumerate(servers):
            server = Server(command, options.port + round * len(servers) + at)
            try:
                fill(server)
                for case, run in cases:
                    if options.only in case:
                        took.setdefault(case, {}).setdefault(name, []).append(run(server))
            finally:
                server.stop()
    return took


def show(took):
    """Medians of microseconds, and the last server's as a ratio to the first one's."""
    names = list(next(iter(took.values()), {}))
    print("| us of server CPU | " + " | ".join(names) + " | ratio |\n|---|" + "---:|" * (len(names) + 1))
    for case, of in took.items():
        medians = [statistics.median(of[name]) for name in names]
        print(f"| {case} | " + " | ".join(f"{us:.2f}" for us in medians) + f" | {medians[-1] / medians[0]:.2f} |")


def commands(options, cases):
    """Returns the cases that measure these commands."""
    return [(case, lambda server, count=count, words=words: benchmark(options.benchmark, server, count, words))
            for case, count, words in cases]


def main():
    options = options_of(__doc__)
    show(measure(options, fill, [*commands(options, CASES), ("XREADGROUP and XACK of one", jobs)]))


if __name__ == "__main__":
    main()
