#!/usr/bin/env python3
"""cluster_tls - a cluster of real nodes and ours whose bus, replication and clients have TLS (`tls-cluster yes`).

    cluster_tls.py --server target/release/cinnabar-server --peers ~/.cache/peers

Three primaries with a replica each, real and ours in turn. They meet, follow and take over; slots move by MIGRATE; clients are told
ports of their own kind; one of our nodes asks the owners for a client; who has no certificate of the authority, or no TLS, gets
nowhere. Exits with 1 if anything is wrong.
"""
import argparse
import os
import socket
import ssl
import time

from cluster_processes import AnyNode, ClusterTool, Node, scratch_folder
from secure_clients import make_certificates
from wire import AnyClient, free_port


class SecureClient(AnyClient):
    def __init__(self, port, folder):
        super().__init__(port)
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.crt"))
        context.load_cert_chain(os.path.join(folder, "client.crt"), os.path.join(folder, "client.key"))
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.file = self.socket.makefile("rb")


class SecureNode(AnyNode):
    def __init__(self, binary, folder, certificates, *options):
        self.certificates, self.plain = certificates, free_port()
        super().__init__(binary, folder, *options)

    def words(self):
        folder = self.certificates
        files = ["--tls-cert-file", f"{folder}/server.crt", "--tls-key-file", f"{folder}/server.key", "--tls-ca-cert-file", f"{folder}/ca.crt"]
        return ["--tls-port", self.port, "--port", self.plain, *super().words()[2:], "--tls-cluster", "yes", "--tls-replication", "yes",
                "--tls-auth-clients", "optional", *files]

    def client(self):
        return SecureClient(self.port, self.certificates)


def run(options, folder, nodes):
    certificates, strange = os.path.join(folder, "certificates"), os.path.join(folder, "strange")
    make_certificates(certificates)
    make_certificates(strange)
    real = os.path.join(options.peers, "newest/bin/valkey-server")
    proxy = (options.server, "--cluster-proxy", "yes")
    for at, (kind, *words) in enumerate([(real,), proxy, (options.server,), (options.server,), (real,), (real,)]):
        nodes.append(SecureNode(kind, os.path.join(folder, str(at)), certificates, *words))
    tool = ClusterTool(options.peers, "--tls", "--cert", f"{certificates}/client.crt", "--key", f"{certificates}/client.key", "--cacert",
                       f"{certificates}/ca.crt")
    tool.create(nodes)
    for node in nodes:
        node.until("the cluster", Node.is_up)
        node.until("all roles", lambda node: node("CLUSTER", "NODES").count(b"slave") == 3)
    for replica in nodes[3:]:
        replica.until("its data", Node.is_synced)

    # A client with TLS gets ports with TLS, and one without gets the others.
    for node in nodes:
        for client, of in ((SecureClient(node.port, certificates), "port"), (AnyClient(node.plain), "plain")):
            ports = {b":%d" % getattr(one, of) for one in nodes}
            # A replica is shown when it is known how much it has.
            node.until(f"CLUSTER SLOTS with {ports}", lambda _: ports == {place[2] for part in client("CLUSTER", "SLOTS")[1:] for place in part[3:]})
            listed = {b":" + line.split()[1].split(b"@")[0].split(b":")[1] for line in client("CLUSTER", "NODES")[1:].splitlines()}
            if listed != ports:
                raise SystemExit(f"{node.binary}: CLUSTER NODES tells {listed} instead of {ports} ({of})")
            for name in "abcd":
                moved = client("GET", name)
                if moved.startswith(b"-MOVED") and b":" + moved.rsplit(b":", 1)[1] not in ports:
                    raise SystemExit(f"{node.binary}: {moved} for a client whose ports are {ports}")

    client = SecureClient(nodes[1].port, certificates)
    names = [f"key:{n}" for n in range(300)]
    for name in names:
        assert client("SET", name, name) == b"+OK", "asked over TLS"
    assert client("MGET", *names) == [b"*", *(b"$" + name.encode() for name in names)] and client("DBSIZE") == b":300"
    for source, target in ((0, 1), (1, 2), (2, 0)):
        tool.reshard(nodes[source], nodes[target], 40)
    assert client("MGET", *names) == [b"*", *(b"$" + name.encode() for name in names)]
    for replica in nodes[3:]:
        replica.until("its data", Node.is_synced)
        assert replica("CLUSTER", "FAILOVER") == b"+OK"
        replica.until("its promotion", lambda node: node.role() == b"master")
    for node in nodes[:3]:
        node.until("its data", Node.is_synced)
    assert client("MGET", *names) == [b"*", *(b"$" + name.encode() for name in names)]

    # A large message goes through the bus in many records.
    listener = SecureClient(nodes[0].port, certificates)
    listener("SUBSCRIBE", "news")
    text = "x" * 3_000_000
    client("PUBLISH", "news", text)
    assert listener.read()[3] == b"$" + text.encode(), "a message of another node"

    # A server that cannot show a certificate of the authority is no node, and takes nothing from the others.
    stranger = SecureNode(options.server, os.path.join(folder, "stranger"), certificates)
    nodes.append(stranger)
    assert SecureClient(stranger.port, certificates)("CONFIG", "SET", "tls-cert-file", f"{strange}/server.crt", "tls-key-file",
                                                     f"{strange}/server.key") == b"+OK"
    plain = AnyClient(stranger.plain)
    plain("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
    plain("CLUSTER", "MEET", "127.0.0.1", nodes[1].port, nodes[1].bus)
    bare = socket.create_connection(("127.0.0.1", nodes[1].bus), timeout=30)
    bare.sendall(b"RCmb" + bytes(3000))
    # An alert of TLS, and the end.
    while bare.recv(100):
        pass
    time.sleep(3)
    for node in nodes[:-1]:
        assert len(node("CLUSTER", "NODES").splitlines()) == 6, "a stranger is known"
        node.until("the cluster", Node.is_up)
    assert b"cluster_known_nodes:1\r" in plain("CLUSTER", "INFO") or plain("CLUSTER", "NODES").count(b"handshake") > 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    options = parser.parse_args()
    options.peers = os.path.expanduser(options.peers)
    nodes = []
    with scratch_folder("cluster_tls") as folder:
        try:
            run(options, folder, nodes)
            print("cluster_tls: nothing wrong")
        finally:
            for node in nodes:
                node.kill()


if __name__ == "__main__":
    main()
