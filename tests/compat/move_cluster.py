#!/usr/bin/env python3
"""move_cluster - every command of docs/move-cluster.md, with clusters of real servers, while clients write.

    move_cluster.py --server target/release/cinnabar-server --cli target/release/cinnabar-cli --peers ~/.cache/peers [--only TEXT]

The blocks of the page that are for a shell run section by section, there and back. All the while clients that know the cluster count
keys up; in the end no key is less than what its client was told. Exits with 1 if anything is wrong.
"""
import os

from cluster_fleet import BUS, free_pair
from cluster_mixed import Writer
from cluster_processes import ClusterTool, Node
from move import end_daemon, login, run_routes, run_sections
from replicas import Failed, until

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "move-cluster.md")
PEERS = ["newest/bin/valkey-server", "matching/bin/valkey-server", "redis/bin/redis-server"]
THERE = ["Before", "Start Cinnabar", "Join as replicas", "Take over"]
ROUTES = {"there": [*THERE, "Remove the old nodes"], "there and back": [*THERE, "The way back", "Remove Cinnabar"],
          "there and back with a password": [*THERE, "The way back", "Remove Cinnabar"]}


class Old(Node):
    """A node of the cluster that runs today."""

    def __init__(self, binary, folder, password):
        self.password = password
        super().__init__(binary, folder, "--requirepass", password, "--masterauth", password)

    def client(self):
        return login(self.port, self.password)

    @staticmethod
    def ports():
        port = free_pair()
        return port, port + BUS

    def words(self):
        return ["--port", self.port, "--cluster-enabled", "yes", "--cluster-node-timeout", 5000, "--save", "", "--dir", self.folder,
                "--repl-diskless-sync-delay", 0]


class KnownWriter(Writer):
    """A writer that logs in."""

    def __init__(self, password, *args):
        super().__init__(*args)
        self.password = password

    def client(self, port):
        if port not in self.clients:
            self.clients[port] = login(port, self.password)
        return self.clients[port]


def run(route, peer, args, folder):
    password = "secret" if "password" in route else ""
    old = [Old(peer, os.path.join(folder, f"old-{at}"), password) for at in range(6)]
    new = [free_pair() for _ in range(3)]
    writers = []
    try:
        ClusterTool(args.peers, *(["-a", password] if password else [])).create(old)
        for node in old:
            node.until("the cluster", Node.is_up)
        for replica in old[3:]:
            replica.until("its data", Node.is_synced)
        names = {"OLD_HOST": "127.0.0.1", "OLD_PRIMARIES": " ".join(str(node.port) for node in old[:3]),
                 "OLD_REPLICAS": " ".join(str(node.port) for node in old[3:]), "NEW_HOST": "127.0.0.1",
                 "NEW_PORTS": " ".join(map(str, new)), "NEW_DIR": folder, "PASSWORD": password}
        writers = [KnownWriter(password, [node.port for node in old] + new, seed) for seed in range(2)]
        for at, writer in enumerate(writers):
            # Each counts keys of its own.
            ask = writer.ask
            writer.ask = lambda words, ask=ask, at=at: ask((words[0], f"{at}-{words[1]}"))
            writer.start()
        run_sections(PAGE, ROUTES[route], args, folder, **names)
        for writer in writers:
            writer.ended = True
            writer.join(30)
            if writer.errors:
                raise Failed(f"clients were told {set(writer.errors)}")
        left = new if route == "there" else [node.port for node in old]
        for writer in writers:
            writer.ports = left
            for key, told in writer.told.items():
                reply = writer.ask(("GET", key))
                if reply is None or int(reply) < told:
                    raise Failed(f"{key} is {reply}, and its client was told {told}")
        until("the end of old ties", lambda: all(len(login(port, password)("CLUSTER", "NODES").splitlines()) == len(left) for port in left))
        return f"{sum(writer.count for writer in writers)} writes"
    finally:
        for writer in writers:
            writer.ended = True
        for node in old:
            node.kill()
        for port in new:
            end_daemon(os.path.join(folder, str(port), "cinnabar.pid"))


if __name__ == "__main__":
    run_routes(PAGE, ROUTES, PEERS, run)
