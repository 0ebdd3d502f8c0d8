#!/usr/bin/env python3
"""Runs every command of the documentation's pages, and checks its output.

usage: pages.py --programs FOLDER --peers FOLDER [PAGE...]

A page's blocks for a shell (```sh) run in their order, in one folder of the page's own. A block of `text` behind one is its
output, where `...` stands for anything: in a line for a part of it, alone for any lines. Commands whose programs the machine of
the tests does not have are marked ```sh,elsewhere: they are counted and reported. Pages of `ELSEWHERE` have tests of their own.
A block without a language, also one that is indented, is not for a shell: a line that begins like a command there is an error.
"""
import argparse, os, re, shutil, signal, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "../../docs")
sys.path.insert(0, os.path.join(HERE, "../compat"))
from wire import free_port

# Pages made from the entries, or about internals.
NO_COMMANDS = ("reference/", "design/", "SUMMARY.md")
ELSEWHERE = {"move.md": "tests/compat/move.py", "move-cluster.md": "tests/compat/move_cluster.py"}
# Setup before a page begins. Valkey stands for Dragonfly, which is not on the machine.
BEFORE = {
    "move-dragonfly.md": """
        OLD_HOST=127.0.0.1 OLD_DIR=$PWD/old NEW_DIR=$PWD/new SAVE_AS_RDB=SAVE; mkdir $OLD_DIR
        valkey-server --port $OLD_PORT --dir $OLD_DIR --daemonize yes --pidfile $PWD/old.pid --logfile old.log
        until cinnabar-cli -p $OLD_PORT PING; do sleep 0.1; done
        seq 1000 | sed 's/.*/SET key:& value/' | cinnabar-cli -p $OLD_PORT --pipe
    """,
}
PROGRAMS = ("cinnabar-", "redis-", "valkey-", "curl ", "cargo ", "apt ", "podman ", "helm ", "kubectl ", "systemctl ", "packaging/")
PATIENCE = 120


def pages():
    for folder, _, names in os.walk(DOCS):
        for name in sorted(names):
            page = os.path.relpath(os.path.join(folder, name), DOCS)
            if name.endswith(".md") and not page.startswith(NO_COMMANDS):
                yield page


def blocks(text):
    """Yields language, lines and number of the first line of each block, including indented ones."""
    lines, number = text.split("\n"), 0
    while number < len(lines):
        fence = re.fullmatch(r"```(\S*)", lines[number])
        if fence:
            end = lines.index("```", number + 1)
            yield fence[1], lines[number + 1 : end], number + 2
            number = end
        elif lines[number].startswith("    ") and not lines[number - 1].strip():
            yield "", [lines[number][4:]], number + 1
        number += 1


def matches(expected, printed):
    """Returns whether the lines match, where `...` stands for anything."""
    pattern = "\n".join(
        r"(?:.*\n?)*?" if line == "..." else ".*?".join(map(re.escape, line.split("..."))) for line in expected
    ).replace(r"(?:.*\n?)*?" + "\n", r"(?:.*\n)*?")
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.rstrip("\n").split("\n"))) is not None


class Page:
    """A page's commands: one shell runs all of its blocks."""

    def __init__(self, name):
        self.name, self.elsewhere, self.shell = name, 0, []
        with open(os.path.join(DOCS, name)) as file:
            found = list(blocks(file.read()))
        for index, (language, lines, number) in enumerate(found):
            if language == "sh":
                expected = found[index + 1][1] if index + 1 < len(found) and found[index + 1][0] == "text" else None
                self.shell.append((number, lines, expected))
            elif language == "sh,elsewhere":
                self.elsewhere += 1
            elif language in ("", "text") and any(line.startswith(PROGRAMS) for line in lines):
                raise SystemExit(f"{name}:{number}: a command that is not run")

    def run(self, environment, folder):
        script = BEFORE.get(self.name, "") + "\nprintf '\\0'\n" + "\nprintf '\\0'\n".join("\n".join(lines) for _, lines, _ in self.shell)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=PATIENCE,
        )
        printed = done.stdout.split("\0")[1:] or [done.stdout]
        for (number, _, expected), lines in zip(self.shell, printed):
            is_last = done.returncode and lines is printed[-1]
            if is_last:
                raise SystemExit(f"{self.name}:{number}: status {done.returncode}\n{lines}")
            if expected is not None and not matches(expected, lines):
                raise SystemExit(f"{self.name}:{number}: it printed\n{lines}")


def free_node_port():
    """Returns a port for a node of a cluster: the port of its bus, 10000 above, is none that clients get from the system."""
    while (port := free_port()) + 10_000 >= 32_000:
        pass
    return port


def environment(args, folder):
    programs = [os.path.abspath(args.programs), os.path.join(os.path.abspath(args.peers), "newest/bin")]
    ports = ("PORT", "OLD_PORT", "REPLICA_PORT", "ADMIN_PORT", "TLS_PORT")
    return dict(
        os.environ,
        PATH=os.pathsep.join(programs + [os.environ["PATH"]]),
        HOME=folder,
        SOURCE=os.path.abspath(os.path.join(HERE, "../..")),
        **{name: str(free_port()) for name in ports},
        SENTINEL_PORTS=" ".join(str(free_port()) for _ in range(3)),
        NODE_PORTS=" ".join(str(free_node_port()) for _ in range(8)),
    )


def end_what_is_left(folder):
    for path, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".pid"):
                try:
                    with open(os.path.join(path, name)) as file:
                        os.kill(int(file.read()), signal.SIGKILL)
                except (FileNotFoundError, ProcessLookupError, ValueError):
                    pass  # The server is ending by itself.


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("pages", nargs="*")
    args = parser.parse_args()
    ran = elsewhere = 0
    for name in args.pages or pages():
        if name in ELSEWHERE:
            continue
        page, folder = Page(name), tempfile.mkdtemp(prefix="page-")
        try:
            page.run(environment(args, folder), folder)
        finally:
            end_what_is_left(folder)
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: {len(page.shell)} blocks" + (f", {page.elsewhere} not run here" if page.elsewhere else ""), flush=True)
        ran, elsewhere = ran + len(page.shell), elsewhere + page.elsewhere
    print(f"{ran} blocks of commands ran; {elsewhere} need what this machine does not have")
    if not ran:
        raise SystemExit("nothing ran")


if __name__ == "__main__":
    main()
