#!/usr/bin/env python3
"""lru - which commands count as a use of a key, as eviction sees it, compared with a Valkey.

    lru.py --server target/release/cinnabar-server --valkey .../valkey-server

Keys of every type are restored with an idle time of 1,000 seconds, or an access counter of 200; then one command is run, and OBJECT
IDLETIME or FREQ of every key must be what the Valkey says. Each command runs on small and on large values, with keyspace
notifications and without, and for a client that wants to leave no trace (CLIENT NO-TOUCH). Standard library only.
"""
import argparse
import os
import tempfile

from wire import start

IDLE, FREQUENCY = 1000, 200
SEEDS = [
    ["SET", "int", 5], ["SET", "text", "abc"], ["SET", "long", "x" * 200], ["RPUSH", "list", "a", "b", "c"], ["HSET", "hash", "f", 1, "g", "2.5"],
    ["SADD", "set", "a", "b", "c"], ["SADD", "ints", 1, 2, 3], ["ZADD", "zset", 1, "a", 2, "b", 3, "c"], ["XADD", "stream", "1-1", "f", "v"],
    ["PFADD", "sketch", "a"], ["GEOADD", "places", 1, 1, "a", 2, 2, "b"], ["SETBIT", "bits", 7, 1],
]
# Keys that are too large for a packed form.
LARGE = [
    ["RPUSH", "list", *(f"{n:0100}" for n in range(300))], ["HSET", "hash", *(word for n in range(600) for word in (f"h{n}", "v"))],
    ["SADD", "set", *(f"m{n}" for n in range(600))], ["SADD", "ints", *range(1000)], ["APPEND", "text", "y" * 1000],
    ["ZADD", "zset", *(word for n in range(600) for word in (n, f"m{n}"))],
]
COMMANDS = """
GET int|GET text|STRLEN text|GETRANGE text 0 1|SUBSTR text 0 1|MGET int text|TYPE text|TTL text|EXISTS text|TOUCH text|OBJECT ENCODING text|DUMP text
SET int 6|SET text abd|SET text 5|SET text zzzz KEEPTTL|SET text q EX 100|SET text q NX|SET text q XX|SET text q GET|SETEX text 100 a|SETNX text a
SETNX fresh a|GETSET text q|GETDEL text|GETEX text|GETEX text EX 100|GETEX text PERSIST|APPEND text x|APPEND int 1|SETRANGE text 1 x|INCR int|INCR text
DECRBY int 2|INCRBYFLOAT int 1.5|MSET int 1 text 2|MSETNX int 1 fresh 2|LCS text long|SET long y|SETBIT bits 8 1|GETBIT bits 1|BITCOUNT bits|BITPOS bits 1
BITFIELD bits SET u8 0 1|BITFIELD bits GET u8 0|BITFIELD_RO bits GET u8 0|BITOP OR bits bits text|BITOP NOT fresh bits
LPUSH list x|RPUSH list x|LPUSHX list x|RPUSHX list x|LPOP list|RPOP list|LPOP list 2|LRANGE list 0 -1|LLEN list|LINDEX list 0|LPOS list b|LSET list 0 z
LINSERT list BEFORE b z|LINSERT list BEFORE nothing z|LREM list 0 b|LREM list 0 nothing|LTRIM list 0 1|LMOVE list list LEFT RIGHT|LMOVE list fresh LEFT LEFT
RPOPLPUSH list list|BLPOP list 0|BLMOVE list list LEFT LEFT 0|LMPOP 1 list LEFT|BLMPOP 0 1 list LEFT|LPUSH text a
HSET hash f 2|HSET hash new v|HMSET hash f v|HSETNX hash f 1|HSETNX hash other 1|HGET hash f|HMGET hash f x|HGETALL hash|HLEN hash|HEXISTS hash f|HSTRLEN hash f|HKEYS hash
HVALS hash|HINCRBY hash f 1|HINCRBYFLOAT hash g 1|HDEL hash f|HDEL hash nothing|HSCAN hash 0|HRANDFIELD hash|HSET text f v
SADD set x|SADD set a|SADD ints 7|SADD ints z|SREM set a|SREM set nothing|SISMEMBER set a|SMISMEMBER set a b|SCARD set|SMEMBERS set|SRANDMEMBER set|SRANDMEMBER set 2
SPOP set|SPOP set 2|SMOVE set ints a|SMOVE set fresh a|SINTER set ints|SINTERCARD 2 set ints|SUNION set ints|SDIFF set ints|SINTERSTORE fresh set ints
SUNIONSTORE set set ints|SDIFFSTORE fresh set ints|SSCAN set 0
ZADD zset 9 x|ZADD zset 1 a|ZADD zset NX 1 a|ZADD zset XX 7 nothing|ZADD zset INCR 1 a|ZINCRBY zset 1 a|ZREM zset a|ZREM zset nothing|ZSCORE zset a|ZMSCORE zset a b|ZCARD zset
ZRANK zset a|ZREVRANK zset a|ZCOUNT zset 0 9|ZLEXCOUNT zset - +|ZRANGE zset 0 -1|ZREVRANGE zset 0 -1|ZRANGEBYSCORE zset 0 9|ZRANGESTORE fresh zset 0 -1|ZRANGESTORE zset zset 0 0
ZREMRANGEBYRANK zset 0 0|ZREMRANGEBYSCORE zset 1 1|ZREMRANGEBYLEX zset [a [a|ZPOPMIN zset|ZPOPMAX zset 2|BZPOPMIN zset 0|ZMPOP 1 zset MIN|BZMPOP 0 1 zset MAX
ZUNION 2 zset set|ZUNIONSTORE fresh 2 zset set|ZINTER 2 zset set|ZINTERSTORE fresh 2 zset set|ZDIFF 2 zset set|ZDIFFSTORE fresh 2 zset set|ZINTERCARD 2 zset set|ZRANDMEMBER zset|ZSCAN zset 0
XADD stream * f v|XADD stream NOMKSTREAM * f v|XLEN stream|XRANGE stream - +|XREVRANGE stream + -|XREAD STREAMS stream 0|XDEL stream 1-1|XDEL stream 9-9|XTRIM stream MAXLEN 0|XSETID stream 9-9
XGROUP CREATE stream g 0|XINFO STREAM stream|XINFO GROUPS stream
PFADD sketch b|PFADD sketch a|PFCOUNT sketch|PFMERGE sketch sketch|PFMERGE fresh sketch|GEOADD places 3 3 c|GEOADD places 1 1 a|GEOPOS places a|GEODIST places a b|GEOHASH places a
GEOSEARCH places FROMMEMBER a BYRADIUS 1 km|GEOSEARCHSTORE fresh places FROMMEMBER a BYRADIUS 1 km|GEORADIUS places 1 1 1 km
RENAME list other|RENAME int other|RENAME hash other|RENAME long other|MOVE text 1|MOVE list 1|COPY list other DB 1|EXPIRE text 100|EXPIRE text 100 NX|EXPIRE text 100 XX|PEXPIREAT text 4000000000000|PERSIST text|EXPIRETIME text|RENAME text other|RENAMENX text other|RENAMENX text int|COPY text other
COPY text int|COPY text int REPLACE|SORT ints|SORT ints STORE fresh|SORT_RO ints|SORT ints BY t*xt GET te*t|DEL text|UNLINK list|SCAN 0|SCAN 0 TYPE hash|RANDOMKEY|KEYS *
EVAL return(redis.call('get','text')) 1 text|EVAL return(redis.call('rpush','list','q')) 1 list|EVAL return(redis.call('incr','int')) 1 int|EVAL return(1) 1 text
OBJECT FREQ text|OBJECT IDLETIME text|OBJECT REFCOUNT text|MEMORY USAGE text|DEBUG OBJECT text|WATCH text|WAIT 0 0|SWAPDB 0 0
"""
NAMES = sorted({seed[1] for seed in SEEDS} | {"fresh", "other"})
# RANDOMKEY looks at a key of its own choice.
CASES = [case.split() for line in COMMANDS.strip().splitlines() for case in line.split("|") if case != "RANDOMKEY"]


