#!/usr/bin/env python3
"""Costs of following, full synchronizations and failovers: servers one after the other, in one run, on a quiet machine.

usage: replication.py [--only WORD] [--keys N] [--rounds N] [--port PORT] [--dir DIR] NAME=COMMAND NAME=COMMAND...
A COMMAND gets --port, --dir and what the case needs appended. Data: N string keys of 16 B.
  sync      a replica comes while 50 clients SET, 15,000 a second. `stall`: longest round trip of another client's GET; of an
            idle second server of the same kind, asked in turn by the same process (the machine's noise); of the loaded
            one in as long a time before. `online`: from REPLICAOF until the primary calls the replica online, and until
            the replica's link is up and it has all of the stream. `memory`: by how much the primary's resident memory grows
  stream    processor time of the primary and of its replica per SET, at pipeline 16, with a primary alone in turn
  handover  FAILOVER while four clients write: the longest time between two of one client's acknowledged writes
  sentinel  kill -9 of a primary with two replicas and three Sentinels (down-after 1000 ms) until all Sentinels name another
            one and that takes writes; in brackets when it was seen as down, voted on and told to lead. Each kind of
            server with its own Sentinels, the first with the second's, and the first with Sentinels within
The numbers are medians of the rounds; in parentheses the lowest and the highest.
"""
import argparse, os, re, shlex, shutil, socket, subprocess, sys, threading, time

from durability import BENCHMARK, Server, spread

PROBE = r"""
import gc, random, select, socket, sys, time
gc.disable()
sockets = []
for port in sys.argv[2:]:
    s = socket.create_connection(("127.0.0.1", int(port))); s.setsockopt(6, 1, 1); sockets.append(s)
worst, keys = [0.0] * len(sockets), int(sys.argv[1])
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 2e-4)[0]:
    for at, s in enumerate(sockets):
        ask = b"GET key:%012d\r\n" % random.randrange(keys)
        start = time.perf_counter()
        s.sendall(ask); s.recv(256)
        worst[at] = max(worst[at], time.perf_counter() - start)
print(*(w * 1e3 for w in worst))
"""
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
MB = 1 << 20


def until(holds, pause=0.002):
    while not holds():
        time.sleep(pause)


