#!/usr/bin/env python3
"""cinnabar-cli against valkey-cli, or redis-cli for what only that has; cinnabar-benchmark against the newest
valkey-benchmark: what each mode prints.

    tools.py --server target/release/cinnabar-server --cli target/release/cinnabar-cli \
        --benchmark target/release/cinnabar-benchmark --peers ~/.cache/peers [--only WORD]

Servers are started on ports that are free. Every case sets up the same keys for both programs and runs them with the same
arguments, environment and input; standard output, standard error and exit status must be equal, the programs' and the
servers' names apart. Figures that differ from run to run (durations, addresses, rates) are replaced by `#` first, in the
cases that say so. Cases with keys are typed on a terminal, of which the screens are compared. Without --only, every
option that the real programs list is tried on both (tools_options.py).
"""
import argparse
import difflib
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import tools_options
from tools_cases import cases
from tools_terminal import on_terminal
from wire import free_port, request

PATIENCE = 30
# Output that is cut off after a time depends on the load of the machine.
ATTEMPTS = 3
# Cases that run at the same time.
AT_ONCE = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the server that all of them talk to")
    parser.add_argument("--cli", required=True, help="cinnabar-cli")
    parser.add_argument("--benchmark", required=True, help="cinnabar-benchmark")
    parser.add_argument("--peers", required=True, help="folder that fetch-peers filled")
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    args = parser.parse_args()
    newest = os.path.join(args.peers, "newest/bin/valkey-cli")
    tools = {"cli": (args.cli, newest if os.path.exists(newest) else os.path.join(args.peers, "matching/bin/valkey-cli")),
             "redis-cli": (args.cli, os.path.join(args.peers, "newest/bin/redis-cli")),
             "benchmark": (args.benchmark, os.path.join(args.peers, "newest/bin/valkey-benchmark"))}
    with tempfile.TemporaryDirectory() as folder:
        every = enumerate(list(cases(0, folder)))
    chosen = {at: case for at, case in every if args.only in case.name and os.path.exists(tools[case.tool][1])}
    differences = all_compared(chosen, tools, args.server)
    for at in sorted(differences):
        print(differences[at])
    options, tried = [], 0
    if not args.only:
        for tool in ("cli", "benchmark"):
            found, count = tools_options.differences(tool, *map(os.path.abspath, tools[tool]))
            options, tried = options + found, tried + count
        print("".join(line + "\n" for line in options), end="")
    print("tools.py: %d cases, %d differ; %d lines of options, %d differ" % (
        len(chosen), len(differences), tried, len(options)))
    sys.exit(1 if differences or options or not chosen else 0)


def all_compared(chosen, tools, server):
    """{number of a case: how the programs differ}. Most cases wait most of the time, so several run at once, each process
    with a server of its own."""
    work, done = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
    workers = [multiprocessing.Process(target=compare_some, args=(work, done, tools, server)) for _ in range(AT_ONCE)]
    # Cases that wait longest begin first; the marks that end the workers are last.
    for at in [*sorted(chosen, key=lambda at: -chosen[at].waits()), *[None] * len(workers)]:
        work.put(at)
    for worker in workers:
        worker.start()
    answered, running = {}, len(workers)
    while running:
        at, difference = done.get()
        if at is None:
            running -= 1
        else:
            answered[at] = difference
    if len(answered) != len(chosen):
        sys.exit("tools.py: only %d of %d cases ran" % (len(answered), len(chosen)))
    return {at: difference for at, difference in answered.items() if difference}


def compare_some(work, done, tools, path):
    """Compares the cases whose numbers it gets, until it gets none."""
    try:
        with tempfile.TemporaryDirectory() as folder, Server(path, folder) as server:
            every = list(cases(server.port, folder))
            for at in iter(work.get, None):
                done.put((at, compared(every[at], tools[every[at].tool], server, folder)))
    finally:
        done.put((None, None))


def compared(case, programs, server, folder):
    """Returns the differences of the two programs, empty if there are none."""
    for _ in range(ATTEMPTS):
        texts = [told(case, os.path.abspath(path), server, folder) for path in programs]
        if texts[0] == texts[1]:
            return ""
    lines = [text.splitlines() for text in reversed(texts)]
    title = "==== %s: %s" % (case.name, " ".join(map(str, case.arguments)))
    return "\n".join([title, *difflib.unified_diff(*lines, "valkey", "cinnabar", lineterm="")])


class Server:
    """The server, for as long as a `with` lasts, and a connection to it."""

    def __init__(self, path, folder):
        self.port = free_port()
        self.command = [path, "--port", str(self.port), "--save", "", "--dir", folder, "--threads", "2",
                        "--enable-debug-command", "yes", "--unixsocket", os.path.join(folder, "socket")]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect()
                return self
            except ConnectionRefusedError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def connect(self):
        self.file = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).makefile("rwb")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def call(self, *words):
        """Sends a command; an error in answer to it ends the program."""
        for _ in range(2):
            try:
                self.file.write(request(words))
                self.file.flush()
                return self.reply(words)
            except ConnectionError:
                # Some cases end all connections.
                self.connect()
        raise ConnectionError("no answer to %r" % words)

    def reply(self, words):
        line = self.file.readline()
        if not line:
            raise ConnectionError
        if line[:1] == b"-":
            raise AssertionError("%r: %s" % (words, line.decode()))
        if line[:1] == b"$" and line != b"$-1\r\n":
            return self.file.read(int(line[1:]) + 2)[:-2]
        if line[:1] == b"*" and line != b"*-1\r\n":
            return [self.reply(words) for _ in range(int(line[1:]))]
        return line[1:-2]


def told(case, path, server, folder):
    """Returns the program's output, as text that can be compared."""
    server.call("FLUSHALL")
    server.call("CONFIG", "RESETSTAT")
    for command in case.setup:
        server.call(*command)
    environment = {"HOME": folder, "TERM": "dumb", "VALKEYCLI_HISTFILE": "/dev/null", **case.environment}
    if case.keys is not None:
        text = on_terminal([path, *case.arguments], environment, case.keys, lambda *words: server.call(*words))
    else:
        text = through_pipes(case, path, environment, server)
    for command in case.teardown:
        server.call(*command)
    for ours, theirs in (("cinnabar-", "valkey-"), ("Cinnabar", "Valkey"), ("cinnabar ", "valkey "),
                         # Any server may be at an address.
                         ("Could not connect to Valkey at", "Could not connect to server at")):
        text = text.replace(ours, theirs)
    for pattern in case.figures:
        text = re.sub(pattern, lambda found: re.sub(r"[\d.]+", "#", found[0]), text)
    return case.view(text)


def through_pipes(case, path, environment, server):
    process = subprocess.Popen([path, *case.arguments], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    if case.meanwhile is not None:
        case.meanwhile(server)
        time.sleep(case.seconds)
        process.send_signal(signal.SIGTERM)
    try:
        out, err = process.communicate(case.stdin, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        out += b"[it does not end]"
    shown = [part.decode("utf-8", "backslashreplace") for part in (out, err)]
    return "%s\n-- standard error\n%s\n-- status %d" % (*shown, process.returncode)


if __name__ == "__main__":
    main()
