#!/usr/bin/env python3
"""Runs the commands of README.md that start servers, clients and the load generator.

usage: readme.py --programs FOLDER

A command is run as it stands there, with the built program in the place of `cargo run`, free ports in the place of its own and
fewer requests. A server serves the commands behind it, until the next one is started. Stages of CI have the others.
"""
import argparse, os, re, shlex, shutil, subprocess, tempfile, time

from pages import free_port

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PORTS = ("6379", "7000", "9121", "1234")
# Commands that other tests run: the first two, packages and benches, and what needs a terminal or a minute.
ELSEWHERE = r"cargo (run --release|test)$|cargo bench|packaging/|podman |helm |.*--top$|.*cinnabar-bad-clients"
RUN = r"cargo run --release(?: -p cinnabar-bench --bin (\S+)| -p (\S+))? -- (.*)"
FEWER = {"1000000": "10000", "10": "1"}
PATIENCE = 60


def commands():
    with open(os.path.join(ROOT, "README.md")) as file:
        for line in re.findall(r"^    ((?:cargo|packaging/|podman|helm)[ \w].*)", file.read(), re.MULTILINE):
            yield line.split("  #")[0].rstrip() if "  #" in line else line


class Readme:
    def __init__(self, programs):
        self.programs, self.ports = os.path.abspath(programs), {port: str(free_port()) for port in PORTS}
        self.folder, self.server, self.ran, self.elsewhere = tempfile.mkdtemp(prefix="readme-"), None, 0, 0

    def program(self, name):
        return os.path.join(self.programs, name)

    def words(self, text):
        text = re.sub(r"\d+", lambda number: self.ports.get(number[0], FEWER.get(number[0], number[0])), text)
        return [os.path.join(ROOT, "cinnabar.conf") if word == "/etc/cinnabar.conf" else word for word in shlex.split(text)]

    def stop(self):
        if self.server:
            self.server.kill()
            self.server.wait()

    def start(self, name, words):
        self.stop()
        if "--port" not in words:
            words += ["--port", self.ports["6379"]]
        self.server = subprocess.Popen([self.program(name), *words], cwd=self.folder, stdout=subprocess.DEVNULL)
        port, end = words[words.index("--port") + 1], time.monotonic() + PATIENCE
        while not self.answers(port):
            if self.server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"README.md: {name} {words} does not serve")
            time.sleep(0.05)

    def answers(self, port):
        words = [self.program("cinnabar-cli"), "-p", port, "ECHO", "x"]
        return subprocess.run(words, capture_output=True, check=False).stdout in (b"x\n", b"OK\n")

    def run(self, line):
        if re.match(ELSEWHERE, line):
            self.elsewhere += 1
            return
        found = re.fullmatch(RUN, line)
        if not found:
            raise SystemExit(f"README.md: a command that is not run: {line}")
        name, words = found[1] or found[2] or "cinnabar-server", self.words(found[3])
        self.ran += 1
        if name in ("cinnabar-server", "cinnabar-floor"):
            self.start(name, words)
            return
        if "-p" not in words:
            words = ["-p", self.ports["6379"], *words]
        done = subprocess.run([self.program(name), *words], capture_output=True, check=False, text=True, timeout=PATIENCE)
        if done.returncode or not done.stdout.strip() or "rror" in done.stdout + done.stderr:
            raise SystemExit(f"README.md: {line}: status {done.returncode}\n{done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    readme = Readme(parser.parse_args().programs)
    try:
        for line in commands():
            readme.run(line)
    finally:
        readme.stop()
        shutil.rmtree(readme.folder, ignore_errors=True)
    print(f"README.md: {readme.ran} commands ran; {readme.elsewhere} are run by other tests")
    if not readme.ran:
        raise SystemExit("nothing ran")


main()
