#!/usr/bin/env python3
"""directives - every directive of the configuration, with legal and illegal values, answered as real servers do.

    directives.py --server target/release/cinnabar-server --peer .../valkey-server [--peer ...]

For each directive that the server shares with a peer, CONFIG SET with each of VALUES and the CONFIG GET after it are
compared. The server must answer as one of the peers: versions differ. It may refuse a directive that it does
not support (unsupported.py) instead, for the reason that the row gives, and keep the default. Standard library only.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

from unsupported import UNSUPPORTED, refusal
from wire import TextClient, free_port

VALUES = ["", "abc", "-1", "0", "1", "yes", "YES", "no", "99999999999999999999", "18446744073709551615", "10mb", "1gb",
          "5%", "a b c", "1 2 3", "101%", "0.5", "755", "{", "-5", " 7", "60 x", "1 2 3000", "normal 1 2 3", "legacy", "{title} "]
# Directives that would move the server away from under the test, or lock it out.
LEFT_OUT = {"dir", "port", "tls-port", "bind", "replicaof", "slaveof", "requirepass", "primaryuser", "masteruser",
            "maxclients"}
# A directive that needs RDMA may be set to the value that it has.
ALLOWED = {("rdma-bind", "")}


def start(binary, scratch):
    port = free_port()
    process = subprocess.Popen([binary, "--port", str(port), "--dir", scratch, "--save", "", "--enable-protected-configs", "yes"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            return process, TextClient(port)
        except OSError:
            time.sleep(0.1)
    sys.exit("%s does not accept connections" % binary)


def answers(binary):
    """{(directive, value): (reply to SET, value after it)}"""
    with tempfile.TemporaryDirectory() as scratch:
        process, client = start(binary, scratch)
        found = {}
        try:
            for name in client("CONFIG", "GET", "*")[::2]:
                if name in LEFT_OUT:
                    continue
                before = client("CONFIG", "GET", name)[1]
                found[name, None] = before
                for value in VALUES:
                    found[name, value] = client("CONFIG", "SET", name, value), client("CONFIG", "GET", name)[1]
                    client("CONFIG", "SET", name, before)
        finally:
            process.kill()
            process.wait()
        return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--server", required=True)
    p.add_argument("--peer", action="append", required=True)
    args = p.parse_args()
    ours, peers = answers(args.server), [answers(peer) for peer in args.peer if os.path.exists(peer)]
    if not peers:
        sys.exit("none of the peers is there")
    shared = [key for key in ours if any(key in peer for peer in peers) and key not in ALLOWED]
    refused = lambda name: name in UNSUPPORTED and ("-ERR " + refusal(name), ours[name, None])
    wrong = [key for key in shared if ours[key] != refused(key[0]) and not any(peer.get(key) == ours[key] for peer in peers)]
    for name, value in wrong:
        print("%s %r: ours %r, peers %r" % (name, value, ours[name, value], [peer.get((name, value)) for peer in peers]))
    print("directives: %d answers of %d directives compared with %d peers, %d differ" % (
        len(shared), len({name for name, _ in shared}), len(peers), len(wrong)))
    return 1 if wrong or not shared else 0


if __name__ == "__main__":
    sys.exit(main())
