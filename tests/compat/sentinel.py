#!/usr/bin/env python3
"""Sentinels of Cinnabar in one group with real ones.

    tests/compat/sentinel.py --server target/release/cinnabar-server --peers ~/.cache/peers

Each group is a primary with two replicas, watched by three Sentinels. All find each other; the primary dies and all
agree on the next one; the old one comes back as a replica; a failover by hand, and one that is coordinated where the
servers know that. Which servers and which Sentinels there are stands in `groups`: Cinnabar's or real ones, or three
servers of Cinnabar's with a Sentinel within each.

In some groups more is looked at. A Sentinel that is started again from the file that it wrote, by its own program or by
the other one, goes on as it was. Replies of SENTINEL are compared: the names of fields, errors and simple answers, in
RESP2 and RESP3. Scripts are called with the same words. A Sentinel that stood still says so, and decides nothing.
"""
import argparse
import concurrent.futures
import os
import signal
import subprocess
import tempfile
import time

from wire import TextClient, free_port, request

PATIENCE = 60


def until(what, happens):
    """Waits until `happens` returns a true value, and returns it."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            found = happens()
        except (OSError, EOFError):
            found = None
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.1)


class Process:
    """A server or a Sentinel."""

    def __init__(self, program, directory, name, lines, words=()):
        self.prepare(program, directory, name, lines, None, words)

    def prepare(self, program, directory, name, lines, first, words=()):
        """`first`: the port of the primary that `sentinel` lines speak of; its own where there is none."""
        self.port = free_port()
        self.program, self.words = program, list(words)
        self.file = os.path.join(directory, f"{name}.conf")
        self.log = os.path.join(directory, f"{name}.log")
        lines = [line % (first or self.port) if "%d" in line else line for line in lines]
        with open(self.file, "w") as file:
            file.write("\n".join([f"port {self.port}", f"logfile {self.log}", f"dir {directory}", *lines, ""]))
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program, self.file, *self.words], stdout=subprocess.DEVNULL)
        until(f"{self.file} answers", lambda: self("PING") == "+PONG")

    def __call__(self, *words):
        client = TextClient(self.port)
        try:
            return client(*words)
        finally:
            client.socket.close()

    def kill(self, by=signal.SIGKILL):
        self.process.send_signal(by)
        self.process.wait()

    def field(self, name):
        lines = self("INFO").split("\r\n")
        return next((line.split(":", 1)[1] for line in lines if line.startswith(name + ":")), "")


def named(reply):
    return dict(zip(reply[::2], reply[1::2]))


class Within:
    """The Sentinel within a server, which starts and ends with it."""

    def __init__(self, server):
        self.server, self.port = server, server.sentinel_port

    def __call__(self, *words):
        client = TextClient(self.port)
        try:
            return client(*words)
        finally:
            client.socket.close()


# So that a group needs no more time than it has to.
PERIODS = ("info-period", "1000", "publish-period", "500", "tilt-period", "3000")
MONITOR = """sentinel monitor group 127.0.0.1 %d 2
sentinel down-after-milliseconds group 2000
sentinel failover-timeout group 6000"""
LINES = ["save ''", "repl-diskless-sync-delay 0", "enable-debug-command yes", "loglevel notice"]


class Group:
    """A primary with two replicas and three Sentinels. `sentinels`: program and words of each, None for one within the
    server of the same number."""

    def __init__(self, directory, servers, sentinels, monitor=MONITOR, hurries=True):
        self.directory, self.servers, self.sentinels = directory, [], []
        for number, (program, sentinel) in enumerate(zip(servers, sentinels)):
            server = Process.__new__(Process)
            server.sentinel_port = free_port()
            os.mkdir(os.path.join(directory, f"server{number}"))
            first = self.servers[0].port if self.servers else None
            own = [f"replicaof 127.0.0.1 {first}"] if self.servers else []
            within = [f"sentinel-port {server.sentinel_port}", monitor] if sentinel is None else []
            self.servers.append(server)
            server.prepare(program, os.path.join(directory, f"server{number}"), "server", [*LINES, *own, *within], first)
        first = self.servers[0].port
        for number, sentinel in enumerate(sentinels):
            if sentinel is None:
                self.sentinels.append(Within(self.servers[number]))
            else:
                program, words = sentinel
                file = [monitor % first, "sentinel deny-scripts-reconfig no"]
                self.sentinels.append(Process(program, directory, f"sentinel{number}", file, words))
        if hurries:
            self.hurry()

    def hurry(self):
        for sentinel in self.sentinels:
            assert sentinel("SENTINEL", "DEBUG", *PERIODS) == "+OK"

    def primary(self):
        """The port that all Sentinels name, if it is one."""
        ports = {tuple(s("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "group")) for s in self.present()}
        return int(ports.pop()[1]) if len(ports) == 1 else None

    def present(self):
        """The Sentinels whose process is there."""
        return [s for s in self.sentinels if not isinstance(s, Within) or s.server.process.poll() is None]

    def at(self, port):
        return next(server for server in self.servers if server.port == port)

    def discovered(self):
        states = [named(s("SENTINEL", "MASTER", "group")) for s in self.sentinels]
        return all(state["num-slaves"] == "2" and state["num-other-sentinels"] == "2" for state in states)

    def settled(self, port):
        """Returns whether all others follow that primary, and all Sentinels see it up."""
        others = [server for server in self.servers if server.port != port]
        follow = all(s.field("master_port") == str(port) and s.field("master_link_status") == "up" for s in others)
        flags = [named(s("SENTINEL", "MASTER", "group"))["flags"] for s in self.sentinels]
        fit = all(
            named(replica)["flags"] == "slave" and named(replica)["master-link-status"] == "ok"
            for s in self.sentinels
            for replica in s("SENTINEL", "REPLICAS", "group")
        )
        return follow and fit and all(flag == "master" for flag in flags)

    def stop(self):
        for process in self.servers + [s for s in self.sentinels if isinstance(s, Process)]:
            if hasattr(process, "process"):
                process.process.kill()
                process.process.wait()


def switch(group, old):
    return until("another primary", lambda: (port := group.primary()) and port != old and port)


def take_turns(group, coordinated):
    """Failovers of all kinds, one after the other; answers how long the first one took."""
    until("all find each other", group.discovered)
    old = group.primary()
    until("all is well", lambda: group.settled(old))
    group.at(old).kill()
    began = time.monotonic()
    new = switch(group, old)
    took = time.monotonic() - began
    assert group.at(new).field("role") == "master"
    group.at(old).start()
    until("Sentinels are asked again", lambda: group.hurry() is None)
    until("the old primary follows", lambda: group.settled(new))
    sentinel = group.sentinels[0]
    for words in [[], ["COORDINATED"]] if coordinated else [[]]:
        old = group.primary()
        until("it can be done", lambda: sentinel("SENTINEL", "FAILOVER", "group", *words) == "+OK")
        new = switch(group, old)
        until("all is well", lambda: group.settled(new))
    return took


def start_anew(group):
    """Each Sentinel by the program of the next one, from its own file."""
    primary = group.primary()
    ids = [sentinel("SENTINEL", "MYID") for sentinel in group.sentinels]
    programs = [(sentinel.program, sentinel.words) for sentinel in group.sentinels]
    for sentinel, (program, words) in zip(group.sentinels, programs[1:] + programs[:1]):
        sentinel.kill()
        sentinel.program, sentinel.words = program, words
        sentinel.start()
    assert ids == [sentinel("SENTINEL", "MYID") for sentinel in group.sentinels]
    assert group.primary() == primary
    group.hurry()
    until("all is well", lambda: group.discovered() and group.settled(primary))
    group.at(primary).kill()
    new = switch(group, primary)
    group.at(primary).start()
    until("all is well", lambda: group.settled(new))


SCRIPT = """#!/bin/sh
echo "$@" >> %s
"""


def call_scripts(group):
    """A failover runs scripts; all Sentinels call them with the same words."""
    files = []
    for number, sentinel in enumerate(group.sentinels):
        paths = []
        for name in ("notification", "client-reconfig"):
            path = os.path.join(group.directory, f"{name}{number}")
            with open(path, "w") as file:
                file.write(SCRIPT % (path + ".calls"))
            os.chmod(path, 0o755)
            assert sentinel("SENTINEL", "SET", "group", f"{name}-script", path) == "+OK"
            paths.append(path + ".calls")
        files.append(paths)
    old = group.primary()
    group.at(old).kill()
    new = switch(group, old)
    group.at(old).start()
    until("all is well", lambda: group.settled(new))
    switched = f"group 127.0.0.1 {old} 127.0.0.1 {new}"

    def told():
        told = [[open(path).read().splitlines() for path in paths] for paths in files]
        return told if all(f"+switch-master {switched}" in events for events, _ in told) else None

    told = until("all scripts were called", told)
    down = f"+sdown master group 127.0.0.1 {old}"
    assert all(down in events for events, _ in told), told
    observers = [f"group observer start 127.0.0.1 {old} 127.0.0.1 {new}"] * 2
    leader = [f"group leader start 127.0.0.1 {old} 127.0.0.1 {new}"]
    assert sorted(call for _, calls in told for call in calls) == leader + observers, told


def stand_still(group):
    """A Sentinel that was stopped relies on no information for a while."""
    old = group.primary()
    for sentinel in group.sentinels:
        state = lambda name: next(line for line in sentinel("INFO").split("\r\n") if line.startswith(name + ":"))
        before = state("sentinel_total_tilt")
        sentinel.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        sentinel.process.send_signal(signal.SIGCONT)
        until("it says so", lambda: state("sentinel_tilt") == "sentinel_tilt:1")
        assert state("sentinel_total_tilt") != before
        until("it has ended", lambda: state("sentinel_tilt") == "sentinel_tilt:0")
        assert state("sentinel_tilt_since_seconds") == "sentinel_tilt_since_seconds:-1"
    until("all is well", lambda: group.settled(old))


# Orders with the same reply at any time.
ALIKE = [
    "SENTINEL PENDING-SCRIPTS",
    "SENTINEL NOPE",
    "SENTINEL MASTER",
    "SENTINEL MASTER nope",
    "SENTINEL GET-MASTER-ADDR-BY-NAME nope",
    "SENTINEL GET-MASTER-ADDR-BY-NAME group",
    "SENTINEL CKQUORUM group",
    "SENTINEL CKQUORUM nope",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 x 0 *",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 x *",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0 *",
    "SENTINEL FAILOVER group NOW",
    "SENTINEL FAILOVER nope",
    "SENTINEL MONITOR group 127.0.0.1 1 1",
    "SENTINEL MONITOR other 127.0.0.1 x 1",
    "SENTINEL MONITOR other 127.0.0.1 70000 1",
    "SENTINEL MONITOR other 127.0.0.1 1 x",
    "SENTINEL MONITOR other 127.0.0.1 1 0",
    "SENTINEL MONITOR other nobody.nowhere 1 1",
    "SENTINEL SET nope quorum 1",
    "SENTINEL SET group quorum",
    "SENTINEL SET group quorum 0",
    "SENTINEL SET group quorum x",
    "SENTINEL SET group nope 1",
    "SENTINEL SET group rename-command a",
    "SENTINEL SET group notification-script /bin/true",
    "SENTINEL SET group down-after-milliseconds 2000 failover-timeout 6000",
    "SENTINEL CONFIG GET *",
    "SENTINEL CONFIG GET nope",
    "SENTINEL CONFIG SET nope 1",
    "SENTINEL CONFIG SET announce-port",
    "SENTINEL CONFIG SET announce-port x",
    "SENTINEL CONFIG SET announce-port 1 announce-port 2",
    "SENTINEL CONFIG SET announce-port 0",
    "SENTINEL CONFIG NOPE x",
    "SENTINEL DEBUG",
    "SENTINEL DEBUG nope 1",
    "SENTINEL DEBUG info-period x",
    "SENTINEL DEBUG info-period 10000",
    "SENTINEL SIMULATE-FAILURE help",
    "SENTINEL SIMULATE-FAILURE nope",
    "SENTINEL FLUSHCONFIG",
    "SENTINEL REMOVE nope",
    "SENTINEL RESET nope",
    "SENTINEL HELP",
    "PUBLISH channel x",
    "PUBLISH __sentinel__:hello x",
    "ROLE",
    "GET x",
    "CONFIG GET port",
    "MULTI",
    "CLIENT NO-TOUCH on",
]


def compare(group):
    """Compares replies of the first Sentinel, which is ours, and of the last."""
    ours, theirs = group.sentinels[0], group.sentinels[2]
    different = []
    for line in ALIKE:
        words = line.split()
        if ours(*words) != theirs(*words):
            different.append(f"{line}\n      {ours(*words)}\n      {theirs(*words)}")
    for what in ("MASTER", "REPLICAS", "SENTINELS"):
        replies = [sentinel("SENTINEL", what, "group") for sentinel in (ours, theirs)]
        names = [(reply if what == "MASTER" else reply[0])[::2] for reply in replies]
        if names[0] != names[1]:
            different.append(f"fields of {what}: {names}")
    for line in TYPED:
        types = [types_of(sentinel.port, line) for sentinel in (ours, theirs)]
        if types[0] != types[1]:
            different.append(f"types of {line}: {types}")
    assert not different, "\n    ".join(["replies differ:"] + different)


# Orders whose replies have other types in RESP3.
TYPED = [
    "SENTINEL MASTER group",
    "SENTINEL MASTERS",
    "SENTINEL REPLICAS group",
    "SENTINEL SENTINELS group",
    "SENTINEL CONFIG GET *",
    "SENTINEL DEBUG",
    "SENTINEL GET-MASTER-ADDR-BY-NAME nope",
    "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0 *",
    "SENTINEL INFO-CACHE nope",
    "ROLE",
    "INFO sentinel",
]


def types_of(port, line):
    """The types of a reply in RESP3: of an aggregate's first items, too."""
    client = TextClient(port)
    client.socket.sendall(request(["HELLO", "3"]) + request(line.split()))
    types = [read_types(client.file), read_types(client.file)][1]
    client.socket.close()
    return types


