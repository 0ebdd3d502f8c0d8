#!/usr/bin/env python3
"""`cinnabar-cli --cluster` against `valkey-cli --cluster`: what each subcommand prints and what becomes of the cluster.

    cluster_tools.py --cli target/release/cinnabar-cli --peers ~/.cache/peers [--server PATH] [--only WORD]

Both programs get real clusters of the same shape, one each, and the same arguments and input. Standard output, standard
error, exit status and afterwards every node's own view of itself must be equal, once names of nodes and ports are replaced
by the nodes' numbers. Nodes are listed in no order that two clusters share, so lists of nodes are sorted. Cases that change
nothing run on one cluster.
"""
import argparse
import concurrent.futures
import difflib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from cluster_cases import CASES, NODES
from cluster_fleet import Fleet
from wire import start

PATIENCE = 60
# Output that depends on the load of the machine may differ once.
ATTEMPTS = 2
# Cases that run at the same time.
AT_ONCE = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cli", required=True, help="cinnabar-cli")
    parser.add_argument("--peers", required=True, help="folder that fetch-peers filled")
    parser.add_argument("--server", help="the nodes (default: the newest valkey-server)")
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    args = parser.parse_args()
    binaries = os.path.join(args.peers, "newest/bin")
    programs = (os.path.join(binaries, "valkey-cli"), os.path.abspath(args.cli))
    chosen = [at for at, case in enumerate(CASES) if args.only in case.name]
    work, done = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
    server = args.server or os.path.join(binaries, "valkey-server")
    # A signal to this program ends its workers, and these end their servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    workers = [multiprocessing.Process(target=compare_some, args=(work, done, programs, server), daemon=True)
               for _ in range(AT_ONCE)]
    # The longest cases begin first.
    for at in [*sorted(chosen, key=lambda at: -CASES[at].seconds), *[None] * AT_ONCE]:
        work.put(at)
    for worker in workers:
        worker.start()
    answers, running = {}, AT_ONCE
    while running:
        at, difference = done.get()
        if at is None:
            running -= 1
        else:
            answers[at] = difference
    for at in sorted(answers):
        if answers[at]:
            print(answers[at])
    differing = sum(1 for difference in answers.values() if difference)
    print("cluster_tools.py: %d cases, %d differ, %d did not run" % (len(chosen), differing, len(chosen) - len(answers)))
    sys.exit(1 if differing or not chosen or len(answers) < len(chosen) else 0)


def compare_some(work, done, programs, server):
    """Compares the cases whose numbers it gets, until it gets none."""
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        try:
            for name in ("theirs", "ours"):
                sides.append(Side(server, os.path.join(folder, name)))
            for at in iter(work.get, None):
                try:
                    difference = compared(CASES[at], programs, sides)
                except (AssertionError, OSError, EOFError) as error:
                    difference = "==== %s: %s" % (CASES[at].name, error)
                done.put((at, difference))
        finally:
            for side in sides:
                side.stop()
            done.put((None, None))


def compared(case, programs, sides):
    """Returns the differences of the two programs, empty if there are none."""
    for _ in range(ATTEMPTS):
        if case.changes:
            with concurrent.futures.ThreadPoolExecutor() as threads:
                texts = list(threads.map(lambda pair: prepare(case, pair[1]) or told(case, *pair), zip(programs, sides)))
        else:
            prepare(case, sides[0])
            texts = [told(case, program, sides[0]) for program in programs]
        if texts[0] == texts[1]:
            return ""
    title = "==== %s: %s" % (case.name, " ".join(map(str, case.arguments)))
    lines = [text.splitlines() for text in texts]
    return "\n".join([title, *difflib.unified_diff(*lines, "valkey", "cinnabar", lineterm="")])


class Side:
    """The servers of one program: nodes, and a server that is no cluster."""

    def __init__(self, server, folder):
        self.fleet = Fleet(server, folder, NODES)
        self.process, self.standalone = start(server, folder, ["--bind", "127.0.0.1"])
        self.port = self.standalone.socket.getpeername()[1]

    def stop(self):
        self.fleet.stop()
        self.process.kill()
        self.process.wait()


def prepare(case, side):
    side.standalone("FLUSHALL")
    side.fleet.take_shape(case.shape)
    if case.setup is not None:
        case.setup(side.fleet, side.standalone)


def told(case, program, side):
    """Returns the program's output and the cluster's state afterwards, as text that can be compared."""
    fleet = side.fleet
    names = [*fleet.names(), (str(side.port), "<standalone>")]
    scratch = tempfile.mkdtemp()
    places = {"scratch": scratch, "standalone": "127.0.0.1:%d" % side.port}
    for at, (node, name) in enumerate(zip(fleet.nodes, names[::4])):
        places["n%d" % at], places["p%d" % at], places["i%d" % at] = "127.0.0.1:%d" % node.port, str(node.port), name[0]
    arguments = [filled(argument.encode(), places) for argument in case.arguments]
    environment = {"HOME": scratch, "TERM": case.terminal, **case.environment}
    typed = filled(case.stdin, places)
    keyboard, terminal = os.openpty() if case.is_typed else (None, subprocess.PIPE)
    process = subprocess.Popen([program, *arguments], env=environment, stdin=terminal, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        if case.is_typed:
            os.write(keyboard, typed)
            typed = None
        out, err = process.communicate(typed, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        out += b"[it does not end]"
    for end in (keyboard, terminal) if case.is_typed else ():
        os.close(end)
    parts = [part.decode("utf-8", "backslashreplace") for part in (out, err)]
    parts = [case.view(sorted_nodes(masked(part, names, scratch))) for part in parts]
    if case.changes and case.settle is not None:
        case.settle(fleet)
    state = case.view(masked(fleet.state(), names, scratch)) if case.changes else ""
    files = masked(files_in(scratch), names, scratch)
    shutil.rmtree(scratch)
    status = case.view("status %d" % process.returncode)
    return "%s\n-- standard error\n%s\n-- %s\n%s\n%s" % (*parts, status, state, files)


def filled(text, places):
    for place, content in places.items():
        text = text.replace(b"{%s}" % place.encode(), content.encode())
    return text


def masked(text, names, scratch):
    for ours, theirs in (("cinnabar-cli", "valkey-cli"), ("Could not connect to server at", "Could not connect to Valkey at"),
                         (scratch, "<scratch>"), *names):
        text = text.replace(ours, theirs)
    return text


def sorted_nodes(text):
    """Returns the text with lists of nodes sorted: lines that follow a node and are indented deeper belong to it."""
    blocks = []
    for line in text.split("\n"):
        is_node = re.match(r" *(\x1b\[[\d;]*m)?[MS]: |127.0.0.1:<port \d+>( \(|: )", line)
        if blocks and blocks[-1][0] and re.match(" *   (slots:|replicates|[0-9]+ additional)", line):
            blocks[-1][1] += "\n" + line
        else:
            blocks.append([bool(is_node), line])
    ordered = []
    while blocks:
        count = next((at for at, block in enumerate(blocks) if not block[0]), len(blocks))
        ordered += sorted(text for _, text in blocks[:count])
        ordered += [text for _, text in blocks[count:count + 1]]
        blocks = blocks[count + 1:]
    return "\n".join(ordered)


def files_in(folder):
    """Returns the files that were written: JSON with its text, others by name and first bytes."""
    lines = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        shown = "\n},".join(sorted(content.decode().split("\n  },"))) if name.endswith(".json") else content[:5].decode()
        lines.append("%s: %s" % (name, shown))
    return "\n".join(sorted(lines))


if __name__ == "__main__":
    main()
