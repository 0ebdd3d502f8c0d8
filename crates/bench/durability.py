#!/usr/bin/env python3
"""Costs of saving, loading and logging: servers one after the other, in one run, on a quiet machine.

usage: durability.py [--only WORD] [--keys N] [--rounds N] [--port PORT] [--dir DIR] NAME=COMMAND NAME=COMMAND...
A COMMAND gets --port, --dir and what the case needs appended. Data: N string keys of 64 B and a sorted set of N / 2 members.
  disk      a control without a server: fdatasync after appending so many bytes, median and 99th percentile
  save      SAVE and BGSAVE with nobody else: seconds, and of processor time
  load      from the start to the first reply that is not -LOADING: the same two
  bgsave    BGSAVE while 20 clients SET at pipeline 16. `stall`: longest round trip of another client of the server; of
            an idle second server of the same kind, asked in turn by the same process (the machine's noise); of the loaded
            one in as long a time before the save. `rate`: SETs a second before, during, the share; processor time of
            the whole server per SET, before and during
  everysec  processor time of the server per SET at pipeline 16, with `appendonly no` and with `everysec`, in turn
  always    SETs a second, 50 clients without a pipeline, and processor time of the server per SET
The numbers are medians of the rounds; in parentheses the lowest and the highest.
"""
import argparse, os, shlex, shutil, socket, statistics, subprocess, sys, time

PROBE = r"""
import select, socket, sys, time
sockets = []
for port in sys.argv[1:]:
    s = socket.create_connection(("127.0.0.1", int(port))); s.setsockopt(6, 1, 1); sockets.append(s)
worst = [0.0] * len(sockets)
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 2e-4)[0]:
    for at, s in enumerate(sockets):
        start = time.perf_counter()
        s.sendall(b"PING\r\n"); s.recv(64)
        worst[at] = max(worst[at], time.perf_counter() - start)
print(*(w * 1e3 for w in worst))
"""
BENCHMARK = os.path.expanduser(os.environ.get("BENCHMARK", "~/.cache/peers/newest/bin/valkey-benchmark"))
TICK = os.sysconf("SC_CLK_TCK")


