#!/usr/bin/env python3
"""Sentinels of Cinnabar in one group with real ones, on real servers.

    tests/compat/sentinel.py --server target/release/cinnabar-server --peers ~/.cache/peers

For each real Sentinel: a primary with two replicas, watched by real Sentinels and by Cinnabar's, once with one of
Cinnabar's and once with two. All find each other; the primary dies and all agree on the next one; the old one comes
back as a replica; a failover by hand, and one that is coordinated where the servers know that. A Sentinel that is
started again from the file that it wrote, by its own program or by the other one, goes on as it was. What SENTINEL
replies is compared: the names of fields, errors and simple answers.
"""
import argparse
import os
import signal
import subprocess
import tempfile
import time

from wire import TextClient, free_port

PATIENCE = 60


def until(what, happens):
    """Waits until `happens` is true, and answers it."""
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
        self.port = free_port()
        self.program, self.words = program, list(words)
        self.file = os.path.join(directory, f"{name}.conf")
        self.log = os.path.join(directory, f"{name}.log")
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


class Group:
    """A primary with two replicas and three Sentinels."""

    def __init__(self, directory, server, sentinels):
        lines = ["save ''", "repl-diskless-sync-delay 0", "enable-debug-command yes"]
        self.servers = [Process(server, directory, "server0", lines)]
        first = self.servers[0].port
        lines.append(f"replicaof 127.0.0.1 {first}")
        self.servers += [Process(server, directory, f"server{n}", lines) for n in (1, 2)]
        monitor = [
            f"sentinel monitor group 127.0.0.1 {first} 2",
            "sentinel down-after-milliseconds group 1500",
            "sentinel failover-timeout group 6000",
        ]
        self.sentinels = [
            Process(program, directory, f"sentinel{n}", monitor, words) for n, (program, words) in enumerate(sentinels)
        ]

    def primary(self):
        """The port that all Sentinels name, if it is one."""
        ports = {tuple(s("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "group")) for s in self.sentinels}
        return int(ports.pop()[1]) if len(ports) == 1 else None

    def at(self, port):
        return next(server for server in self.servers if server.port == port)

    def discovered(self):
        states = [named(s("SENTINEL", "MASTER", "group")) for s in self.sentinels]
        return all(state["num-slaves"] == "2" and state["num-other-sentinels"] == "2" for state in states)

    def settled(self, port):
        """All others follow that primary, all Sentinels see it well."""
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
        for process in self.servers + self.sentinels:
            process.process.kill()
            process.process.wait()


def switch(group, old):
    return until("another primary", lambda: (port := group.primary()) and port != old and port)


def take_turns(group, coordinated):
    """Failovers of all kinds, one after the other."""
    until("all find each other", group.discovered)
    old = group.primary()
    until("all is well", lambda: group.settled(old))
    group.at(old).kill()
    began = time.monotonic()
    new = switch(group, old)
    print(f"    another primary after {time.monotonic() - began:.1f} s")
    assert group.at(new).field("role") == "master"
    group.at(old).start()
    until("the old primary follows", lambda: group.settled(new))
    for sentinel in group.sentinels:
        old = group.primary()
        until("it can be done", lambda: sentinel("SENTINEL", "FAILOVER", "group") == "+OK")
        new = switch(group, old)
        until("all is well", lambda: group.settled(new))
    for sentinel in group.sentinels if coordinated else []:
        old = group.primary()
        until("it can be done", lambda: sentinel("SENTINEL", "FAILOVER", "group", "COORDINATED") == "+OK")
        new = switch(group, old)
        until("all is well", lambda: group.settled(new))


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
    until("all is well", lambda: group.discovered() and group.settled(primary))
    group.at(primary).kill()
    new = switch(group, primary)
    group.at(primary).start()
    until("all is well", lambda: group.settled(new))


# Whose replies are the same, whatever has happened before.
ALIKE = [
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
    "SENTINEL SET group down-after-milliseconds 1500 failover-timeout 6000",
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
    "SENTINEL PENDING-SCRIPTS",
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


def compare(group, ours, theirs):
    """Replies of the one and of the other."""
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
    assert not different, "\n    ".join(["replies differ:"] + different)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    args = parser.parse_args()
    peers = os.path.expanduser(args.peers)
    newest = os.path.join(peers, "newest", "bin")
    ours = (os.path.abspath(args.server), ["--sentinel"])
    for name, program, server in [
        ("Valkey", "valkey-sentinel", "valkey-server"),
        ("Redis", "redis-sentinel", "redis-server"),
    ]:
        real = (os.path.join(newest, program), [])
        for sentinels in ([ours, real, real], [ours, ours, real]):
            print(f"{name}: {sentinels.count(ours)} of 3 are Cinnabar's")
            with tempfile.TemporaryDirectory() as directory:
                group = Group(directory, os.path.join(newest, server), sentinels)
                try:
                    take_turns(group, coordinated=name == "Valkey")
                    if name == "Valkey":
                        compare(group, group.sentinels[0], group.sentinels[2])
                        start_anew(group)
                finally:
                    group.stop()
    print("ok")


if __name__ == "__main__":
    main()
