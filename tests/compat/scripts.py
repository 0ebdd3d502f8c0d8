#!/usr/bin/env python3
"""Random scripts beside a real server: `lua-fuzz` of the conformance tools makes them, and both reply byte for byte the same.

    scripts.py --server target/release/cinnabar-server --peer 'valkey-server' --fuzzer .../lua-fuzz [--seed N] [--seconds 30] [--programs N]

The seed is a fresh one unless it is given, and is printed. Differences that have one of CAUSES are counted and nothing else;
exits with 1 if there is any other, which is shown with the part of the script that it comes from.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.machinery import SourceFileLoader

from wire import free_port

BATCH = 100
SHOWN = 10
# Parts of scripts whose replies differ with a reason.
CAUSES = {
    "the version in a dump": r"\bDUMP\b",
    "the order of keys and of sets": r"call (KEYS|SCAN|RANDOMKEY)\b|\b(FUNCTION LIST|COMMAND INFO)\b",
    "clocks": r"os\.clock|call (SLOWLOG|COMMANDLOG|TIME)\b",
    "what a server tells of itself": r"call (LOLWUT|MEMORY|INFO)\b",
    "integers of scripts, which are texts there": r"\bOBJECT ENCODING\b",
    "an error whose text is a metamethod's": r"error setmetatable .*__index",
    "replies that wait where SCRIPT DEBUG comes": r"^SCRIPT DEBUG",
    "how often the collector ran before a deep call": r"\bf [123]\d{4}\b",
}

# A key that lives for less than a second is there or not as the clock wants, and so is all that later scripts see of it.
SHORT_LIVED = re.compile(r'"(?:PSETEX|PEXPIRE)","[^"]*",[("]*\d{1,3}[)"]*[,)]|"PX",[("]*\d{1,3}[)"]*[,)]', re.IGNORECASE)


def cause(text):
    """The cause of a difference in this part of a script."""
    plain = re.sub(r'["\', ()]+', " ", text)
    for name, pattern in CAUSES.items():
        if re.search(pattern, plain, re.IGNORECASE):
            return name
    return None


def same(tool, real, ours):
    """Whether both replies are the same, but for the sign of a NaN, which the processor takes from either operand."""
    plain = [tool.norm(reply).replace(b"-nan", b"nan") for reply in (real, ours)]
    return plain[0] == plain[1]


def values(reply):
    """The texts of an array of strings."""
    return re.findall(rb"\$\d+\r\n(.*?)\r\n(?=\$|\Z)", reply, re.DOTALL)


def is_lost(reply):
    """Whether the fuzzer waited in vain for this reply, or for one before it."""
    return reply.startswith(b"<<")


class Servers:
    """A real server and ours, started anew when one of them ends or hangs."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.processes = binaries, folder, []

    def start(self):
        """Starts both; returns their ports."""
        self.stop()
        ports = [free_port(), free_port()]
        for binary, port in zip(self.binaries, ports):
            words = [os.path.abspath(binary), "--port", str(port), "--save", "", "--dir", self.folder, "--enable-debug-command", "yes"]
            self.processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))
        return ports

    def has_ours_ended(self):
        return self.processes[-1].poll() is not None

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []


class Comparison:
    def __init__(self, tool, servers, seed):
        self.tool, self.generator = tool, tool.Gen(seed)
        self.families = sorted(self.generator.fam)
        self.processes = servers
        self.protocol, self.programs, self.causes, self.others = 2, 0, Counter(), 0
        self.connect()

    def connect(self):
        self.servers = [self.tool.Conn("127.0.0.1", port) for port in self.processes.start()]

    def everywhere(self, commands):
        return [server.many(commands) for server in self.servers]

    def batch(self):
        programs = [self.generator.program(self.families) for _ in range(BATCH)]
        lasting = [program for program in programs if not SHORT_LIVED.search(str(program[2]))]
        self.causes["keys that live for an instant, left out"] += len(programs) - len(lasting)
        programs = lasting
        self.protocol = 5 - self.protocol
        commands, owners = [["HELLO", str(self.protocol)]], [None]
        for number, (_, _, own) in enumerate(programs):
            commands += own
            owners += [number] * len(own)
        differ, replies = set(), self.everywhere(commands)
        # A script may end a real server, or have it busy for ever: there is nothing to compare from there on.
        known = next((number for number, reply in enumerate(replies[0]) if is_lost(reply)), len(commands))
        for owner, command, real, ours in list(zip(owners, commands, *replies))[:known]:
            if owner is not None and owner not in differ and not same(self.tool, real, ours):
                differ.add(owner)
                self.note(programs[owner], command, real, ours)
        self.programs += BATCH
        if known < len(commands):
            self.causes["a real server that ends or hangs"] += 1
            if self.processes.has_ours_ended():
                self.others += 1
                print(f"DIFFERENT end of both servers at {' '.join(map(str, commands[known]))[:1500]}")
            self.connect()
            return
        real, ours = (replies[0] for replies in self.everywhere([["EVAL", self.tool.SNAP, "0"]]))
        if real != ours:
            self.others += 1
            print(f"DIFFERENT data after program {self.programs}:\n  there {real[:600]!r}\n  here  {ours[:600]!r}")
        self.everywhere([["SELECT", "1"], ["FLUSHDB"], ["SELECT", "0"], ["FLUSHALL"], ["FUNCTION", "FLUSH"]])
        if self.programs % 1000 == 0:
            for server in self.servers:
                self.tool.reset(server)

    def note(self, program, command, real, ours):
        family, probes, _ = program
        parts = [(" ".join(map(str, command)), real, ours)]
        if probes and command[1] == self.generator.join(probes):
            pairs = list(zip(probes, values(real), values(ours)))
            parts = [part for part in pairs if not same(self.tool, *part[1:])] or parts
        for text, *replies in parts:
            why = cause(text)
            if why:
                self.causes[why] += 1
                continue
            self.others += 1
            if self.others <= SHOWN:
                print(f"DIFFERENT ({family}, RESP{self.protocol}): {text[:1500]}\n  there {replies[0][:600]!r}\n  here  {replies[1][:600]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--fuzzer", required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--programs", type=int, default=10**9, help="at most so many")
    options = parser.parse_args()
    print(f"scripts.py: seed {options.seed}", flush=True)
    # The fuzzer reads a reply within a reply by calling itself.
    sys.setrecursionlimit(20_000)
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers((options.peer, options.server), folder)
        try:
            comparison = Comparison(SourceFileLoader("lua_fuzz", options.fuzzer).load_module(), servers, options.seed)
            end = time.monotonic() + options.seconds
            while time.monotonic() < end and comparison.programs < options.programs:
                comparison.batch()
        finally:
            servers.stop()
    for name, count in comparison.causes.most_common():
        print(f"{count} differ by {name}")
    print(f"scripts.py: {comparison.others} differences in {comparison.programs} programs, seed {options.seed}")
    return bool(comparison.others)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