def spread(values, form="{:.2f}"):
    middle, low, high = (form.format(v) for v in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


class Server:
    port = 0

    def __init__(self, command, place, *options, clean=True):
        if clean:
            shutil.rmtree(place, ignore_errors=True)
            os.makedirs(place)
        Server.port += 1
        self.port, began = Server.port, time.perf_counter()
        words = [*shlex.split(command), "--port", str(self.port), "--dir", place, "--save", "", *options]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), 600)
                break
            except OSError:
                time.sleep(0.001)
        else:
            raise SystemExit(f"{command} did not start")
        while self.run("DBSIZE")[:1] != b":":
            time.sleep(0.002)
        self.started = time.perf_counter() - began

    def run(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        reply = self.socket.recv(1 << 16)
        if reply[:1] == b"$":
            whole = int(reply[1:reply.index(b"\r\n")]) + reply.index(b"\r\n") + 4
            while len(reply) < whole:
                reply += self.socket.recv(1 << 16)
        if reply[:1] == b"-" and not reply.startswith(b"-LOADING"):
            raise SystemExit(reply.decode())
        return reply

    def info(self, field):
        for line in self.run("INFO", "everything").decode().split("\r\n"):
            if line.startswith(field + ":"):
                return line[len(field) + 1:]

    def cpu(self):
        """Returns seconds of processor time, including children that ended."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:15]) / TICK

    def busy(self):
        """Returns seconds of processor time, exactly, without children."""
        tasks = f"/proc/{self.process.pid}/task"
        return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9

    def bench(self, *words):
        words = [BENCHMARK, "-p", str(self.port), *map(str, words)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def fill(self, keys):
        # Three times as many as there are keys hits 95 % of them.
        self.bench("-q", "-P", 64, "-n", 3 * keys, "-r", keys, "-d", 64, "-t", "set")
        self.bench("-q", "-P", 64, "-n", 3 * keys // 2, "-r", keys // 2, "zadd", "sorted", "__rand_int__", "m:__rand_int__")

    def bgsave(self):
        began = time.perf_counter()
        self.run("BGSAVE")
        while self.info("rdb_bgsave_in_progress") == "1":
            time.sleep(0.01)
        return time.perf_counter() - began

    def stop(self):
        self.process.kill()
        self.process.wait()


def disk(options):
    for size in 100, 2500, 5000:
        path, times = os.path.join(options.dir, "probe"), []
        with open(path, "ab", 0) as file:
            for _ in range(400):
                file.write(b"x" * size)
                began = time.perf_counter()
                os.fdatasync(file)
                times.append((time.perf_counter() - began) * 1e3)
        os.remove(path)
        times.sort()
        print(f"| disk | fdatasync after {size} B | {times[200]:.2f} ms, 99 %: {times[396]:.2f} |", flush=True)


def save(name, command, options):
    server = Server(command, options.place)
    server.fill(options.keys)
    for what in "SAVE", "BGSAVE":
        walls, cpus = [], []
        for _ in range(options.rounds):
            was, began = server.cpu(), time.perf_counter()
            server.bgsave() if what == "BGSAVE" else server.run("SAVE")
            walls.append(time.perf_counter() - began)
            cpus.append(server.cpu() - was)
        print(f"| {what} | {name} | {spread(walls)} s, processor {spread(cpus)} |", flush=True)
    server.stop()
    walls, cpus = [], []
    for _ in range(options.rounds):
        server = Server(command, options.place, clean=False)
        walls.append(server.started)
        cpus.append(server.busy())
        server.stop()
    print(f"| load | {name} | {spread(walls)} s, processor {spread(cpus)} |", flush=True)


def observe(server, idle, during):
    """Returns the result of `during`; SETs a second and processor time a SET meanwhile; longest round trips in ms."""
    ports = [str(server.port), str(idle.port)]
    probe = subprocess.Popen([sys.executable, "-c", PROBE, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    probe.stdout.readline()
    was, count, began = server.cpu(), int(server.info("total_commands_processed")), time.perf_counter()
    answer = during()
    count, took = int(server.info("total_commands_processed")) - count, time.perf_counter() - began
    cpu = server.cpu() - was
    return answer, count / took, cpu / count * 1e6, [float(word) for word in probe.communicate("x\n")[0].split()]


def bgsave(name, command, options):
    server, idle = Server(command, options.place), Server(command, options.place + "-idle")
    server.fill(options.keys)
    load = subprocess.Popen([BENCHMARK, "-p", str(server.port), "-c", "20", "-P", "16", "-n", "2000000000", "-r", str(options.keys),
                             "-d", "64", "-t", "set"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    stalls, rates, shares, costs, seconds, lasts = [], [], [], [], [], 3.0
    for _ in range(options.rounds):
        _, before, cost_before, waits_before = observe(server, idle, lambda: time.sleep(lasts))
        lasts, during, cost, waits = observe(server, idle, server.bgsave)
        stalls.append((waits[0], waits[1], waits_before[0]))
        rates.append((before, during))
        shares.append(during / before)
        costs.append((cost_before, cost))
        seconds.append(lasts)
        time.sleep(1)
    for process in load, idle, server:
        process.kill() if process is load else process.stop()
    load.wait()
    columns = [spread(column) for column in zip(*stalls)]
    print(f"| stall in BGSAVE | {name} | {columns[0]} ms, idle server {columns[1]}, before {columns[2]} |")
    columns = [spread(column, "{:.0f}") for column in zip(*rates)]
    cpus = [spread(column) for column in zip(*costs)]
    print(f"| rate in BGSAVE | {name} | before {columns[0]}, during {columns[1]}, share {spread(shares)}; "
          f"us a SET {cpus[0]}, {cpus[1]}; took {spread(seconds)} s |", flush=True)


def everysec(name, command, options):
    policies = {"no": ["--appendonly", "no"], "everysec": ["--appendonly", "yes", "--appendfsync", "everysec",
                                                         "--auto-aof-rewrite-percentage", "0"]}
    costs = {policy: [] for policy in policies}
    words = ["-q", "-P", 16, "-r", options.keys // 2, "-d", 64, "-t", "set", "-n", options.keys]
    servers = {policy: Server(command, f"{options.place}-{policy}", *more) for policy, more in policies.items()}
    for server in servers.values():
        server.bench(*words)
    for _ in range(options.rounds * 2):
        for policy, server in servers.items():
            was = server.busy()
            server.bench(*words)
            costs[policy].append((server.busy() - was) / options.keys * 1e6)
    for server in servers.values():
        server.stop()
    no, yes = (statistics.median(costs[policy]) for policy in policies)
    print(f"| everysec | {name} | us a SET: off {spread(costs['no'], '{:.3f}')}, on {spread(costs['everysec'], '{:.3f}')}: "
          f"{(yes / no - 1) * 100:+.1f} % |", flush=True)


def always(name, command, options):
    server = Server(command, options.place, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
    words, rates, costs = ["--csv", "-c", 50, "-n", 100_000, "-r", 1_000_000, "-d", 64, "-t", "set"], [], []
    server.bench(*words)
    for _ in range(options.rounds):
        was = server.busy()
        rates.append(float(server.bench(*words).splitlines()[-1].split('","')[1]))
        costs.append((server.busy() - was) / 0.1)
    server.stop()
    print(f"| always | {name} | {spread(rates, '{:.0f}')} SET/s, us of processor a SET {spread(costs, '{:.1f}')} |", flush=True)


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--only", default="")
    options.add_argument("--keys", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--port", type=int, default=29600)
    options.add_argument("--dir", default="/tmp/durability")
    options.add_argument("servers", nargs="+")
    options = options.parse_args()
    Server.port = options.port
    os.makedirs(options.dir, exist_ok=True)
    print("| | server | |\n|---|---|---|")
    if options.only in "disk":
        disk(options)
    for case in save, bgsave, everysec, always:
        if options.only in case.__name__ or case is save and options.only == "load":
            for server in options.servers:
                name, command = server.split("=", 1)
                options.place = os.path.join(options.dir, name)
                case(name, command, options)


if __name__ == "__main__":
    main()