def read_types(file):
    """Reads a reply and answers the signs of its types."""
    line = file.readline().decode("latin-1").strip()
    sign, rest = line[:1], line[1:]
    if sign in "*%~>":
        items = [read_types(file) for _ in range(int(rest) * (2 if sign == "%" else 1))]
        return sign + "(" + "".join(items[:4]) + ")"
    if sign in "$=" and int(rest) >= 0:
        file.read(int(rest) + 2)
    return sign


def groups(ours, peers):
    """Returns groups: name, servers, Sentinels, whether FAILOVER is known, and further checks."""
    real = lambda name, kind: os.path.join(peers, name, "bin", kind)
    cinnabar, valkey = ours, real("newest", "valkey-server")
    own = (ours, ["--sentinel"])
    sentinel = lambda name, kind: (real(name, kind), [])
    newest = sentinel("newest", "valkey-sentinel")
    former = (real("matching", "valkey-server"), ["--sentinel"])
    return [
        ("Valkey 9.1, one of ours", [cinnabar] * 3, [own, newest, newest], True, [compare, call_scripts]),
        ("Valkey 9.1, two of ours", [cinnabar, valkey, cinnabar], [own, own, newest], True, [start_anew, stand_still]),
        ("Valkey 9.1, real servers", [valkey] * 3, [own, newest, own], True, []),
        ("Valkey 8.1", [cinnabar] * 3, [own, former, former], False, []),
        ("Valkey 8.0", [cinnabar] * 3, [own, own, sentinel("valkey", "valkey-sentinel")], False, []),
        ("Redis 8.0", [cinnabar] * 3, [own, *[sentinel("newest", "redis-sentinel")] * 2], False, []),
        ("Redis 7.0", [cinnabar] * 3, [own, *[sentinel("redis", "redis-sentinel")] * 2], False, []),
        ("within", [cinnabar] * 3, [None] * 3, True, []),
        ("within, with a real one", [cinnabar] * 3, [None, None, newest], True, []),
    ]