def resident(server):
    return int(open(f"/proc/{server.process.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")


def fill(server, keys):
    server.bench("-q", "-P", 64, "-n", keys, "-r", keys, "-d", 16, "--sequential", "-t", "set")


def follow(replica, primary):
    replica.run("REPLICAOF", "127.0.0.1", primary.port)


def is_online(primary):
    return "state=online" in (primary.info("slave0") or "")


def has_all(replica, primary):
    return replica.info("master_link_status") == "up" and \
        int(replica.info("slave_repl_offset")) >= int(primary.info("master_repl_offset"))


class Watch:
    """Measures round trips of a separate client, and the memory of the first server, until `end`."""

    def __init__(self, keys, *servers):
        words = [sys.executable, "-c", PROBE, str(keys), *(str(server.port) for server in servers)]
        self.probe = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.probe.stdout.readline()
        self.server, self.most, self.ends = servers[0], 0, threading.Event()
        self.sampler = threading.Thread(target=self.sample)
        self.sampler.start()

    def sample(self):
        while not self.ends.wait(0.01):
            self.most = max(self.most, resident(self.server))

    def end(self):
        self.ends.set()
        self.sampler.join()
        return [float(word) for word in self.probe.communicate("x\n")[0].split()]


def sync(name, command, options):
    primary, idle = Server(command, options.place), Server(command, options.place + "-idle")
    primary.run("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    fill(primary, options.keys)
    load = subprocess.Popen([BENCHMARK, "-p", str(primary.port), "-c", "50", "-n", "2000000000", "-r", str(options.keys), "-d", "16",
                             "--rps", "15000", "-t", "set"], **QUIET)
    time.sleep(2)
    stalls, times, growths, lasts = [], [], [], 5.0
    for _ in range(options.rounds):
        watch = Watch(options.keys, primary, idle)
        time.sleep(lasts)
        before = watch.end()
        replica = Server(command, options.place + "-replica")
        time.sleep(0.5)
        was, watch = resident(primary), Watch(options.keys, primary, idle)
        began = time.perf_counter()
        follow(replica, primary)
        until(lambda: is_online(primary))
        online = time.perf_counter() - began
        until(lambda: has_all(replica, primary))
        lasts = time.perf_counter() - began
        during = watch.end()
        stalls.append((during[0], during[1], before[0], before[1]))
        times.append((online, lasts))
        growths.append((watch.most - was) / MB)
        replica.stop()
        time.sleep(1)
    load.kill()
    load.wait()
    for server in primary, idle:
        server.stop()
    columns = [spread(column) for column in zip(*stalls)]
    print(f"| stall in a sync | {name} | {columns[0]} ms, idle server {columns[1]}; before {columns[2]}, idle {columns[3]} |")
    columns = [spread(column) for column in zip(*times)]
    print(f"| time of a sync | {name} | online {columns[0]} s, has all {columns[1]} s; "
          f"memory +{spread(growths, '{:.0f}')} MB of {was / MB:.0f} |", flush=True)


def stream(name, command, options):
    primary, replica, alone = (Server(command, options.place + suffix) for suffix in ("", "-replica", "-alone"))
    primary.run("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    for server in primary, alone:
        fill(server, options.keys)
    follow(replica, primary)
    until(lambda: is_online(primary) and has_all(replica, primary))
    words, count = ["-q", "-P", 16, "-r", options.keys, "-d", 16, "-t", "set", "-n"], 2 * options.keys
    costs = []
    for _ in range(options.rounds):
        was = [server.cpu() for server in (primary, replica, alone)]
        primary.bench(*words, count)
        until(lambda: has_all(replica, primary), 0.05)
        alone.bench(*words, count)
        costs.append([(server.cpu() - before) / count * 1e6 for server, before in zip((primary, replica, alone), was)])
    for server in primary, replica, alone:
        server.stop()
    columns = [spread(column, "{:.3f}") for column in zip(*costs)]
    print(f"| stream | {name} | us a SET: primary {columns[0]}, replica {columns[1]}; a primary alone {columns[2]} |", flush=True)


class Writer(threading.Thread):
    """Writes to the one of two servers that accepts writes; records the longest time between two acknowledged writes."""

    def __init__(self, ports, name):
        super().__init__()
        self.ports, self.key, self.longest, self.writes, self.ends = ports, name, 0.0, 0, False

    def run(self):
        sockets = [socket.create_connection(("127.0.0.1", port)) for port in self.ports]
        at, last = 0, time.perf_counter()
        while not self.ends:
            sockets[at].sendall(b"SET %s %d\r\n" % (self.key, self.writes))
            if sockets[at].recv(256).startswith(b"+OK"):
                now = time.perf_counter()
                self.longest, last, self.writes = max(self.longest, now - last), now, self.writes + 1
                time.sleep(0.0005)
            else:
                at = 1 - at


def handover(name, command, options):
    servers = [Server(command, options.place + suffix, "--repl-diskless-sync-delay", "0") for suffix in ("", "-replica")]
    fill(servers[0], options.keys // 10)
    follow(servers[1], servers[0])
    waits = []
    for at in range(2 * options.rounds):
        old, new = servers[at % 2], servers[1 - at % 2]
        until(lambda: is_online(old) and has_all(new, old))
        writers = [Writer([old.port, new.port], b"writer:%d" % number) for number in range(4)]
        for writer in writers:
            writer.start()
        time.sleep(1.5)
        old.run("FAILOVER", "TO", "127.0.0.1", new.port)
        until(lambda: old.info("master_failover_state") == "no-failover")
        time.sleep(0.5)
        for writer in writers:
            writer.ends = True
            writer.join()
        waits.append(max(writer.longest for writer in writers) * 1e3)
    for server in servers:
        server.stop()
    print(f"| handover | {name} | clients wait {spread(waits, '{:.1f}')} ms |", flush=True)


MONITOR = """sentinel monitor group 127.0.0.1 %d 2
sentinel down-after-milliseconds group 1000
sentinel failover-timeout group 6000"""
STEPS = ["+sdown master", "+try-failover", "+elected-leader", "+failover-state-wait-promotion", "+promoted-slave"]


class Group:
    """A primary with two replicas and three Sentinels; where `sentinel` is None, they are within the servers."""

    def __init__(self, server, sentinel, options):
        self.processes, self.place, self.ports = [], options.place, []
        shutil.rmtree(self.place, ignore_errors=True)
        first = Server.port + 1
        for number in range(3):
            lines = ["save ''", "repl-diskless-sync-delay 0", *([f"replicaof 127.0.0.1 {first}"] if number else [])]
            lines += [] if sentinel else [f"sentinel-port {first + 3 + number}", MONITOR % first]
            self.start(server, f"server{number}", first + number, lines)
        for number in range(3 if sentinel else 0):
            self.start(sentinel, f"sentinel{number}", first + 3 + number, [MONITOR % first], "--sentinel")
        Server.port += 6
        self.servers, self.sentinels = range(first, first + 3), range(first + 3, first + 6)
        self.logs = [os.path.join(self.place, f"{'sentinel' if sentinel else 'server'}{number}", "log") for number in range(3)]

    def start(self, command, name, port, lines, *more):
        place = os.path.join(self.place, name)
        os.makedirs(place)
        with open(os.path.join(place, "conf"), "w") as file:
            file.write("\n".join([f"port {port}", f"dir {place}", f"logfile {place}/log", *lines, ""]))
        self.processes.append(subprocess.Popen([*shlex.split(command), os.path.join(place, "conf"), *more], **QUIET))
        until(lambda: ask(port, "PING").startswith("+PONG"))

    def is_whole(self):
        states = [ask(port, "SENTINEL MASTER group").split("\r\n") for port in self.sentinels]
        return all(state[state.index(field) + 2] == "2" for state in states for field in ("num-slaves", "num-other-sentinels")) \
            and all("link_status:up" in ask(port, "INFO replication") for port in self.servers[1:])

    def primaries(self):
        answers = [ask(port, "SENTINEL GET-MASTER-ADDR-BY-NAME group") for port in self.sentinels[self.within:]]
        return {answer.split("\r\n")[4] if answer.startswith("*2") else "" for answer in answers}

    def fail_over(self):
        """Returns the seconds until another server leads, and the seconds of each step in the leader's log."""
        self.within = 1 if len(self.processes) == 3 else 0
        until(self.is_whole, 0.1)
        # Servers report how far they are within that time.
        time.sleep(11)
        began, wall = time.perf_counter(), time.time()
        self.processes[0].kill()
        until(lambda: len(named := self.primaries()) == 1 and not named & {"", str(self.servers[0])})
        until(lambda: ask(int(self.primaries().pop() or 1), "SET key value").startswith("+OK"))
        took = time.perf_counter() - began
        time.sleep(0.2)
        leader = next((text for text in map(lambda log: open(log).read(), self.logs) if "+elected-leader" in text), "")
        return [took, *(moment(leader, step) - wall for step in STEPS)]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def ask(port, line):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(line.encode() + b"\r\n")
            return client.recv(1 << 16).decode()
    except OSError:
        return ""


def moment(log, step):
    found = re.search(r"(\d+ \w+ \d{4} [\d:]+)\.(\d+) . " + re.escape(step), log)
    return time.mktime(time.strptime(found[1], "%d %b %Y %H:%M:%S")) + int(found[2]) / 1e3 if found else float("nan")


def sentinel(options):
    named = [server.split("=", 1) for server in options.servers]
    kinds = [(f"{name}, its own", command, command) for name, command in named]
    kinds += [(f"{named[0][0]}, those of {name}", named[0][1], command) for name, command in named[1:]]
    kinds.append((f"{named[0][0]}, within", named[0][1], None))
    times = {name: [] for name, _, _ in kinds}
    for _ in range(2 * options.rounds):
        for name, server, watcher in kinds:
            options.place = os.path.join(options.dir, "group")
            group = Group(server, watcher, options)
            times[name].append(group.fail_over())
            group.stop()
    for name, rows in times.items():
        whole, *steps = (spread(column) for column in zip(*rows))
        print(f"| failover | {name} | {whole} s [{'; '.join(map(' '.join, zip(STEPS, steps)))}] |", flush=True)


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--only", default="")
    options.add_argument("--keys", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--port", type=int, default=29600)
    options.add_argument("--dir", default="/tmp/replication")
    options.add_argument("servers", nargs="+")
    options = options.parse_args()
    Server.port = options.port
    os.makedirs(options.dir, exist_ok=True)
    print("| | server | |\n|---|---|---|")
    for case in sync, stream, handover:
        for server in options.servers if options.only in case.__name__ else []:
            name, command = server.split("=", 1)
            options.place = os.path.join(options.dir, name)
            case(name, command, options)
    if options.only in "sentinel":
        sentinel(options)


if __name__ == "__main__":
    main()
