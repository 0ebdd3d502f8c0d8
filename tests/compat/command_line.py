#!/usr/bin/env python3
"""command_line - every way to start the server, and what it says of mistakes, as valkey-server does.

    command_line.py --server target/release/cinnabar-server --peer .../valkey-server [--peer ...] [--only WORD]

Each case is a command line, files beside it and text for standard input. The servers run it in a folder of the same
name; what they print, how they end and, of those that serve, which directives have another value than after a plain start
must be equal to what one of the peers does, names, versions, process ids, moments and what is unsupported apart. Standard
library only.
"""
import argparse
import concurrent.futures
import contextlib
import difflib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from command_line_cases import CASES
from unsupported import UNSUPPORTED
from wire import free_port

PATIENCE = 20
AT_ONCE = 6
# A port that is free when the case runs.
PORT = "{port}"
# Lines of the log that are compared: the others depend on the machine, or on the inside of a server.
LOGGED = ("FATAL", "Fatal", "Configuration loaded", "Warning: no config file", "Running mode=", "Ready to accept",
          "Failed", "Can't", "Unable", "Could not", "bye bye", "Unused", "aborting", "xiting", "maxclients")
# Values that differ for reasons of their own: where the case ran, and what the kernel allows.
PASSED_OVER = {"port", "dir"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--peer", required=True, action="append")
    parser.add_argument("--only", default="", help="only cases whose command line has this in it")
    args = parser.parse_args()
    programs = [os.path.abspath(path) for path in [args.server, *args.peer] if os.path.exists(path)]
    chosen = [case for case in CASES if args.only in case.line]
    with tempfile.TemporaryDirectory() as root, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        plain = [Run(path, os.path.join(root, "plain%d" % at), PORTED).values for at, path in enumerate(programs)]
        shared = set(plain[0]) & set(plain[1]) - PASSED_OVER - UNSUPPORTED.keys()

        def told(at, case, program):
            run = Run(programs[program], os.path.join(root, str(at)), case)
            known = [name for name in sorted(run.values) if name in shared and run.values[name] != plain[program][name]]
            if case.expected:
                return [run.text, run.log]
            return run.text.splitlines() + ["%s: %r" % (name, run.values[name]) for name in known]

        def compared(at, case):
            ours = told(at, case, 0)
            if case.expected:
                return [] if of_one_name(case.expected) in "\n".join(ours) else ["not there: %s" % case.expected, *ours]
            differences = []
            for peer in range(1, len(programs)):
                lines = list(difflib.unified_diff(told(at, case, peer), ours, "peer", "server", lineterm=""))
                if not lines:
                    return []
                differences += lines
            return differences

        differences = list(pool.map(compared, range(len(chosen)), chosen))
    for case, lines in zip(chosen, differences):
        if lines:
            print("==== %s %s %s" % (case.line, case.files or "", case.stdin or ""))
            print("\n".join(lines))
    wrong = sum(map(bool, differences))
    print("command_line: %d cases, %d differ" % (len(chosen), wrong))
    return 1 if wrong or not chosen else 0


class Run:
    """Output of a server that is started with a case's options; `values` are its directives, if it serves."""

    def __init__(self, program, folder, case):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.port = str(free_port())
        for name, text in case.files.items():
            path = os.path.join(folder, name)
            if text is None:
                os.makedirs(path)
            elif isinstance(text, tuple):
                os.symlink(*text, path)
            else:
                with open(path, "wb") as file:
                    file.write(self.filled(text))
        words = [self.filled(word) for word in shlex.split(case.line)]
        out, err = os.path.join(folder, ".out"), os.path.join(folder, ".err")
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            process = subprocess.Popen([program, *words], cwd=folder, stdin=subprocess.PIPE, stdout=out_file, stderr=err_file)
            # A server that refuses to start may have ended before it has read.
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(self.filled(case.stdin))
            self.values = self.served(process, out, case.expected)
            try:
                status = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                status = "none in time: %s" % process.wait()
        with open(out, "rb") as out_file, open(err, "rb") as err_file:
            said, wrong = out_file.read().decode("latin-1"), err_file.read().decode("latin-1")
        text = "status %s\n%s\n-- standard error\n%s" % (status, log_lines(said), wrong)
        self.text, self.log = self.neutral(text, program, folder), self.neutral(said, program, folder)

    def filled(self, text):
        if isinstance(text, str):
            text = text.encode()
        return text.replace(PORT.encode(), self.port.encode())

    def served(self, process, out, expected):
        """Waits until the server serves or ends; reads its directives, and ends it.

        An expected line may come after the one that says that it serves."""
        began = time.monotonic()
        while process.poll() is None and time.monotonic() < began + PATIENCE:
            with open(out, "rb") as said:
                log = said.read().decode("latin-1")
            is_late = time.monotonic() > began + 1
            if "Ready to accept connections" in log and (is_late or not expected or expected in log):
                break
            # Its log may keep silent about it.
            if is_late and self.accepts():
                break
            time.sleep(0.01)
        else:
            return {}
        try:
            with socket.create_connection(("127.0.0.1", int(self.port)), timeout=PATIENCE) as connection:
                connection.sendall(b"CONFIG GET *\r\nSHUTDOWN NOSAVE\r\n")
                lines = connection.makefile("rb").read().decode("latin-1").split("\r\n")[1:]
        except OSError:
            process.send_signal(signal.SIGTERM)
            return {}
        return dict(zip(lines[1::4], lines[3::4]))

    def accepts(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.port))) == 0

    def neutral(self, text, program, folder):
        text = of_one_name(text.replace(program, "PROGRAM").replace(folder, "FOLDER").replace(self.port, "PORT"))
        text = re.sub(r"(?m)^\d+:([MCSX]) \d+ \w+ \d{4} [\d:.]+", r"PID:\1 TIME", text)
        text = re.sub(r"(?s)\nExamples:.*", "", text)
        # The peer has the line among its examples.
        text = re.sub(r"(?m)^ +\./valkey-server /path/to/sentinel\.conf --sentinel\n?", "", text)
        # A signal may arrive before the log is open.
        text = re.sub(r"(?m)^\d+:signal-handler .*\n", "", text)
        # The commit differs, and behind the build ours has more: compatible versions, and features.
        text = re.sub(r"(malloc=\S+-|build=|sha=)\S+", r"\1X", text)
        text = re.sub(r"( valkey=\S+){2} redis=\S+ features=\S+", "", text)
        return re.sub(r"\b[Vv](ersion |ersion=|=)\d+\.\d+\.\d+", r"v\g<1>V", text)


def of_one_name(text):
    """Returns the text with the peer's name in the place of ours."""
    for ours, theirs in (("cinnabar", "valkey"), ("Cinnabar", "Valkey"), ("CINNABAR", "VALKEY")):
        text = text.replace(ours, theirs)
    return text


def log_lines(text):
    """Returns lines that do not belong to the log, and those lines of the log that concern the command line."""
    is_log = re.compile(r"\d+:[MCSX] \d+ ")
    return "\n".join(line for line in text.splitlines() if not is_log.match(line) or any(word in line for word in LOGGED))


class PORTED:
    """A start with nothing but a port."""
    line, files, stdin, expected = "--port " + PORT, {}, "", None


if __name__ == "__main__":
    sys.exit(main())
