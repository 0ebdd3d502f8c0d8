"""Real cluster nodes for tests: a fleet of servers that is given one shape after the other.

A shape says for each node what it is: ranges of slots (`[(0, 5460)]`), the replica of another (`2`), or no part of the
cluster (`None`). Nodes are reset between shapes and started again where a test stopped them.
"""
import os
import socket
import subprocess
import time

from wire import PATIENCE, TextClient, free_port

# Distance of a node's bus port from its port.
BUS = 10_000


class Fleet:
    def __init__(self, server, folder, count):
        self.server, self.folder, self.nodes = server, folder, []
        for at in range(count):
            os.makedirs(self.path(at))
            self.nodes.append(Node(server, self.path(at), free_pair()))

    def path(self, at):
        return os.path.join(self.folder, "node-%d" % at)

    def __getitem__(self, at):
        return self.nodes[at]

    def take_shape(self, shape):
        """Makes the nodes a cluster, from scratch."""
        for node in self.nodes:
            node.reset()
        members = [at for at, part in enumerate(shape) if part is not None]
        for at in members:
            self.nodes[at].call("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
            if isinstance(shape[at], list) and shape[at]:
                self.nodes[at].call("CLUSTER", "ADDSLOTSRANGE", *[slot for ends in shape[at] for slot in ends])
        for at in members:
            for other in members:
                if at < other:
                    self.nodes[at].call("CLUSTER", "MEET", "127.0.0.1", self.nodes[other].port)
        self.wait(lambda: all(self.knows(at, members, shape) for at in members), "the nodes do not meet")
        for at in members:
            if isinstance(shape[at], int):
                self.nodes[at].call("CLUSTER", "REPLICATE", self.nodes[shape[at]].id())
        self.wait(lambda: all(self.is_settled(at, shape) for at in members), "the cluster does not settle")

    def knows(self, at, members, shape):
        lines = self.nodes[at].lines()
        owners = sum(1 for line in lines if len(line) > 8)
        expected = sum(1 for part in shape if isinstance(part, list) and part)
        return len(lines) == len(members) and owners == expected and not any("handshake" in line[2] for line in lines)

    def is_settled(self, at, shape):
        """Every node knows the roles of all, and replicas follow."""
        roles = {line[0]: "slave" in line[2] for line in self.nodes[at].lines()}
        expected = {self.nodes[other].id(): isinstance(part, int) for other, part in enumerate(shape) if part is not None}
        follows = not isinstance(shape[at], int) or "master_link_status:up" in self.nodes[at].call("INFO", "replication")
        covered = sum(last - first + 1 for part in shape if isinstance(part, list) for first, last in part) == 16384
        is_up = not covered or "cluster_state:ok" in self.nodes[at].call("CLUSTER", "INFO")
        return roles == expected and follows and is_up

    def wait(self, holds, complaint):
        until = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > until:
                raise AssertionError(complaint)
            time.sleep(0.05)

    def names(self):
        """Returns (text, replacement) for all texts that differ from fleet to fleet."""
        names = []
        for at, node in enumerate(self.nodes):
            if node.is_running():
                node.last_id = node.id()
            names += [(node.last_id, "<id %d>" % at), (node.last_id[:8], "<short %d>" % at)]
            names += [(str(node.port), "<port %d>" % at), (str(node.port + BUS), "<bus %d>" % at)]
        return names

    def state(self):
        """Returns each node's own state: its role, slots, open slots and keys."""
        lines = []
        for at, node in enumerate(self.nodes):
            if not node.is_running():
                lines.append("%d is down" % at)
                continue
            own = next(line for line in node.lines() if "myself" in line[2])
            keys = [node.keys(database) for database in range(2)]
            known = len(node.lines())
            lines.append("%d: %s of %s, knows %d, keys %s: %s" % (at, own[2].replace("myself,", ""), own[3], known, keys,
                                                                  " ".join(own[8:])))
        return "\n".join(lines)

    def stop(self):
        for node in self.nodes:
            node.stop()


class Node:
    """A server in a folder, and a connection to it."""

    def __init__(self, server, folder, port):
        self.server, self.folder, self.port, self.last_id = server, folder, port, "-" * 40
        with open(os.path.join(folder, "node.conf"), "w") as file:
            file.write("port %d\ncluster-enabled yes\ncluster-node-timeout 1000\nsave ''\nenable-debug-command yes\n"
                       "cluster-allow-replica-migration no\nrepl-diskless-sync-delay 0\nbind 127.0.0.1\n" % port
                       + ("" if "redis" in os.path.basename(server) else "cluster-databases 2\n"))
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.server, os.path.join(self.folder, "node.conf")], cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.client = TextClient(self.port)
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise SystemExit("%s does not accept connections" % self.server)
                time.sleep(0.02)

    def is_running(self):
        return self.process.poll() is None

    def stop(self):
        self.process.kill()
        self.process.wait()

    def reset(self):
        if not self.is_running():
            self.start()
        self.client = TextClient(self.port)
        for command in (("FLUSHALL",), ("CLUSTER", "RESET", "HARD"), ("FUNCTION", "FLUSH"), ("FLUSHALL",)):
            self.client(*command)

    def call(self, *words):
        """Sends a command; an error in answer to it ends the test."""
        reply = self.client(*words)
        if isinstance(reply, str) and reply.startswith("-"):
            raise AssertionError("%r: %s" % (words, reply))
        return reply

    def id(self):
        return self.call("CLUSTER", "MYID")

    def lines(self):
        return [line.split(" ") for line in self.call("CLUSTER", "NODES").splitlines()]

    def keys(self, database):
        """Returns the number of keys of a database; None if that cannot be asked."""
        if self.client("SELECT", database) != "+OK":
            return None
        count = self.client("DBSIZE")
        self.client("SELECT", 0)
        return count


def free_pair():
    """A port that is free, as is the one of its bus."""
    while True:
        port = free_port()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port + BUS))
                return port
            except OSError:
                continue
