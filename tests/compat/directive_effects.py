#!/usr/bin/env python3
"""directive_effects - every directive has an experiment that shows its effect, or a line that says which test does.

    directive_effects.py --server target/release/cinnabar-server --peer .../valkey-server

An experiment gives a directive two values and looks at what is different then: it must differ, and be the same on the real
server where that has the directive. ELSEWHERE names the test that shows an effect, whose file must name the directive. Entries
of the configuration that say `unsupported` have none; WITHOUT has others without an effect, and the reasons. A directive of the
server that has no line, or a line of no directive, is an error; another name of a directive needs no line. Needs gcc and openssl.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import directive_experiments
import directive_nodes
import directive_system
import directive_tls
from directive_experiments import Pair
from directive_lines import ELSEWHERE, WITHOUT
from unsupported import aliases, unsupported
from wire import TextClient, free_port

MODULES = (directive_experiments, directive_nodes, directive_system, directive_tls)
EXPERIMENTS = {name: experiment for module in MODULES for name, experiment in module.EXPERIMENTS.items()}
# Experiments that wait at the same time.
AT_ONCE = 12
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


class Server:
    """A server for as long as a `with` lasts; called, it runs a command."""

    def __init__(self, binary, *options, env=None):
        self.binary, self.options, self.env = binary, options, env

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        # Another program may take the port first.
        if not any(self.serves() for _ in range(4)):
            sys.exit("%s does not serve: %s" % (self.binary, " ".join(self.options)))
        return self

    def serves(self):
        """Starts the program on a free port; returns whether it accepts connections there."""
        self.port = free_port()
        # A node of a cluster has another port above its own.
        while self.port > 50000:
            self.port = free_port()
        line = [self.binary, "--port", str(self.port), "--save", "", "--dir", self.folder.name, "--enable-debug-command",
                "yes", "--repl-diskless-sync-delay", "0", *self.options]
        self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **self.env} if self.env else None)
        for _ in range(200):
            if self.process.poll() is not None:
                return False
            try:
                self.client = TextClient(self.port)
                return int(self.info("process_id")) == self.process.pid
            except OSError:
                time.sleep(0.05)
        return False

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def __call__(self, *words):
        return self.client(*words)

    def another(self):
        """Another connection."""
        return TextClient(self.port)

    def info(self, field):
        lines = self("INFO", "everything").splitlines()
        return next((line.split(":", 1)[1] for line in lines if line.startswith(field + ":")), None)

    def start(self, *options):
        """Another server of the same program."""
        return Server(self.binary, *options)


def missing_lines(server):
    """Returns directives without a line, lines without a directive, and lines that point at no test."""
    names, told, others = set(server("CONFIG", "GET", "*")[::2]), [*EXPERIMENTS, *ELSEWHERE, *WITHOUT], aliases()
    lines = set(told) | set(unsupported(with_shown=True)) | {others.get(name) for name in told}
    lines |= {other for other, name in others.items() if name in lines}
    found = ["%s has no line" % name for name in sorted(names - lines)]
    found += ["%s is no directive" % name for name in sorted(set(told) - names)]
    found += ["%s has two lines" % name for name in sorted(names) if told.count(name) > 1]
    for name, path in ELSEWHERE.items():
        with open(os.path.join(TESTS, path)) as file:
            if name not in file.read():
                found.append("%s is not named in tests/%s" % (name, path))
    return found


def observed(binary, shared, name, experiment):
    """Returns the observation for each of the two values, or None if the server does not have the directive."""
    if not isinstance(experiment, Pair):
        return [seen_alone(binary, name, experiment, value) for value in experiment.values]
    seen = []
    before = shared("CONFIG", "GET", name)[1]
    for value in experiment.values:
        shared("FLUSHALL")
        reply = shared("CONFIG", "SET", name, value)
        seen.append(reply if reply != "+OK" else experiment.look(shared))
    shared("CONFIG", "SET", name, before)
    return seen


def seen_alone(binary, name, experiment, value):
    """Returns the observation for a value that servers are started with, or the error."""
    try:
        return experiment.look(binary, Server, name, value)
    except (OSError, EOFError, SystemExit) as error:
        return "failed with %s: %r" % (value, error)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--server", required=True)
    p.add_argument("--peer", required=True)
    p.add_argument("--only", default="", help="only directives whose name has this in it")
    args = p.parse_args()
    chosen = {name: experiment for name, experiment in EXPERIMENTS.items() if args.only in name}
    with Server(args.server) as ours, Server(args.peer) as theirs, ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = missing_lines(ours)
        known = set(theirs("CONFIG", "GET", "*")[::2])
        sides = {name: [(args.server, ours), (args.peer, theirs)][:2 if name in known else 1] for name in chosen}
        waiting = {name: [pool.submit(observed, *side, name, experiment) for side in sides[name]]
                   for name, experiment in chosen.items() if not isinstance(experiment, Pair)}
        # The pairs share a server, and have it one after another.
        for name, experiment in chosen.items():
            seen = waiting.get(name) or [pool.submit(observed, *side, name, experiment) for side in sides[name]]
            wrong += compared(name, *(each.result() for each in seen))
    print("\n".join(wrong))
    print("directive_effects: %d experiments, %d shown elsewhere, %d without an effect, %d wrong" % (
        len(EXPERIMENTS), len(ELSEWHERE), len(WITHOUT), len(wrong)))
    return 1 if wrong else 0


def compared(name, seen, peer=None):
    """Returns a line if an experiment saw no effect, or another one than at the real server."""
    if seen[0] == seen[1]:
        return ["%s: no effect is seen: %r, theirs %r" % (name, seen, peer)]
    return ["%s: ours %r, theirs %r" % (name, seen, peer)] if peer is not None and peer != seen else []


if __name__ == "__main__":
    sys.exit(main())
