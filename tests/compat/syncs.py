#!/usr/bin/env python3
"""syncs - how full synchronizations travel and load: over a connection of their own, beside the old data, encrypted.

    syncs.py --server target/release/cinnabar-server --peers ~/.cache/peers [--only WORD]

For each pair of a Cinnabar and a real Valkey, as primary and as replica, and of two Cinnabars: the primary has keys and gets more
while its snapshot is sent, slowly, over a second connection; what was written meanwhile waits at the replica, and both have the same
in the end. A replica that loads beside serves the old data meanwhile, keeps it when the snapshot does not come to its end, and shows the
new at once. With tls-replication all goes over TLS.
"""
import argparse
import os
import subprocess
import sys
import threading
import time

from replicas import Failed, Server, is_up, passes, same, until
from wire import Client, free_port

PEERS = ["newest/bin/valkey-server", "newest/bin/redis-server", "matching/bin/valkey-server", "valkey/bin/valkey-server"]
KEYS = 2000
# Microseconds for each key of a snapshot.
SLOW = 500


class Writer(threading.Thread):
    """Writes until it is told to stop."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.client, self.stopped = Client(port), threading.Event()
        self.start()

    def run(self):
        number = 0
        while not self.stopped.is_set():
            self.client("INCR", "counter")
            self.client("SET", f"late:{number % 500}", "x" * 1000)
            number += 1

    def stop(self):
        self.stopped.set()
        self.join()


def fill(server, size=200):
    for number in range(KEYS):
        server("SET", f"key:{number}", "v" * size)


def use_two_channels(server, wanted):
    """A Redis has another name for it."""
    if server("CONFIG", "SET", "dual-channel-replication-enabled", wanted) != b"+OK" and server("CONFIG", "SET", "repl-rdb-channel", wanted) != b"+OK":
        raise Failed("no dual channel")


def slow(primary, micros):
    if primary("CONFIG", "SET", "rdb-key-save-delay", micros) != b"+OK":
        raise Failed("no delay")


def has_two_channels(primary):
    lines = [line for name, line in primary.info().items() if name.startswith("slave") and "ip=" in line]
    kinds = {line.split("type=")[1] for line in lines if "type=" in line}
    # A Redis lists one line for both.
    return kinds == {"rdb-channel", "main-channel"} or any("state=send_bulk_and_stream" in line for line in lines)


def partial(primary):
    """Returns the number of partial synchronizations; a Redis, and a server whose replica is a Redis, begins the stream by itself."""
    return primary.info("stats")["sync_partial_ok"]


def dual_channel(primary, replica):
    for server in primary, replica:
        use_two_channels(server, "yes")
    fill(primary)
    slow(primary, SLOW)
    writer = Writer(primary.port)
    replica("REPLICAOF", "127.0.0.1", primary.port)
    until("both connections are there", lambda: has_two_channels(primary))
    until("the replica catches up", lambda: is_up(replica))
    writer.stop()
    until("one connection is left", lambda: primary.info()["connected_slaves"] == "1")
    same(primary, replica)
    is_redis = "valkey_version" not in primary.info("server") or "valkey_version" not in replica.info("server")
    before = partial(primary)
    if before != ("0" if is_redis else "1") or primary.info("stats")["sync_full"] != "1":
        raise Failed(f"full {primary.info('stats')['sync_full']}, partial {before}")
    # The next one goes over one connection.
    use_two_channels(replica, "no")
    slow(primary, 0)
    replica("REPLICAOF", "NO", "ONE")
    replica("SET", "own", 1)
    primary("SET", "other", 1)
    replica("REPLICAOF", "127.0.0.1", primary.port)
    until("the replica is up again", lambda: is_up(replica))
    same(primary, replica)
    if partial(primary) != before:
        raise Failed("another connection was used")


def lost_channel(primary, replica):
    """A snapshot without its stream is dropped, and the next attempt succeeds."""
    for server in primary, replica:
        use_two_channels(server, "yes")
    fill(primary)
    slow(primary, 2000)
    replica("REPLICAOF", "127.0.0.1", primary.port)
    until("both connections are there", lambda: has_two_channels(primary))
    slow(primary, 0)
    clients = primary("CLIENT", "LIST").decode().splitlines()
    # The stream's connection is the older one.
    main = sorted((line for line in clients if " flags=S " in line), key=lambda line: int(line.split()[0].split("=")[1]))
    if primary("CLIENT", "KILL", "ID", main[0].split()[0].split("=")[1]) != b":1":
        raise Failed("no connection to cut")
    until("the replica is up after all", lambda: is_up(replica))
    same(primary, replica)


def beside(primary, replica):
    replica("CONFIG", "SET", "repl-diskless-load", "swapdb")
    fill(primary, 2000)
    replica("REPLICAOF", "127.0.0.1", primary.port)
    until("the first sync", lambda: is_up(replica))
    loading = lambda name: replica.info("persistence")[name] == "1"
    replica("CONFIG", "SET", "replica-read-only", "no")
    replica("SET", "own", "x")

    def sync_again():
        """A replica that returns before the writes needs no snapshot: then its link is cut once more."""
        fulls = lambda: primary.info("stats")["sync_full"]
        before = fulls()
        while fulls() == before:
            primary("MULTI")
            primary("CLIENT", "KILL", "TYPE", "replica")
            primary("CONFIG", "SET", "repl-backlog-size", 16384)
            for number in range(20):
                primary("SET", f"large:{number}", "y" * 16384)
            primary("EXEC")
            time.sleep(0.3)

    slow(primary, 2000)
    sync_again()
    until("it loads beside", lambda: loading("async_loading"))
    if replica("GET", "own") != b"x" or loading("loading"):
        raise Failed("the old data is not served")
    if not replica("REPLICAOF", "NO", "ONE").startswith(b"-LOADING"):
        raise Failed("REPLICAOF is not refused")
    primary("CONFIG", "SET", "repl-diskless-sync-delay", 2)
    primary("CLIENT", "KILL", "TYPE", "replica")
    until("it gives up", lambda: not loading("async_loading"))
    if replica("GET", "own") != b"x" or replica("DBSIZE") != b":%d" % (KEYS + 1):
        raise Failed(f"the old data is not there any more: {replica('DBSIZE')}, {replica('GET', 'own')}")
    slow(primary, 0)
    until("the new data is there", lambda: is_up(replica))
    replica("DEL", "own")
    same(primary, replica)


def certificates(folder):
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "secure_clients.py")
    subprocess.run([sys.executable, tool, "--certificates", folder], check=True, stdout=subprocess.DEVNULL)
    files = {"ca-cert": "ca.crt", "cert": "server.crt", "key": "server.key"}
    return [word for name, file in files.items() for word in (f"--tls-{name}-file", os.path.join(folder, file))]


def encrypted(primary, replica):
    fill(primary)
    secure = int(primary("CONFIG", "GET", "tls-port")[1])
    for channels in "no", "yes":
        for server in primary, replica:
            use_two_channels(server, channels)
        replica("REPLICAOF", "127.0.0.1", secure)
        writer = Writer(primary.port)
        until("the link is up", lambda: is_up(replica))
        writer.stop()
        same(primary, replica)
        replica("REPLICAOF", "NO", "ONE")
        replica("SET", "own", 1)
        primary("SET", "other", 1)


CASES = [dual_channel, lost_channel, beside, encrypted]


def run(case, pair, scratch):
    options = ["--save", ""]
    if case is encrypted:
        options += [*certificates(scratch), "--tls-replication", "yes", "--tls-auth-clients", "no"]
    servers = []
    try:
        for binary in pair:
            secure = ["--tls-port", str(free_port())] if case is encrypted else []
            servers.append(Server(binary, scratch, *options, *secure))
        case(*servers)
    finally:
        for server in servers:
            server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    binary, folder = os.path.abspath(args.server), os.path.abspath(os.path.expanduser(args.peers))
    peers = [os.path.join(folder, peer) for peer in PEERS if os.path.exists(os.path.join(folder, peer))]
    pairs = [(binary, binary), *((peer, binary) for peer in peers), *((binary, peer) for peer in peers)]
    failed = 0
    for case in CASES:
        for pair in pairs:
            names = ["cinnabar" if server == binary else os.path.relpath(server, folder).replace("/bin/", " ") for server in pair]
            label = f"{case.__name__}: {names[0]} -> {names[1]}"
            # The replica is ours if the test checks the replica's behaviour.
            if args.only not in label or case is beside and pair[1] != binary:
                continue
            failed += not passes(label, lambda scratch: run(case, pair, scratch) or "as it should be")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