def run(group):
    """Returns the errors."""
    name, servers, sentinels, coordinated, more = group
    with tempfile.TemporaryDirectory() as directory:
        group = None
        began = time.monotonic()
        try:
            group = Group(directory, servers, sentinels)
            took = take_turns(group, coordinated)
            for look in more:
                look(group)
            print(f"{name}: another primary after {took:.1f} s, all in {time.monotonic() - began:.0f} s", flush=True)
            return None
        except Exception as error:
            logs = [os.path.join(folder, file) for folder, _, files in os.walk(directory) for file in files]
            for log in sorted(log for log in logs if log.endswith(".log")):
                with open(log, errors="replace") as lines:
                    print(f"---- {name}: {log}", *lines.read().splitlines()[-40:], sep="\n")
            return f"{name}: {type(error).__name__}: {error}"
        finally:
            if group:
                group.stop()


def measure(name, servers, sentinels, runs):
    """Returns the seconds without writes after a primary was killed, for a client that asks Sentinels."""
    times = []
    with tempfile.TemporaryDirectory() as directory:
        group = Group(directory, servers, sentinels, monitor=MEASURED, hurries=False)
        try:
            until("all find each other", group.discovered)
            for _ in range(runs):
                until("all is well", lambda: (port := group.primary()) and group.settled(port))
                old = group.primary()
                # The next failover is not delayed because of the last one.
                time.sleep(11)
                group.at(old).kill()
                began = time.monotonic()
                while not writes(group, old):
                    time.sleep(0.01)
                times.append(time.monotonic() - began)
                group.at(old).start()
        finally:
            group.stop()
    times.sort()
    shown = " ".join(f"{seconds:.2f}" for seconds in times)
    print(f"{name}: median {times[len(times) // 2]:.2f} s of {shown}", flush=True)


