#!/usr/bin/env python3
"""failovers - Cinnabar hands its role over, to Cinnabar and to real servers, and takes it from them: nothing is lost.

    failovers.py --server target/release/cinnabar-server --peers ~/.cache/peers [--rounds 4]

Clients write to the primary, one command at a time and many at a time, until it refuses them: FAILOVER has made it a replica. All that was
acknowledged must be at the new primary, both must have the same data, and neither may have needed a snapshot for that. Then it goes back.
At last a primary that has just written is told to follow its replica of before: they must have the same data, too. With acknowledged
writes FAILOVER goes to a server that knows of them, also where a real one has followed before it.
"""
import argparse
import os
import sys
import threading

from replicas import PEERS, Failed, Server, is_up, passes, same, until
from wire import Client, request

PIPELINE = 50


class Writer(threading.Thread):
    """Writes its own keys until one is not acknowledged, and records the acknowledged ones."""

    def __init__(self, port, name, pipeline):
        super().__init__()
        self.port, self.name_of_keys, self.pipeline, self.acked, self.refusal = port, name, pipeline, 0, None

    def run(self):
        client = Client(self.port)
        while self.refusal is None:
            numbers = range(self.acked + 1, self.acked + 1 + self.pipeline)
            client.socket.sendall(b"".join(request(["SET", f"{self.name_of_keys}:{number}", number]) for number in numbers))
            for _ in numbers:
                reply = client.read()
                if self.refusal is None and reply == b"+OK":
                    self.acked += 1
                elif self.refusal is None:
                    self.refusal = reply

    def lost(self, server):
        names = [f"{self.name_of_keys}:{number}" for number in range(1, self.acked + 1)]
        values = [value for start in range(0, len(names), 1000) for value in server("MGET", *names[start:start + 1000])]
        return [name for number, (name, value) in enumerate(zip(names, values), 1) if value != str(number).encode()]


def hand_over(old, new, round_name):
    until("the replica is there", lambda: is_up(new) and old.info().get("slave0", "").find("state=online") > 0)
    full = new.info("stats")["sync_full"]
    writers = [Writer(old.port, f"{round_name}:{number}", pipeline) for number, pipeline in enumerate([1, 1, PIPELINE])]
    for writer in writers:
        writer.start()
    until("clients have written", lambda: all(writer.acked > 200 for writer in writers))
    reply = old("FAILOVER", "TO", "127.0.0.1", new.port)
    if reply != b"+OK":
        raise Failed(f"FAILOVER is answered {reply}")
    until("the failover ends", lambda: old.info()["master_failover_state"] == "no-failover")
    for writer in writers:
        writer.join(30)
        if writer.refusal is None or not writer.refusal.startswith(b"-READONLY"):
            raise Failed(f"a write to a replica is answered {writer.refusal}")
        lost = writer.lost(new)
        if lost:
            raise Failed(f"{len(lost)} of {writer.acked} acknowledged writes are lost: {lost[:3]}")
    until("the old primary follows", lambda: is_up(old))
    same(new, old)
    if new.info("stats")["sync_full"] != full:
        raise Failed("the old primary needed a snapshot")
    return sum(writer.acked for writer in writers)


def demote(old, new):
    """The old primary's last writes are in no other history: it must detect that, and load a snapshot."""
    until("the replica is there", lambda: is_up(new))
    new("REPLICAOF", "NO", "ONE")
    old.client.socket.sendall(b"".join(request(["SET", f"own:{number}", "x" * 100]) for number in range(2000)) + request(["REPLICAOF", "127.0.0.1", new.port]))
    replies = [old.client.read() for _ in range(2001)]
    if set(replies) != {b"+OK"}:
        raise Failed(f"a write or REPLICAOF is answered {set(replies)}")
    until("the old primary follows", lambda: is_up(old))
    same(new, old)


def check(first, second, scratch, rounds):
    servers = [Server(binary, scratch, "--save", "") for binary in (first, second)]
    try:
        servers[1]("REPLICAOF", "127.0.0.1", servers[0].port)
        acked = 0
        for number in range(rounds):
            acked += hand_over(servers[number % 2], servers[(number + 1) % 2], number)
        if rounds % 2 == 0:
            demote(servers[0], servers[1])
        return f"{acked} acknowledged writes"
    finally:
        for server in servers:
            server.stop()


def prefers_members(binary, peer, scratch):
    own = ["--save", "", "--min-replicas-to-acknowledge", "1", "--repl-diskless-sync-delay", "0", "--acknowledge-lease", "500"]
    servers = [Server(binary, scratch, *own), Server(peer, scratch, "--save", ""), Server(binary, scratch, *own)]
    try:
        primary, real, member = servers
        for replica in (real, member):
            replica("REPLICAOF", "127.0.0.1", primary.port)
            until("the replica is there", lambda: is_up(replica))
        until("it is a member", lambda: member.info().get("in_sync_state") == "in-sync" and member.info().get("in_sync_members"))
        if primary("SET", "key", 1) != b"+OK" or primary("FAILOVER") != b"+OK":
            raise Failed("the primary does not serve")
        until("a replica takes over", lambda: "slave" == primary.info()["role"] and primary.info()["master_failover_state"] == "no-failover")
        if member.info()["role"] != "master":
            raise Failed("a server takes over that knows nothing of the in-sync set")
        until("it acknowledges", lambda: member("SET", "key", 2) == b"+OK")
        return "a member takes over"
    finally:
        for server in servers:
            server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    binary, peers = os.path.abspath(args.server), os.path.abspath(os.path.expanduser(args.peers))
    failed = 0
    for other in [binary] + [os.path.join(peers, peer) for peer in PEERS if os.path.exists(os.path.join(peers, peer))]:
        label = "itself" if other == binary else os.path.relpath(other, peers)
        failed += not passes(label, lambda scratch: check(binary, other, scratch, args.rounds))
        if other != binary:
            failed += not passes(f"{label} beside a member", lambda scratch: prefers_members(binary, other, scratch))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
