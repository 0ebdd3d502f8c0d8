#!/usr/bin/env python3
"""replication - real servers follow Cinnabar: random changes under load, with cut connections, and then the data is the same.

    replication.py --server target/release/cinnabar-server --peers ~/.cache/peers

For every real server among the peers, with snapshots by file and without: it follows Cinnabar while clients change keys of all types, its
connection is cut now and then, and in the end WAIT counts it and DEBUG DIGEST is equal. All of them follow at once, too, and share
snapshots. Values that an old replica cannot hold are refused, and a backup by valkey-cli --rdb is loaded by Cinnabar.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from rdb_files import PEERS, Failed, Replies, Server

DEBUG = ("--enable-debug-command", "yes")


def field(client, name, section="replication"):
    for line in client("INFO", section).decode().splitlines():
        if line.startswith(name + ":"):
            return line.split(":", 1)[1]
    return None


def port_of(client):
    return client.socket.getpeername()[1]


def until(what, condition, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return
        time.sleep(0.02)
    raise RuntimeError("not in time: " + what)


def change(client, chance):
    """One random change."""
    key, number = chance.randrange(500), chance.random()
    group = [
        lambda: client("SET", f"string:{key}", "x" * chance.randrange(200)),
        lambda: client("INCR", f"number:{key}"),
        lambda: client("INCRBYFLOAT", f"float:{key}", number),
        lambda: client("SET", f"expiring:{key}", "v", "PX", chance.randrange(1, 500)),
        lambda: client("SET", f"lasting:{key}", "v", "EX", 1000),
        lambda: client("LPUSH", f"list:{key % 20}", key),
        lambda: client("LPOP", f"list:{key % 20}", 2),
        lambda: client("SADD", f"set:{key % 20}", key, f"member {key}"),
        lambda: client("SPOP", f"set:{key % 20}", 2),
        lambda: client("ZADD", f"zset:{key % 20}", int(number * 4000) / 4, key),  # as all servers write it
        lambda: client("ZPOPMIN", f"zset:{key % 20}"),
        lambda: client("HSET", f"hash:{key % 20}", key, number),
        lambda: client("XADD", f"stream:{key % 5}", "MAXLEN", "~", 100, "*", "field", number),
        lambda: client("DEL", f"string:{key}"),
        lambda: client("RENAME", f"number:{key}", f"number:{key + 1}"),
        lambda: client("EVAL", "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('INCR', 'scripts')", 1, f"string:{key}", number),
        lambda: client("PUBLISH", "channel", number),
        lambda: client("SELECT", chance.randrange(3)),
    ]
    try:
        if chance.random() < 0.1:
            client("MULTI")
            for _ in range(3):
                chance.choice(group)()
            client("EXEC")
        else:
            chance.choice(group)()
    except Failed:
        pass  # a key of another type, or none


class Load:
    """A client that changes keys until the block ends."""

    def __init__(self, port, seed):
        self.port, self.chance, self.ended, self.failure = port, random.Random(seed), False, None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            client = Replies(self.port)
            while not self.ended:
                change(client, self.chance)
        except Exception as failure:  # told by the thread that waits
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.ended = True
        self.thread.join()
        if self.failure:
            raise self.failure


def same(primary, replicas):
    """The replicas acknowledge all, and then hold the same."""
    counted = primary("WAIT", len(replicas), 10000)
    if counted != len(replicas):
        raise RuntimeError(f"WAIT counts {counted} of {len(replicas)}")
    # Keys that expire meanwhile are removed by the primary's DEL.
    until("equal digests", lambda: all(primary("DEBUG", "DIGEST") == replica("DEBUG", "DIGEST") for replica in replicas), 5)


def follow(primary, name, program, seed):
    """One replica, whose connection is cut, under load."""
    for diskless in ("yes", "no"):
        primary("CONFIG", "SET", "repl-diskless-sync", diskless)
        options = (*DEBUG, "--replicaof", f"127.0.0.1 {port_of(primary)}")
        with tempfile.TemporaryDirectory() as folder, Load(port_of(primary), seed) as load:
            with Server(program, folder, *options) as replica:
                cut(primary, name, lambda: field(replica, "master_link_status") == "up")
                load.end()
                same(primary, [replica])
        until("nobody follows", lambda: field(primary, "connected_slaves") == "0")
        print(f"{name} follows, diskless {diskless}")


def cut(primary, name, is_up):
    """Cuts a connection now and then: the replica comes back without another snapshot."""
    until(f"{name} follows", is_up)
    count = lambda: (int(field(primary, "sync_full", "stats")), int(field(primary, "sync_partial_ok", "stats")))
    for _ in range(2):
        time.sleep(0.3)
        full, partial = count()
        primary("CLIENT", "KILL", "TYPE", "replica")
        until(f"{name} comes back", lambda: count() != (full, partial) and is_up())
        if count() != (full, partial + 1):
            raise RuntimeError(f"{name} does not go on where it was")


def together(primary, peers, seed):
    """All replicas at once, on shared snapshots."""
    primary("CONFIG", "SET", "repl-diskless-sync", "yes", "repl-diskless-sync-delay", "1")
    with tempfile.TemporaryDirectory() as folder:
        servers, replicas = [], []
        try:
            with Load(port_of(primary), seed):
                for number, program in enumerate(peers.values()):
                    place = os.path.join(folder, str(number))
                    os.mkdir(place)
                    servers.append(Server(program, place, *DEBUG, "--replicaof", f"127.0.0.1 {port_of(primary)}"))
                    replicas.append(servers[-1].__enter__())
                for replica in replicas:
                    until("all follow", lambda: field(replica, "master_link_status") == "up")
                time.sleep(0.5)
            same(primary, replicas)
        finally:
            for server in servers:
                server.__exit__()
    primary("CONFIG", "SET", "repl-diskless-sync-delay", "0")
    until("nobody follows", lambda: field(primary, "connected_slaves") == "0")
    print(f"{len(replicas)} follow together")


def limit(primary, name, program):
    """The stream before a replica connected does not count towards its lag; a replica that does not read is disconnected, and returns."""
    primary("CONFIG", "SET", "client-output-buffer-limit", "replica 1mb 0 0", "repl-backlog-size", "64kb")
    fill = lambda: [primary("SET", f"large:{number}", "x" * 100_000) for number in range(100)]
    fill()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, folder, *DEBUG, "--replicaof", f"127.0.0.1 {port_of(primary)}")
        with server as replica:
            until(f"{name} follows", lambda: field(replica, "master_link_status") == "up")
            server.process.send_signal(signal.SIGSTOP)
            try:
                fill()
                until("the replica is disconnected", lambda: field(primary, "connected_slaves") == "0")
            finally:
                server.process.send_signal(signal.SIGCONT)
            until(f"{name} comes back", lambda: field(primary, "connected_slaves") == "1" and field(replica, "master_link_status") == "up")
            same(primary, [replica])
    primary("CONFIG", "SET", "client-output-buffer-limit", "replica 256mb 64mb 60", "repl-backlog-size", "10mb")
    until("nobody follows", lambda: field(primary, "connected_slaves") == "0")
    print("who does not read is disconnected")


def backup(primary, server, peers_dir):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump.rdb")
        cli = os.path.join(peers_dir, "newest/bin/valkey-cli")
        subprocess.run([cli, "-p", str(port_of(primary)), "--rdb", path], check=True, capture_output=True, timeout=60)
        with Server(server, folder, *DEBUG) as other:
            until("the backup is read", lambda: other("DEBUG", "DIGEST") == primary("DEBUG", "DIGEST"), 5)
    print("a backup is whole")


def refuse(primary, program):
    """An old replica cannot read hashes whose fields expire: it gets an error, and the server logs it once."""
    primary("HSET", "expiring fields", "f", "v")
    primary("HEXPIRE", "expiring fields", 1000, "FIELDS", 1, "f")
    with tempfile.TemporaryDirectory() as folder:
        with Server(program, folder, "--replicaof", f"127.0.0.1 {port_of(primary)}") as replica:
            time.sleep(3.5)
            if field(replica, "master_link_status") != "down":
                raise RuntimeError("a replica follows that cannot hold the data")
    primary("DEL", "expiring fields")
    print("what a replica cannot hold is refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    peers = {name: os.path.join(options.peers, path) for path, name in PEERS.items()}
    peers = {name: program for name, program in peers.items() if os.path.exists(program)}
    with tempfile.TemporaryDirectory() as folder:
        with Server(options.server, folder, *DEBUG, "--repl-diskless-sync-delay", "0") as primary:
            for name, program in peers.items():
                follow(primary, name, program, options.seed)
            together(primary, peers, options.seed)
            if "valkey 9" in peers:
                limit(primary, "valkey 9", peers["valkey 9"])
                backup(primary, options.server, options.peers)
            if "redis 7.0" in peers:
                refuse(primary, peers["redis 7.0"])
            with open(os.path.join(folder, "log"), encoding="utf-8") as log:
                told = [line for line in log.read().splitlines() if "There is no snapshot for replica" in line]
            if "redis 7.0" in peers and len(told) != 1:
                raise RuntimeError("the refusal is to be told once: " + "\n".join(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