def writes(group, old):
    """Returns whether the primary that a Sentinel names accepts a write, and is another one."""
    for sentinel in group.present():
        try:
            port = int(sentinel("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "group")[1])
            if port != old and group.at(port)("SET", "key", "value") == "+OK":
                return True
        except (OSError, EOFError):
            pass
    return False


MEASURED = """sentinel monitor group 127.0.0.1 %d 2
sentinel down-after-milliseconds group 1000
sentinel failover-timeout group 5000"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--group", help="only those whose name has this")
    parser.add_argument("--jobs", type=int, default=3, help="groups at a time")
    parser.add_argument("--measure", type=int, metavar="N", help="instead: how long N failovers take, ours and real")
    args = parser.parse_args()
    ours, peers = os.path.abspath(args.server), os.path.expanduser(args.peers)
    if args.measure:
        own = (ours, ["--sentinel"])
        valkey, real = (os.path.join(peers, "newest", "bin", name) for name in ("valkey-server", "valkey-sentinel"))
        setups = [
            ("Cinnabar and valkey-sentinel", [ours] * 3, [(real, [])] * 3),
            ("Cinnabar and its Sentinels", [ours] * 3, [own] * 3),
            ("Cinnabar with Sentinels within", [ours] * 3, [None] * 3),
            ("Valkey and valkey-sentinel", [valkey] * 3, [(real, [])] * 3),
        ]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda setup: measure(*setup, args.measure), setups))
        return
    all_groups = groups(ours, peers)
    chosen = [group for group in all_groups if (args.group or "") in group[0]]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        wrong = [failure for failure in pool.map(run, chosen) if failure]
    assert not wrong, "\n".join(wrong)
    print("ok")


if __name__ == "__main__":
    main()
