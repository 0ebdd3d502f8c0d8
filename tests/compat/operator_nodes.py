#!/usr/bin/env python3
"""Nodes as valkey-operator runs and asks them: its configuration file, its users, its probes, the orders by which it makes a
cluster, moves slots and rolls pods, and a primary that is told to end.

usage: operator_nodes.py --server FILE --cli FILE

The directives, the rights of its two users and the arguments of its probes are those of the operator (internal/controller/ in its
repository: config.go, users.go, scripts/). Its own program is not run: it needs Kubernetes. With `--server valkey-server` it is
seen that a real server does the same.
"""
import argparse
import hashlib
import os
import subprocess

from cluster_processes import Node, scratch_folder
from wire import Client

OPERATOR = (
    "+@connection +cluster|myid +cluster|myshardid +cluster|info +cluster|nodes +cluster|meet +cluster|addslotsrange "
    "+cluster|replicate +cluster|forget +cluster|failover +cluster|getslotmigrations +cluster|migrateslots "
    "+cluster|set-config-epoch +config|set +info"
)
EXPORTER = (
    "-@all +@connection +memory -readonly +strlen +config|get +xinfo +pfcount -quit +zcard +type +xlen -readwrite -command +client "
    "-wait +scard +llen +hlen +get +eval +slowlog +cluster|info +cluster|slots +cluster|nodes -hello -echo +info +latency +scan "
    "-reset -auth -asking"
)
PASSWORDS = {"_operator": "o" * 26, "_exporter": "e" * 26}


class Pod(Node):
    def words(self):
        users = os.path.join(self.folder, "users.acl")
        with open(users, "w") as file:
            for name, rights in (("_operator", OPERATOR), ("_exporter", EXPORTER)):
                file.write(f"user {name} on #{hashlib.sha256(PASSWORDS[name].encode()).hexdigest()} {rights}\n")
        settings = {
            "aclfile": users,
            "cluster-config-file": os.path.join(self.folder, "nodes.conf"),
            "cluster-enabled": "yes",
            "cluster-node-timeout": "2000",
            "dir": self.folder,
            "protected-mode": "no",
            "shutdown-on-sigterm": "failover",
            # Not the operator's: nodes share a machine.
            "cluster-port": str(self.bus),
            "port": str(self.port),
        }
        config = os.path.join(self.folder, "valkey.conf")
        with open(config, "w") as file:
            file.write("# Base Config\n" + "".join(f"{name} {settings[name]}\n" for name in sorted(settings)))
        return [config]

    def client(self, user="_operator"):
        client = Client(self.port)
        expect(client("AUTH", user, PASSWORDS[user]), b"+OK", "AUTH")
        return client


def expect(reply, wanted, what):
    if reply != wanted:
        raise SystemExit(f"{what}: {reply}, not {wanted}")


def probe(cli, pod):
    """Runs the command of both probes."""
    environment = dict(os.environ, VALKEYCLI_AUTH=PASSWORDS["_operator"])
    words = [cli, "-h", "localhost", "-p", str(pod.port), "--user", "_operator", "PING"]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30)
    expect(said.stdout, "PONG\n", "the probe")


def handshake(pod):
    """Greets as a client library of the operator's language does."""
    client = Client(pod.port)
    # A map begins with the number of its entries, and is no array.
    client.socket.sendall(b"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$9\r\n_operator\r\n$26\r\n" + PASSWORDS["_operator"].encode() + b"\r\n")
    first = client.file.readline()
    if not first.startswith(b"%"):
        raise SystemExit(f"HELLO 3: {first}")
    client = pod.client()
    for words in (("CLIENT", "SETINFO", "LIB-NAME", "valkey-go"), ("CLIENT", "SETINFO", "LIB-VER", "1.0.0"), ("CLIENT", "TRACKING", "ON")):
        reply = client(*words)
        if words[1] == "SETINFO":
            expect(reply, b"+OK", " ".join(words))


