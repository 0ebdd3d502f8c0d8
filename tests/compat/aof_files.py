#!/usr/bin/env python3
"""aof_files - append-only files go both ways: what one server logged every other one replays, and then holds the same.

    aof_files.py --server target/release/cinnabar-server --peers ~/.cache/peers

For every real server among the peers, with bases in both formats: keys of every type are made there, the log is rewritten, all kinds of commands
change them, the server is killed, and Cinnabar goes on with its files; and the other way round. All is read out by commands. The
check tools of both sides must pass the files of the other.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

from rdb_files import PEERS, READS_OLDER_ONLY, Failed, Server, content, differences, fill, fill_fields

MANIFEST = "appendonlydir/appendonly.aof.manifest"


def change(c):
    """Runs commands that are logged in another form than they were sent, and some that are not logged."""
    c("SET", "new", "value", "EX", 90000)
    c("INCRBYFLOAT", "float", "0.1")
    c("INCRBYFLOAT", "float", "0.2")
    c("HINCRBYFLOAT", "hash:one", "sum", "1.25")
    c("EXPIRE", "string:int8", 80000)
    c("GETEX", "deadline", "PERSIST")
    c("GETDEL", "string:short")
    c("SPOP", "set:small", 7)
    c("SPOP", "ints:large", 100)
    c("LMPOP", 2, "list:none", "list:small", "RIGHT", "COUNT", 3)
    c("LMOVE", "list:small", "list:moved", "LEFT", "RIGHT")
    c("ZPOPMAX", "zset:small", 2)
    c("ZUNIONSTORE", "zset:union", 2, "zset:one", "zset:small")
    c("SORT", "list:elements", "ALPHA", "STORE", "sorted")
    c("COPY", "hash:small", "hash:copy")
    c("RENAME", "bits", "renamed")
    c("PFMERGE", "hll:merged", "hll")
    c("GEOSEARCHSTORE", "near", "places", "FROMLONLAT", 15, 37, "BYRADIUS", 200, "km")
    c("BITOP", "NOT", "bits", "renamed")
    c("XADD", "stream", "NOMKSTREAM", "MAXLEN", "~", 500, "*", "field", "last")
    c("XADD", "second", "1-1", "a", "b")
    c("XGROUP", "CREATE", "second", "group", "0")
    c("XREADGROUP", "GROUP", "group", "carol", "COUNT", 5, "STREAMS", "stream", "second", ">", ">")
    # Logs of other servers have no record of a consumer that reads no entry.
    c("XAUTOCLAIM", "stream", "group", "dave", 0, "201-0", "COUNT", 4)
    c("XTRIM", "stream", "MINID", "20")
    c("XGROUP", "DELCONSUMER", "stream", "group", "bob")
    c("EVAL", "for n = 1, 50 do redis.call('rpush', KEYS[1], n) end redis.call('spop', KEYS[2]) return 1", 2, "scripted", "set:large")
    c("MULTI")
    c("INCR", "counter")
    c("SELECT", 7)
    c("APPEND", "elsewhere", "s")
    c("LPUSH", "there", "x")
    c("SELECT", 0)
    c("DEL", "string:empty")
    c("EXEC")
    c("SET", "gone", "x", "PX", 1)
    time.sleep(0.01)
    c("GET", "gone")


def rewrite(c):
    c("BGREWRITEAOF")
    for _ in range(500):
        info = c("INFO", "persistence")
        if b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info:
            return
        time.sleep(0.02)
    raise RuntimeError("the rewrite does not end")


class Run:
    def __init__(self, server):
        self.server = server
        self.checks = self.wrong = 0

    def verdict(self, what, wrong):
        self.checks += 1
        if wrong:
            self.wrong += 1
            print("aof_files: %s: %s" % (what, ", ".join(wrong[:8])))

    def one_way(self, writer, reader, tool, preamble, timed, what):
        options = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble, "--aof-timestamp-enabled", "yes"]
        with tempfile.TemporaryDirectory() as folder:
            with Server(writer, folder, *options) as c:
                fill(c)
                if timed:
                    fill_fields(c)
                rewrite(c)
                change(c)
                before = content(c)
            if os.path.exists(tool):
                done = subprocess.run([tool, os.path.join(folder, MANIFEST)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                self.verdict(what + ", " + os.path.basename(tool), [done.stdout.decode()[-500:]] if done.returncode else [])
            with Server(reader, folder, *options) as c:
                self.verdict(what, differences(before, content(c)))
                # The server continues with the files that it found.
                c("SET", "appended", "x")
                rewrite(c)
            with Server(writer, folder, *options) as c:
                after = content(c)
                self.verdict(what + ", and back", [] if (0, b"appended") in after and len(after) == len(before) + 1 else ["other keys"])

    def both_ways(self, peer, name):
        tool = os.path.join(os.path.dirname(peer), ("redis" if "redis" in name else "valkey") + "-check-aof")
        own_tool = os.path.join(os.path.dirname(self.server), "cinnabar-check-aof")
        for preamble in ("yes", "no"):
            if preamble == "yes" and name in READS_OLDER_ONLY:
                continue
            timed = name in ("redis 8", "valkey 9") and preamble == "no"
            shape = "base %s" % ("as a snapshot" if preamble == "yes" else "of commands")
            self.one_way(peer, self.server, own_tool, preamble, timed, "written by %s, %s" % (name, shape))
            self.one_way(self.server, peer, tool, preamble, timed, "read by %s, %s" % (name, shape))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--server", required=True, help="cinnabar-server")
    p.add_argument("--peers", default=os.path.expanduser("~/.cache/peers"), help="the folder of the real servers")
    p.add_argument("--only", help="only the peers whose names contain this")
    args = p.parse_args()
    run = Run(os.path.abspath(args.server))
    for path, name in PEERS.items():
        peer = os.path.join(args.peers, path)
        if os.path.exists(peer) and (args.only or "") in name:
            try:
                run.both_ways(peer, name)
            except Failed as error:
                run.verdict(name, [str(error)])
    print("aof_files: %d checks, %d wrong" % (run.checks, run.wrong))
    return 1 if run.wrong or not run.checks else 0


if __name__ == "__main__":
    sys.exit(main())
