#!/usr/bin/env python3
"""move_cluster - every command of docs/move-cluster.md, with clusters of real servers, while clients write.

    move_cluster.py --server target/release/cinnabar-server --cli target/release/cinnabar-cli --peers ~/.cache/peers [--only TEXT]

The blocks of the page that are for a shell run section by section, there and back. All the while clients that know the cluster count
keys up; in the end no key is less than what its client was told. Exits with 1 if anything is wrong.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

from cluster_fleet import free_pair
from cluster_mixed import Writer
from move import end_daemon, sections
from wire import Client

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "move-cluster.md")
PEERS = ["newest/bin/valkey-server", "matching/bin/valkey-server", "redis/bin/redis-server"]
THERE = ["Before", "Start Cinnabar", "Join as replicas", "Take over"]
ROUTES = {"there": [*THERE, "Remove the old nodes"], "there and back": [*THERE, "The way back", "Remove Cinnabar"]}
PATIENCE = 150


class Old:
    """A node of the cluster that runs today."""

    def __init__(self, binary, folder):
        self.port = free_pair()
        os.makedirs(folder)
        words = ["--port", self.port, "--cluster-enabled", "yes", "--cluster-node-timeout", 5000, "--save", "", "--dir", folder,
                 "--repl-diskless-sync-delay", 0]
        with open(os.path.join(folder, "log"), "ab") as log:
            self.process = subprocess.Popen([binary, *map(str, words)], stdout=log, stderr=log)
        while True:
            try:
                Client(self.port)("PING")
                return
            except OSError:
                time.sleep(0.05)

    def has(self, section, text):
        return text in Client(self.port)(*section)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def wait(what, condition, seconds=60):
    end = time.time() + seconds
    while not condition():
        if time.time() > end:
            raise SystemExit(f"{what} does not come about")
        time.sleep(0.1)


def run(route, peer, args, folder):
    blocks, tools = sections(PAGE), os.path.join(folder, "tools")
    os.mkdir(tools)
    for name, path in (("cinnabar-server", args.server), ("cinnabar-cli", args.cli)):
        os.symlink(os.path.abspath(path), os.path.join(tools, name))
    old = [Old(peer, os.path.join(folder, f"old-{at}")) for at in range(6)]
    new = [free_pair() for _ in range(3)]
    writers = []
    try:
        tool = os.path.join(args.peers, "newest/bin/valkey-cli")
        subprocess.run([tool, "--cluster", "create", *(f"127.0.0.1:{node.port}" for node in old), "--cluster-replicas", "1", "--cluster-yes"],
                       check=True, capture_output=True, timeout=PATIENCE)
        for node in old:
            wait("the cluster", lambda: node.has(("CLUSTER", "INFO"), b"cluster_state:ok"))
        wait("replication", lambda: all(node.has(("INFO", "replication"), b"master_link_status:up") for node in old[3:]))
        names = {"OLD_HOST": "127.0.0.1", "OLD_PRIMARIES": " ".join(str(node.port) for node in old[:3]),
                 "OLD_REPLICAS": " ".join(str(node.port) for node in old[3:]), "NEW_HOST": "127.0.0.1",
                 "NEW_PORTS": " ".join(map(str, new)), "NEW_DIR": folder, "PASSWORD": ""}
        environment = {**os.environ, **names, "PATH": tools + ":" + os.environ["PATH"]}
        writers = [Writer([node.port for node in old] + new, seed) for seed in range(2)]
        for at, writer in enumerate(writers):
            # Each counts keys of its own.
            ask = writer.ask
            writer.ask = lambda words, ask=ask, at=at: ask((words[0], f"{at}-{words[1]}"))
            writer.start()
        for title in ROUTES[route]:
            done = subprocess.run(["bash", "-euc", blocks[title]], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{title}: status {done.returncode}\n{done.stdout[-3000:]}")
            time.sleep(0.3)
        for writer in writers:
            writer.ended = True
            writer.join(30)
            if writer.errors:
                raise SystemExit(f"clients were told {set(writer.errors)}")
        left = new if route == "there" else [node.port for node in old]
        for writer in writers:
            writer.ports = left
            for key, told in writer.told.items():
                reply = writer.ask(("GET", key))
                if reply is None or int(reply) < told:
                    raise SystemExit(f"{key} is {reply}, and its client was told {told}")
        wait("the end of old ties", lambda: all(len(Client(port)("CLUSTER", "NODES").splitlines()) == len(left) for port in left))
        return f"{sum(writer.count for writer in writers)} writes"
    finally:
        for writer in writers:
            writer.ended = True
        for node in old:
            node.stop()
        for port in new:
            end_daemon(os.path.join(folder, str(port), "cinnabar.pid"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--cli", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.peers = os.path.abspath(os.path.expanduser(args.peers))
    unused = set(sections(PAGE)) - {title for titles in ROUTES.values() for title in titles}
    if unused:
        sys.exit(f"no route has these sections: {unused}")
    for peer in (peer for peer in PEERS if os.path.exists(os.path.join(args.peers, peer))):
        for route in ROUTES:
            label = f"{peer.replace('/bin/', ' ')}: {route}"
            if args.only in label:
                with tempfile.TemporaryDirectory() as folder:
                    print(f"{label}: {run(route, os.path.join(args.peers, peer), args, folder)}", flush=True)


if __name__ == "__main__":
    main()