def make_cluster(pods, primaries):
    first = pods[0]
    for epoch, pod in enumerate(pods, 1):
        expect(pod("CLUSTER", "SET-CONFIG-EPOCH", epoch), b"+OK", "SET-CONFIG-EPOCH")
    for pod in pods[1:]:
        expect(pod("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus), b"+OK", "MEET")
    ranges = [(0, 5460), (5461, 10922), (10923, 16383)]
    for pod, (low, high) in zip(pods, ranges):
        expect(pod("CLUSTER", "ADDSLOTSRANGE", low, high), b"+OK", "ADDSLOTSRANGE")
    for pod in pods:
        pod.until("all nodes", lambda node: len(node("CLUSTER", "NODES").strip().split(b"\n")) == len(pods))
    for at, pod in enumerate(pods[primaries:]):
        expect(pod("CLUSTER", "REPLICATE", pods[at].id()), b"+OK", "REPLICATE")
    for pod in pods:
        pod.until("a cluster", Pod.is_up)
    for pod in pods[primaries:]:
        pod.until("a replica that follows", Pod.is_synced)
    for at in range(primaries):
        expect(pods[at]("CLUSTER", "MYSHARDID"), pods[at + primaries]("CLUSTER", "MYSHARDID"), "MYSHARDID")


def move_slots(source, target):
    reply = source("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 99, "NODE", target.id())
    expect(reply, b"+OK", "MIGRATESLOTS")
    done = lambda node: b"success" in flat(node("CLUSTER", "GETSLOTMIGRATIONS"))
    source.until("a migration", done)
    target.until("its slots", lambda node: b" 0-99 " in node("CLUSTER", "NODES") + b" ")


def flat(reply):
    return reply if not isinstance(reply, list) else b" ".join(flat(part) if isinstance(part, (list, bytes)) else b"" for part in reply)


def leads(pod):
    return b"role:master" in pod("INFO", "replication")


def roll(replica):
    """Rolls a primary's pod: its replica takes over before the pod is recreated."""
    expect(replica("CLUSTER", "FAILOVER"), b"+OK", "FAILOVER")
    replica.until("the role of a primary", leads)


def end_primary(primary, replica):
    """Ends a primary's pod, as a drain of its machine does: its replica leads long before other nodes detect the loss."""
    for pod in (primary, replica):
        pod.until("a cluster", Pod.is_up)
    replica.until("a replica that follows", Pod.is_synced)
    primary.process.terminate()
    expect(primary.process.wait(30), 0, "the status")
    replica.until("the role of a primary", leads)


def exporter_may(pod):
    client = pod.client("_exporter")
    for words in (["INFO", "ALL"], ["CONFIG", "GET", "*"], ["SLOWLOG", "LEN"], ["SLOWLOG", "GET", "1"], ["LATENCY", "LATEST"],
                  ["CLUSTER", "INFO"], ["CLIENT", "LIST"], ["SCAN", "0", "COUNT", "10"], ["LATENCY", "HISTOGRAM"]):
        reply = client(*words)
        if isinstance(reply, bytes) and reply.startswith(b"-"):
            raise SystemExit(f"_exporter: {words}: {reply}")
    refused = client("SET", "k", "v")
    if not refused.startswith(b"-NOPERM"):
        raise SystemExit(f"_exporter may SET: {refused}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--cli", required=True)
    args = parser.parse_args()
    server, cli = os.path.abspath(args.server), os.path.abspath(args.cli)
    with scratch_folder("cinnabar-operator") as folder:
        pods = []
        try:
            for at in range(6):
                pods.append(Pod(server, os.path.join(folder, str(at))))
            for pod in pods:
                probe(cli, pod)
                handshake(pod)
            make_cluster(pods, 3)
            exporter_may(pods[0])
            expect(pods[0]("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"), b"+OK", "CONFIG SET")
            move_slots(pods[0], pods[1])
            roll(pods[3])
            for pod in pods:
                expect(pod("CONFIG", "SET", "cluster-node-timeout", 60_000), b"+OK", "CONFIG SET")
            end_primary(pods[1], pods[4])
            end_primary(pods[2], pods[5])
            expect(pods[3]("CLUSTER", "FORGET", "0" * 40)[:4], b"-ERR", "FORGET of nobody")
            print("six nodes are run, asked, rolled and ended as the operator does it")
        finally:
            for pod in pods:
                pod.kill()


main()