def dumps(client, large):
    """Returns the restored form of every key."""
    client("FLUSHALL")
    for seed in SEEDS + (LARGE if large else []):
        client(*seed)
    return {seed[1]: client("DUMP", seed[1]) for seed in SEEDS}


def marks(client, restored, policy, command):
    """Returns each key's mark after the command: "used", "as it was", "new" or "gone"."""
    client("FLUSHALL")
    option = ["FREQ", FREQUENCY] if policy == "lfu" else ["IDLETIME", IDLE]
    for name, bytes_ in restored.items():
        assert client("RESTORE", name, 0, bytes_, "REPLACE", *option) == b"+OK"
    client(*command)
    client("UNWATCH")
    found = {}
    for database in 0, 1:
        client("SELECT", database)
        for name in NAMES if database == 0 or command[0] in ("MOVE", "COPY") else []:
            mark = client("OBJECT", "FREQ" if policy == "lfu" else "IDLETIME", name)
            if mark is None:
                found[database, name] = "gone"
            elif policy == "lfu":
                found[database, name] = "as it was" if int(mark[1:]) >= FREQUENCY - 1 else "new"
            else:
                found[database, name] = "as it was" if int(mark[1:]) >= IDLE else "used"
    client("SELECT", 0)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--valkey", required=True)
    options = parser.parse_args()
    differences = compared = 0
    with tempfile.TemporaryDirectory() as scratch:
        processes, clients = zip(*(start(os.path.abspath(binary), scratch) for binary in (options.server, options.valkey)))
        try:
            for policy, large, no_touch, events in [
                ("lru", False, "off", ""), ("lru", True, "off", ""), ("lru", False, "off", "KEA"), ("lru", False, "on", ""), ("lru", True, "on", ""),
                ("lfu", False, "off", ""), ("lfu", True, "off", ""),
            ]:
                for client in clients:
                    client("CONFIG", "SET", "maxmemory-policy", f"allkeys-{policy}", "notify-keyspace-events", events)
                    client("CLIENT", "NO-TOUCH", no_touch)
                restored = [dumps(client, large) for client in clients]
                for case in CASES:
                    ours, theirs = (marks(client, values, policy, case) for client, values in zip(clients, restored))
                    compared += 1
                    for database, name in theirs:
                        mark = ours[database, name]
                        if mark != theirs[database, name]:
                            differences += 1
                            print(f"{policy}{' large' * large}{' no-touch' * (no_touch == 'on')}{' events' * bool(events)}: "
                                  f"{' '.join(case)}: {name} in {database} is {mark}, not {theirs[database, name]}")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    print(f"lru: {compared} commands compared, {differences} differences")
    raise SystemExit(1 if differences else 0)


main()
