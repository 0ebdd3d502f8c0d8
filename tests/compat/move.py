#!/usr/bin/env python3
"""move - every command of docs/move.md, from real servers to Cinnabar and back, while a client writes.

    move.py --server target/release/cinnabar-server --cli target/release/cinnabar-cli --peers ~/.cache/peers

The blocks of the page that are for a shell run section by section, in the orders that users would take. All the while a client
counts up on whichever server takes writes; in the end nothing that was acknowledged is missing, and each block has come to its end.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from replicas import Failed, Server, until
from wire import Client, free_port

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "move.md")
PEERS = ["newest/bin/valkey-server", "newest/bin/redis-server", "matching/bin/valkey-server", "valkey/bin/valkey-server", "redis/bin/redis-server"]
BEGIN = ["Before", "Start Cinnabar", "Follow the old server"]
FAILOVER = "Change roles with FAILOVER"
# Steps of each route, in their order.
ROUTES = {
    "failover and back": [*BEGIN, FAILOVER, "The way back with FAILOVER"],
    "failover and back with a password": [*BEGIN, FAILOVER, "The way back with FAILOVER"],
    "failover for good": [*BEGIN, FAILOVER, "After"],
    "by hand": [*BEGIN, "Change roles by hand", "After"],
    "sentinel": [*BEGIN, "Change roles with Sentinel"],
}
PATIENCE = 150


def sections(page):
    """The blocks of each section, as one text; each begins with the blocks before the first section."""
    found, title = {}, None
    with open(page) as file:
        for heading, block in re.findall(r"^## ([^\n]*)$|^```sh\n(.*?)^```$", file.read(), re.M | re.S):
            if heading:
                title = heading
            else:
                found.setdefault(title, []).append(block)
    before = found.pop(None, [])
    return {title: "".join(before + blocks) for title, blocks in found.items()}


def login(port, password):
    """A client of a server with this password; empty for none."""
    client = Client(port)
    if password and client("AUTH", password) != b"+OK":
        raise EOFError("the password is not that of the server yet")
    return client


class Writer(threading.Thread):
    """Counts up at the server that accepts writes: the old one, or the new one once it has followed."""

    def __init__(self, old, new, password):
        super().__init__(daemon=True)
        self.password = password
        self.ports, self.new, self.stopped, self.acknowledged = [old], new, threading.Event(), 0
        self.start()

    def has_followed(self):
        """Returns whether the new server has followed: it begins as a primary that accepts writes."""
        try:
            return login(self.new, self.password)("ROLE")[0] == b"slave"
        except (OSError, EOFError):
            return False

    def run(self):
        clients = {}
        while not self.stopped.is_set():
            if len(self.ports) == 1 and self.has_followed():
                self.ports.append(self.new)
            for port in self.ports:
                try:
                    client = clients.get(port) or clients.setdefault(port, login(port, self.password))
                    reply = client("RPUSH", "numbers", self.acknowledged + 1)
                    if reply.startswith(b":"):
                        self.acknowledged += 1
                except (OSError, EOFError):
                    clients.pop(port, None)
            time.sleep(0.002)

    def stop(self):
        self.stopped.set()
        self.join()


def sentinel(binary, folder, port):
    at = free_port()
    path = os.path.join(folder, "sentinel.conf")
    with open(path, "w") as file:
        file.write(f"port {at}\ndir {folder}\nsentinel monitor group 127.0.0.1 {port} 1\nsentinel down-after-milliseconds group 5000\nsentinel failover-timeout group 10000\n")
    process = subprocess.Popen([binary, path, "--sentinel"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return process, at


def run_sections(page, titles, args, folder, **names):
    """Runs the blocks of these sections, with the programs under test in the path and these names."""
    blocks, tools = sections(page), os.path.join(folder, "tools")
    os.mkdir(tools)
    for name, path in (("cinnabar-server", args.server), ("cinnabar-cli", args.cli)):
        os.symlink(os.path.abspath(path), os.path.join(tools, name))
    environment = {**os.environ, "PATH": tools + ":" + os.environ["PATH"], **{name: str(value) for name, value in names.items()}}
    for title in titles:
        try:
            done = subprocess.run(["bash", "-euc", blocks[title]], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE, text=True)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"not in time: {title}") from error
        if done.returncode != 0:
            raise Failed(f"{title}: status {done.returncode}\n{done.stdout[-3000:]}")
        time.sleep(0.3)


def run(route, peer, args, folder):
    password = "secret" if "password" in route else ""
    old, new = Server(peer, folder, "--save", "", "--requirepass", password), free_port()
    old.client = login(old.port, password)
    for number in range(2000):
        old("SET", f"key:{number}", "v" * 100)
    names = {"OLD_HOST": "127.0.0.1", "OLD_PORT": old.port, "NEW_HOST": "127.0.0.1", "NEW_PORT": new, "NEW_DIR": folder, "PASSWORD": password}
    watch = None
    if "sentinel" in route:
        watch, at = sentinel(os.path.join(args.peers, "newest/bin/valkey-server"), folder, old.port)
        names.update(SENTINEL_HOST="127.0.0.1", SENTINEL_PORT=at, NAME="group")
    writer = Writer(old.port, new, password)
    try:
        run_sections(PAGE, ROUTES[route], args, folder, **names)
        writer.stop()
        check(writer, [port for port in (old.port, new) if port != old.port or "After" not in ROUTES[route]])
        return f"{writer.acknowledged} writes"
    finally:
        writer.stopped.set()
        if watch:
            watch.terminate()
            watch.wait()
        if old.process.poll() is None:
            old.stop()
        end_daemon(os.path.join(folder, "cinnabar.pid"))


def check(writer, ports):
    """Checks that the primary has all acknowledged writes, in their order."""
    clients = [login(port, writer.password) for port in ports]
    primaries = [client for client in clients if client("ROLE")[0] == b"master"]
    if len(primaries) != 1:
        raise Failed(f"{len(primaries)} primaries")
    numbers = lambda client: [int(number) for number in client("LRANGE", "numbers", 0, -1)]
    wanted = list(range(1, writer.acknowledged + 1))
    until("all is everywhere", lambda: all(numbers(client) == wanted for client in clients))
    if any(client("DBSIZE") != b":2001" for client in clients):
        raise Failed("keys are missing")


def end_daemon(pid_file):
    if os.path.exists(pid_file):
        with open(pid_file) as file:
            pid = int(file.read())
        os.kill(pid, 15)
        until("the server ends", lambda: not os.path.exists(f"/proc/{pid}"))


def run_routes(page, routes, peers, run):
    """Runs every route of a page with every one of these servers; `run` returns the result of one, or fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--cli", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.peers = os.path.abspath(os.path.expanduser(args.peers))
    unused = set(sections(page)) - {title for titles in routes.values() for title in titles}
    if unused:
        sys.exit(f"no route has these sections: {unused}")
    failed = 0
    for peer in (peer for peer in peers if os.path.exists(os.path.join(args.peers, peer))):
        for route in routes:
            label = f"{peer.replace('/bin/', ' ')}: {route}"
            if args.only not in label:
                continue
            folder = tempfile.mkdtemp()
            try:
                print(f"{label}: {run(route, os.path.join(args.peers, peer), args, folder)}", flush=True)
            except (Failed, EOFError, OSError) as error:
                failed += 1
                print(f"{label}: {type(error).__name__} {error}", flush=True)
                for log in sorted(os.listdir(folder)):
                    if log.endswith(".log") or log.startswith("log-"):
                        with open(os.path.join(folder, log), errors="replace") as file:
                            print(f"--- {log}", *file.read().splitlines()[-25:], sep="\n")
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    run_routes(PAGE, ROUTES, PEERS, run)
