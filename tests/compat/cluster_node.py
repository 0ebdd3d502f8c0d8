#!/usr/bin/env python3
"""cluster_node - one node of a cluster, here and as a real server: every reply is compared.

    cluster_node.py --server target/release/cinnabar-server --peers ~/.cache/peers

Both are started with `cluster-enabled yes` and asked the same, in RESP2 and RESP3; names of nodes and shards, ports and tags of
cursors are made alike before. Then both read the `nodes.conf` that the other one has written. Exits with 1 if there is a difference.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

from wire import AnyClient, free_port

# Before any slot has an owner, and after all have.
ALONE = """
CLUSTER INFO
CLUSTER NODES
CLUSTER SLOTS
CLUSTER SHARDS
CLUSTER LINKS
CLUSTER MYID
CLUSTER MYSHARDID
CLUSTER KEYSLOT a{b}c
CLUSTER HELP
INFO cluster
GET a
SET a 1
MGET a b
MGET {a}1 {a}2
EVAL "return redis.call('get','a')" 0
EVAL "return redis.call('get',KEYS[1])" 1 a
EVAL "return 1" 0
SUBSCRIBE x
UNSUBSCRIBE
SPUBLISH x y
PUBLISH x y
SSUBSCRIBE x
CLUSTER ADDSLOTS
CLUSTER ADDSLOTS x
CLUSTER ADDSLOTS -1
CLUSTER ADDSLOTS 16384
CLUSTER ADDSLOTS 1 1
CLUSTER ADDSLOTSRANGE 5 4
CLUSTER ADDSLOTSRANGE 1 2 3
CLUSTER ADDSLOTSRANGE 1 5 4 9
CLUSTER DELSLOTS 1
CLUSTER DELSLOTSRANGE 1 2
CLUSTER SETSLOT 1 STABLE
CLUSTER SETSLOT 1 MIGRATING nobody
CLUSTER SETSLOT 1 IMPORTING nobody
CLUSTER SETSLOT 1 NODE nobody
CLUSTER SETSLOT 1 NOSUCH
CLUSTER SETSLOT 1 NODE
CLUSTER SETSLOT x STABLE
CLUSTER FORGET nobody
CLUSTER FORGET {myid}
CLUSTER REPLICATE nobody
CLUSTER REPLICATE {myid}
CLUSTER REPLICATE NO ONE
CLUSTER REPLICATE NO TWO
CLUSTER REPLICAS {myid}
CLUSTER REPLICAS nobody
CLUSTER SLAVES {myid}
CLUSTER COUNT-FAILURE-REPORTS {myid}
CLUSTER COUNT-FAILURE-REPORTS nobody
CLUSTER FAILOVER
CLUSTER FAILOVER FORCE
CLUSTER FAILOVER NOW
CLUSTER MEET 127.0.0.1 x
CLUSTER MEET 127.0.0.1 0
CLUSTER MEET 127.0.0.1 70000
CLUSTER MEET 127.0.0.1 6379 x
CLUSTER MEET 127.0.0.1 6379 70000
CLUSTER MEET nowhere 6379
CLUSTER SET-CONFIG-EPOCH x
CLUSTER SET-CONFIG-EPOCH -1
CLUSTER SET-CONFIG-EPOCH 7
CLUSTER SET-CONFIG-EPOCH 8
CLUSTER BUMPEPOCH
CLUSTER SAVECONFIG
CLUSTER COUNTKEYSINSLOT x
CLUSTER COUNTKEYSINSLOT 16384
CLUSTER COUNTKEYSINSLOT 1
CLUSTER GETKEYSINSLOT 1 -1
CLUSTER GETKEYSINSLOT 1 10
CLUSTER FLUSHSLOT 16384
CLUSTER FLUSHSLOT 1 NOW
CLUSTER SLOT-STATS SLOTSRANGE 5 4
CLUSTER SLOT-STATS SLOTSRANGE 0 3
CLUSTER SLOT-STATS ORDERBY nothing
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 0
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 3 LIMIT 3
CLUSTER SLOT-STATS ORDERBY key-count ASC DESC
CLUSTER SLOT-STATS NOSUCH
CLUSTER NOSUCH
CLUSTERSCAN x
CLUSTERSCAN 0
SWAPDB 0 1
SELECT 1
MOVE a 1
REPLICAOF 127.0.0.1 1
FAILOVER
ASKING
READONLY
READWRITE
CLUSTER ADDSLOTSRANGE 0 16383
CLUSTER ADDSLOTS 1
"""

SERVED = """
CLUSTER INFO
CLUSTER NODES
CLUSTER SLOTS
CLUSTER SHARDS
INFO cluster
SET a 1
SET b 2
SET {a}1 x
SET {a}2 y
GET a
MGET a b
MGET {a}1 {a}2
MSET a 1 b 2
DEL a b
RENAME a b
COPY a {a}copy
MULTI
SET a 1
SET b 2
EXEC
MULTI
SET a 1
MGET a b
EXEC
MULTI
GET {a}1
GET {a}2
EXEC
EVAL "redis.call('set','a',1) return redis.call('get','b')" 0
EVAL "return redis.call('get',KEYS[1])" 2 a b
EVAL "#!lua\\nredis.call('get','a') return redis.call('get','b')" 0
EVAL "#!lua flags=allow-cross-slot-keys\\nredis.call('get','a') return redis.call('get','b')" 0
EVAL "#!lua flags=no-cluster\\nreturn 1" 0
EVAL "#!lua\\nreturn redis.call('get','{a}1')" 1 a
SORT l BY w_* GET #
SORT {a}l BY {a}w_* GET #
SORT l GET w_*
SUNIONSTORE {a}s {a}x b
ZADD {z}a 1 x
ZUNIONSTORE {z}b 2 {z}a {y}c
CLUSTER COUNTKEYSINSLOT 15495
CLUSTER GETKEYSINSLOT 15495 1
CLUSTER COUNTKEYSINSLOT 3300
CLUSTER SLOT-STATS SLOTSRANGE 15494 15496
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 2
CLUSTER FLUSHSLOTS
CLUSTER RESET
CLUSTER RESET HARD NOW
CLUSTER REPLICATE {myid}
CLUSTERSCAN 0 SLOT 15495
CLUSTERSCAN 0 SLOT 15495 MATCH {b}*
CLUSTERSCAN 0 MATCH {a}*
CLUSTERSCAN 0 NOSUCH
CLUSTERSCAN 0-{a}-0 SLOT 3300
CLUSTERSCAN 0-{a}-x
CLUSTERSCAN 0-{a}-0 SLOT 15495 COUNT 100 TYPE nothing
CLUSTERSCAN 0-{a}-0 SLOT 15495 COUNT 100 TYPE list
SSUBSCRIBE a
SUNSUBSCRIBE
SSUBSCRIBE a b
SPUBLISH a hello
PUBLISH a hello
PUBSUB SHARDCHANNELS
CLUSTER DELSLOTS 15495
CLUSTER DELSLOTS 15495
GET a
CONFIG SET cluster-require-full-coverage no
CONFIG SET cluster-allow-reads-when-down yes
GET b
CLUSTER ADDSLOTS 15495
CLUSTER FLUSHSLOT 15495
CLUSTER FLUSHSLOT 3300 SYNC
DBSIZE
FLUSHALL
CONFIG SET cluster-slot-stats-enabled yes
CLUSTER SLOT-STATS SLOTSRANGE 15495 15496
SET a value
GET a
GET nothing
MGET {a}1 {a}2
CLUSTER SLOT-STATS SLOTSRANGE 15495 15495
MGET a b
LPUSH a x
SET a
CLUSTER SLOT-STATS SLOTSRANGE 15495 15495
SPUBLISH a hello
SORT {a}nothing
CLUSTER COUNTKEYSINSLOT 15495
CLUSTER SLOT-STATS SLOTSRANGE 15495 15495
CLUSTER SLOT-STATS ORDERBY network-bytes-in LIMIT 3
CLUSTER SLOT-STATS ORDERBY network-bytes-out LIMIT 2 ASC
CLUSTER DELSLOTS 15495
CLUSTER ADDSLOTS 15495
CLUSTER SLOT-STATS SLOTSRANGE 15495 15495
SET {a}x 1
CONFIG RESETSTAT
CLUSTER SLOT-STATS SLOTSRANGE 15495 15495
SSUBSCRIBE a
SUNSUBSCRIBE
CLUSTER SLOT-STATS SLOTSRANGE 15495 15495
CONFIG SET cluster-slot-stats-enabled no
CLUSTER SLOT-STATS SLOTSRANGE 15495 15495
CLUSTER SLOT-STATS ORDERBY cpu-usec
FLUSHALL
CLUSTER FLUSHSLOTS
CLUSTER RESET
CLUSTER RESET HARD
CLUSTER INFO
EVAL "return redis.call('mget','a','b')" 0
"""


def words(line):
    """Quotes hold words together; nothing else is special."""
    return [part[1] or part[2] for part in re.finditer(r'"([^"]*)"|(\S+)', line)]


def port_of_no_slot():
    """Returns a port that is not the number of a slot, so that ports and slots cannot be confused."""
    port = 0
    while port <= 16384:
        port = free_port()
    return port


class Node:
    def __init__(self, binary, folder, options=()):
        self.port, bus_port = port_of_no_slot(), port_of_no_slot()
        arguments = ["--port", self.port, "--cluster-enabled", "yes", "--cluster-port", bus_port, "--cluster-databases", 1, "--save", "",
                     "--dir", folder, "--enable-debug-command", "yes", *options]
        log = open(os.path.join(folder, "log"), "ab")
        self.process = subprocess.Popen([binary, *map(str, arguments)], stdout=log, stderr=log)
        self.bus_port = bus_port
        for _ in range(100):
            try:
                self.client = AnyClient(self.port)
                self.name = self.client("CLUSTER", "MYID")[1:].decode()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"{binary} does not start")

    def until_up(self):
        for _ in range(100):
            if b"cluster_state:ok" in self.client("CLUSTER", "INFO"):
                return
            time.sleep(0.1)
        raise SystemExit("the cluster does not come up")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def alike(self, reply):
        """Returns the reply without texts that differ between any two servers."""
        if isinstance(reply, list):
            # Times are not compared.
            times = [at for at, part in enumerate(reply) if at > 0 and reply[at - 1] == b"$cpu-usec"]
            return [b"<time>" if at in times else self.alike(part) for at, part in enumerate(reply)]
        if not isinstance(reply, bytes):
            return reply
        reply = re.sub(rb"\b[0-9a-f]{40}\b", b"<name>", reply)
        reply = reply.replace(str(self.port).encode(), b"<port>").replace(str(self.bus_port).encode(), b"<bus>")
        reply = re.sub(rb"^[0-9A-Za-z]+-\{[^}]*\}-\d+$", b"<cursor>", reply)
        return re.sub(rb" \d{13} ", b" <time> ", reply)


def ask(node, line):
    reply = node.client(*[word.replace("{myid}", node.name).replace("\\n", "\n") for word in words(line)])
    return node.alike(reply)


def compare(ours, theirs, lines):
    wrong = 0
    for line in filter(None, lines.strip().split("\n")):
        replies = [ask(node, line) for node in (ours, theirs)]
        if replies[0] != replies[1]:
            wrong += 1
            print(f"{line}\n  ours   {replies[0]}\n  theirs {replies[1]}")
    return wrong


def read_each_other(ours, theirs):
    """Each server continues with the file that the other one has written, under the same name."""
    wrong = 0
    for writer, reader in ((ours, theirs), (theirs, ours)):
        with tempfile.TemporaryDirectory() as folder:
            node = Node(writer, folder)
            node.client("CLUSTER", "ADDSLOTSRANGE", 0, 100, 200, 300)
            node.client("CLUSTER", "SET-CONFIG-EPOCH", 5)
            node.client("CONFIG", "SET", "cluster-announce-hostname", "here.example")
            time.sleep(0.5)
            before = node.alike(node.client("CLUSTER", "NODES")), node.client("CLUSTER", "MYID"), node.client("CLUSTER", "MYSHARDID")
            node.stop()
            node = Node(reader, folder, ["--cluster-announce-hostname", "here.example"])
            after = node.alike(node.client("CLUSTER", "NODES")), node.client("CLUSTER", "MYID"), node.client("CLUSTER", "MYSHARDID")
            node.stop()
            if before != after:
                wrong += 1
                print(f"{writer} wrote, {reader} read:\n  {before}\n  {after}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    options = parser.parse_args()
    peer = os.path.join(os.path.expanduser(options.peers), "newest/bin/valkey-server")
    wrong = read_each_other(options.server, peer)
    asked = 0
    for protocol in (2, 3):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            ours, theirs = Node(options.server, one), Node(peer, other)
            if protocol == 3:
                [node.client("HELLO", 3) for node in (ours, theirs)]
            wrong += compare(ours, theirs, ALONE)
            [node.until_up() for node in (ours, theirs)]
            wrong += compare(ours, theirs, SERVED)
            asked += len(ALONE.split("\n")) + len(SERVED.split("\n"))
            [node.stop() for node in (ours, theirs)]
    print(f"cluster_node: {asked} replies compared, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
