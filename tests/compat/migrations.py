#!/usr/bin/env python3
"""migrations - MIGRATE between Cinnabar and real servers, both ways, and its errors.

    migrations.py --server target/release/cinnabar-server --peers ~/.cache/peers

For every real server among the peers: keys of every type and encoding are made there and migrated here, and made here and migrated
there; afterwards the target holds what the source held, and the source nothing. Then what MIGRATE replies where it fails is compared
with the server that the suite belongs to. Redis 7.0 refuses values that it has no type for: streams, and that is checked, too.
"""
import argparse
import os
import sys
import tempfile

from rdb_files import PEERS, READS_OLDER_ONLY, Failed, Server, content, differences, fill, fill_fields

TOO_NEW = {b"stream", b"emptied"}
TIMEOUT = 20000
# Keys in one MIGRATE.
TOGETHER = 20


def port(client):
    return client.socket.getpeername()[1]


def migrate_all(source, target):
    """Migrates all keys of the databases that `fill` writes to; returns the refused ones, with their errors."""
    refused = {}
    for db in (0, 7):
        source("SELECT", db)
        keys = source("KEYS", "*")
        for start in range(0, len(keys), TOGETHER):
            some = keys[start:start + TOGETHER]
            try:
                source("MIGRATE", "127.0.0.1", port(target), "", db, TIMEOUT, "KEYS", *some)
            except Failed as error:
                refused.update({key: str(error) for key in some if source("EXISTS", key)})
    source("SELECT", 0)
    return refused


def with_about_the_time(found):
    """Rounds deadlines: a migration sends the remaining time, so they become a little later."""
    return {key: (held[0], held[1] // 20000 if held[1] > 0 else held[1], held[2]) for key, held in found.items() if key != "functions"}


def moved(source, target, older, verdict, what):
    before = with_about_the_time(content(source))
    refused = migrate_all(source, target)
    expected = TOO_NEW if older else set()
    verdict(what + ", refused", ["%s (%s)" % one for one in refused.items() if one[0] not in expected])
    verdict(what + ", left behind", [str(key) for key in source("KEYS", "*") if key not in expected])
    kept = {key: held for key, held in before.items() if key[1] not in expected}
    close = {key: held for key, held in with_about_the_time(content(target)).items() if key[1] not in expected}
    for key, held in close.items():
        # The edge of a step may lie between the two.
        if key in kept and abs(kept[key][1] - held[1]) == 1:
            close[key] = (held[0], kept[key][1], held[2])
    verdict(what, differences(kept, close))


def errors(source, target):
    """Returns the replies to migrations that fail."""
    told = []

    def ask(*words):
        try:
            told.append((words[3:], source(*words)))
        except Failed as error:
            told.append((words[3:], str(error)))

    source("MSET", "a", 1, "b", 2, "c", 3)
    target("MSET", "b", "busy")
    here, there = "127.0.0.1", port(target)
    ask("MIGRATE", here, 1, "a", 0, 100)
    ask("MIGRATE", here, "x", "a", 0, 100)
    ask("MIGRATE", here, there, "none", 0, 100)
    ask("MIGRATE", here, there, "", 0, 100)
    ask("MIGRATE", here, there, "", 0, 100, "KEYS")
    ask("MIGRATE", here, there, "a", 99, 1000)
    ask("MIGRATE", here, there, "a", "x", 100)
    ask("MIGRATE", here, there, "a", 0, "x")
    ask("MIGRATE", here, there, "a", 0, 100, "AUTH")
    ask("MIGRATE", here, there, "a", 0, 100, "AUTH2", "user")
    ask("MIGRATE", here, there, "a", 0, 100, "NOPE")
    ask("MIGRATE", here, there, "a", 0, 100, "KEYS", "b")
    ask("MIGRATE", here, there, "b", 0, 0, "COPY")
    ask("MIGRATE", here, there, "b", 0, -5, "COPY", "REPLACE")
    ask("MIGRATE", here, there, "c", 0, 1000, "COPY", "AUTH", "password")
    ask("MIGRATE", here, there, "c", 0, 1000, "COPY", "REPLACE", "AUTH2", "user", "password")
    ask("MIGRATE", here, there, "", 3, 1000, "COPY", "KEYS", "c", "none", "c")
    ask("MIGRATE", here, there, "", 4, 1000, "REPLACE", "KEYS", "c", "none", "c")
    ask("MIGRATE", here, there, "", 0, 1000, "KEYS", "a", "b")
    source("MULTI")
    source("MIGRATE", here, there, "b", 0, 1000, "REPLACE")
    source("MIGRATE", here, there, "b", 0, 1000, "REPLACE")
    told.append(("EXEC", source("EXEC")))
    told.append(("left", sorted(source("KEYS", "*")), sorted(target("KEYS", "*"))))
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True, help="the folder of the real servers")
    options = parser.parse_args()
    checks, wrong = 0, 0

    def verdict(what, found):
        nonlocal checks, wrong
        checks += 1
        if found:
            wrong += 1
            print("migrations: %s: %s" % (what, ", ".join(map(str, found[:8]))))

    for path, name in PEERS.items():
        program = os.path.join(options.peers, path)
        if not os.path.exists(program):
            print("migrations: no %s" % path)
            continue
        family = "redis" if "redis" in name else "valkey"
        with tempfile.TemporaryDirectory() as theirs, tempfile.TemporaryDirectory() as ours:
            with Server(program, theirs) as peer, Server(options.server, ours, "--rdb-version-compat", family) as own:
                fill(peer)
                timed = fill_fields(peer)
                if not timed:
                    # It got as far as the first hash.
                    peer("DEL", "timed")
                moved(peer, own, False, verdict, "from %s" % name)
                peer("FLUSHALL")
                own("FLUSHALL")
                fill(own)
                if timed:
                    fill_fields(own)
                moved(own, peer, name in READS_OLDER_ONLY, verdict, "to %s" % name)
    told = []
    for program in (os.path.join(options.peers, "matching/bin/valkey-server"), options.server):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            with Server(program, one) as source, Server(program, two) as target:
                told.append(errors(source, target))
    verdict("what is replied", ["%s here, %s there" % (own, peer) for peer, own in zip(*told) if peer != own])
    print("migrations: %d checks, %d wrong" % (checks, wrong))
    return 1 if wrong or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
