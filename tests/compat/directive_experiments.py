"""The experiments of directive_effects.py: two values of a directive, and an observation with each."""
import dataclasses
import os
import time
from typing import Any, Callable

# The longest wait for an event that is expected, in seconds.
PATIENCE = 10
# The wait for an event that must not happen.
BRIEFLY = 2


@dataclasses.dataclass
class Pair:
    """CONFIG SET of each value, and a look at the server."""
    values: tuple
    look: Callable[[Any], Any]


@dataclasses.dataclass
class Start:
    """A server that is started with each value, or without a line if that is None."""
    values: tuple
    look_at: Callable[[Any], Any]
    options: tuple = ()

    def look(self, binary, server, name, value):
        with server(binary, *self.options, *(["--" + name, value] if value is not None else [])) as one:
            return self.look_at(one)


@dataclasses.dataclass
class Replica:
    """A primary, and a replica that is started with each value; both are looked at."""
    values: tuple
    look_at: Callable[[Any, Any], Any]

    def look(self, binary, server, name, value):
        with server(binary) as primary, server(binary, "--" + name, value) as replica:
            replica("REPLICAOF", "127.0.0.1", str(primary.port))
            until(lambda: replica.info("master_link_status") == "up" and primary.info("slave0"))
            return self.look_at(primary, replica)


@dataclasses.dataclass
class Scene:
    """A function of a starter of servers and of the directive's option, which starts the servers that it looks at."""
    values: tuple
    look_at: Callable[[Any, tuple], Any]

    def look(self, binary, server, name, value):
        return self.look_at(lambda *options, env=None: server(binary, *options, env=env), ("--" + name, value))


def until(condition, patience=PATIENCE):
    """Waits until the value is true; returns it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    return condition()


def after(*commands):
    """A look: the reply to the last of these commands."""
    return lambda server: [server(*command) for command in commands][-1]


def field(name, *commands):
    """A look: a field of INFO after these commands."""
    def look(server):
        for command in commands:
            server(*command)
        return server.info(name)
    return look


def changed(name, *commands):
    """A look: whether these commands change a field of INFO."""
    def look(server):
        before = until_quiet(lambda: server.info(name))
        for command in commands:
            server(*command)
        return until(lambda: server.info(name) != before, BRIEFLY)
    return look


def until_quiet(value):
    """Returns a value once it is the same twice in a row."""
    before = None
    while (now := value()) != before:
        before = now
        time.sleep(0.1)
    return now


def kind(*command):
    """A look: the encoding of a key that this command makes."""
    return after(command, ("OBJECT", "ENCODING", command[1]))


def part(position, *commands):
    """A look: one element of the last reply."""
    look = after(*commands)
    return lambda server: look(server)[position]


def number(reply):
    return int(reply.lstrip(":"))


def log_length(kind_of_log):
    """A look: entries of a log after ten commands."""
    def look(server):
        server("COMMANDLOG", "RESET", kind_of_log)
        server("CONFIG", "SET", "commandlog-execution-slower-than", "0", "commandlog-request-larger-than", "0",
               "commandlog-reply-larger-than", "0")
        for _ in range(10):
            server("GET", "k")
        server("CONFIG", "SET", "commandlog-execution-slower-than", "-1", "commandlog-request-larger-than", "-1",
               "commandlog-reply-larger-than", "-1")
        return number(server("COMMANDLOG", "LEN", kind_of_log)) > 5
    return look


def logged(kind_of_log):
    """A look: whether a command is logged; the limits of the other logs do not matter."""
    def look(server):
        server("COMMANDLOG", "RESET", kind_of_log)
        server("GET", "k")
        return number(server("COMMANDLOG", "LEN", kind_of_log)) > 0
    return look


def as_replica(*command):
    """A look: the reply of a replica without its primary."""
    def look(server):
        server("REPLICAOF", "127.0.0.1", "1")
        reply = server(*command)
        server("REPLICAOF", "NO", "ONE")
        return reply
    return look


def names(text):
    """A look: whether CLUSTER NODES has it."""
    return lambda server: text in until(lambda: server("CLUSTER", "NODES"))


BIG = ("SADD", "big", *["member-%d" % number for number in range(2000)])
FEW = ("RPUSH", "l", *"abcdefgh")
HASH, HASH_LONG = ("HSET", "h", *"abcdefgh"), ("HSET", "h", "f", "v" * 40)
SET, SET_LONG = ("SADD", "s", *"abcdefgh"), ("SADD", "s", "v" * 40)
ZSET, ZSET_LONG = ("ZADD", "z", "1", "a", "2", "b", "3", "c"), ("ZADD", "z", "1", "v" * 40)
XADDS = [("XADD", "x", "%d-1" % number, "f", "v" * 20) for number in range(1, 21)]
NODES = ("XINFO", "STREAM", "x")
NODE = ("--cluster-enabled", "yes")


def stream_nodes(server):
    reply = after(*XADDS, NODES)(server)
    return reply[reply.index("radix-tree-keys") + 1]


def tracked_keys(server):
    tracker = server.another()
    tracker("CLIENT", "TRACKING", "ON")
    for number in range(20):
        tracker("GET", "k%d" % number)
    return until_quiet(lambda: int(server.info("tracking_total_keys"))) > 10


def compressed(server):
    """A look: whether inner nodes are compressed, by DEBUG's count of the bytes that they would have."""
    server("CONFIG", "SET", "list-max-listpack-size", "64")
    after(("RPUSH", "l", *["v" * 60] * 1000))(server)
    nodes = server("DEBUG", "OBJECT", "l")
    server("CONFIG", "SET", "list-max-listpack-size", "-2")
    return nodes.split("ql_compressed:")[1].split(" ")[0]


def own_slots(text):
    """A look: whether CLUSTER SLOTS of a node that has all of them names it."""
    def look(server):
        server("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        return text in str(until(lambda: server("CLUSTER", "SLOTS")))
    return look


def published(server):
    """A look: whether a node refuses a message in its own slot because the cluster lacks other slots."""
    server("CLUSTER", "ADDSLOTS", str(number(server("CLUSTER", "KEYSLOT", "c"))))
    until(lambda: "cluster_slots_assigned:1" in server("CLUSTER", "INFO"))
    return "CLUSTERDOWN" in str(server("SPUBLISH", "c", "m"))


def evicted(server):
    """A look: whether a large evicted key is freed in the background."""
    server("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    look = changed("lazyfreed_objects", BIG, ("CONFIG", "SET", "maxmemory", "1"), ("SET", "k", "v"))(server)
    server("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    return look


def has_thread(name):
    """A look: whether the process has a thread of this name."""
    def look(server):
        folder = "/proc/%d/task" % server.process.pid
        def names_of_threads():
            return [open(os.path.join(folder, thread, "comm")).read().strip() for thread in os.listdir(folder)]
        return until(lambda: name in names_of_threads(), BRIEFLY)
    return look


def with_replica(look):
    """A look at a primary and its replica, which may not get its snapshot."""
    def both(primary):
        with primary.start() as replica:
            replica("REPLICAOF", "127.0.0.1", str(primary.port))
            is_up = until(lambda: replica.info("master_link_status") == "up", 2 * BRIEFLY)
            return look(primary, replica, is_up)
    return both


def keeps_file(replica):
    """A look: whether the file with a replica's initial data stays."""
    with replica.start() as primary:
        replica("REPLICAOF", "127.0.0.1", str(primary.port))
        until(lambda: replica.info("master_link_status") == "up")
        path = os.path.join(replica.folder.name, "dump.rdb")
        return not until(lambda: not os.path.exists(path), BRIEFLY)


def keeps_backlog(primary, replica, _):
    """A look: whether the backlog outlives the last replica for some seconds."""
    replica("REPLICAOF", "NO", "ONE")
    return not until(lambda: primary.info("repl_backlog_active") == "0", 2 * BRIEFLY)


def flushed_for_sync(replica):
    """A look: whether a replica frees its old data in the background during a full synchronization."""
    replica(*BIG)
    with replica.start() as primary:
        replica("REPLICAOF", "127.0.0.1", str(primary.port))
        until(lambda: replica.info("master_link_status") == "up")
        return until_quiet(lambda: replica.info("lazyfreed_objects")) != "0"


def lag_matters(server):
    server("CONFIG", "SET", "min-replicas-to-write", "1")
    reply = server("SET", "k", "v")
    server("CONFIG", "SET", "min-replicas-to-write", "0")
    return reply


def rehashes(server):
    """A look: whether the table of keys that is being resized is moved on without a client."""
    server("DEBUG", "POPULATE", "50000")
    batch = server.another()
    for number in range(0, 200_000, 500):
        batch.socket.sendall(b"".join(b"SET n%d v\r\n" % each for each in range(number, number + 500)) + b"INFO memory\r\n")
        info = [batch.read() for _ in range(501)][-1]
        if "hashtable_rehashing:0" not in info:
            break
    moved = until(lambda: server.info("mem_overhead_db_hashtable_rehashing") == "0", BRIEFLY)
    server("FLUSHALL")
    return moved


def quiet(server):
    """Waits until nothing is freed in the background: nothing is evicted until then."""
    until(lambda: server.info("lazyfree_pending_objects") == "0")
    until_quiet(lambda: server.info("lazyfreed_objects"))


def evicted_at_once(server):
    """A look: whether one command above the limit evicts until there is room."""
    quiet(server)
    server("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    server("DEBUG", "POPULATE", "200000", "key", "100")
    batch = server.another()
    batch.socket.sendall(b"CONFIG SET maxmemory %d\r\nSET k v\r\nINFO stats\r\n" % (int(server.info("used_memory")) * 2 // 3))
    info = [batch.read() for _ in range(3)][-1]
    server("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    server("CONFIG", "RESETSTAT")
    return int(info.split("evicted_keys:")[1].split("\r\n")[0]) > 20_000


def evicts_young_keys(server):
    """A look: whether many of the keys that are evicted were read a moment ago, while others were not for hours."""
    quiet(server)
    server("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    server("SET", "k", "v" * 2000)
    value = server("DUMP", "k").encode("latin-1")
    for each in range(1000):
        server("RESTORE", "old%d" % each, "0", value, "IDLETIME", "10000")
        server("RESTORE", "young%d" % each, "0", value, "IDLETIME", "0")
    server("CONFIG", "SET", "maxmemory", str(int(server.info("used_memory")) - 400_000))
    until(lambda: server("SET", "k", "v") == "+OK" and number(server("DBSIZE")) < 1950)
    until_quiet(lambda: server("DBSIZE"))
    young = sum(server("EXISTS", "young%d" % each) == ":0" for each in range(1000))
    gone = 2001 - number(server("DBSIZE"))
    server("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    return gone > 20, young > gone // 5


EXPERIMENTS = {
    "activerehashing": Pair(("no", "yes"), rehashes),
    "maxmemory-eviction-tenacity": Pair(("0", "100"), evicted_at_once),
    "maxmemory-samples": Pair(("1", "64"), evicts_young_keys),
    "hash-max-listpack-entries": Pair(("2", "100"), kind(*HASH)),
    "hash-max-ziplist-entries": Pair(("2", "100"), kind(*HASH)),
    "hash-max-listpack-value": Pair(("10", "100"), kind(*HASH_LONG)),
    "hash-max-ziplist-value": Pair(("10", "100"), kind(*HASH_LONG)),
    "set-max-intset-entries": Pair(("2", "100"), kind("SADD", "s", "1", "2", "3")),
    "set-max-listpack-entries": Pair(("2", "100"), kind(*SET)),
    "set-max-listpack-value": Pair(("10", "100"), kind(*SET_LONG)),
    "zset-max-listpack-entries": Pair(("2", "100"), kind(*ZSET)),
    "zset-max-ziplist-entries": Pair(("2", "100"), kind(*ZSET)),
    "zset-max-listpack-value": Pair(("10", "100"), kind(*ZSET_LONG)),
    "zset-max-ziplist-value": Pair(("10", "100"), kind(*ZSET_LONG)),
    "list-max-listpack-size": Pair(("2", "100"), kind(*FEW)),
    "list-max-ziplist-size": Pair(("2", "100"), kind(*FEW)),
    "hll-sparse-max-bytes": Pair(("0", "3000"), after(("PFADD", "p", *"abcdef"), ("STRLEN", "p"))),
    "stream-node-max-entries": Pair(("5", "100"), stream_nodes),
    "stream-node-max-bytes": Pair(("100", "4096"), stream_nodes),
    "availability-zone": Pair(("", "zone-1"), field("availability_zone")),
    "extended-redis-compatibility": Pair(("yes", "no"), part(1, ("HELLO",))),
    "commandlog-execution-slower-than": Pair(("0", "-1"), logged("slow")),
    "slowlog-log-slower-than": Pair(("0", "-1"), logged("slow")),
    "commandlog-request-larger-than": Pair(("0", "-1"), logged("large-request")),
    "commandlog-reply-larger-than": Pair(("0", "-1"), logged("large-reply")),
    "commandlog-slow-execution-max-len": Pair(("3", "100"), log_length("slow")),
    "slowlog-max-len": Pair(("3", "100"), log_length("slow")),
    "commandlog-large-request-max-len": Pair(("3", "100"), log_length("large-request")),
    "commandlog-large-reply-max-len": Pair(("3", "100"), log_length("large-reply")),
    "latency-tracking": Pair(("no", "yes"), lambda server: server("SET", "k", "v") and
                             "latency_percentiles_usec_set" in server("INFO", "latencystats")),
    "latency-tracking-info-percentiles": Pair(("50", "99"), lambda server: server("SET", "k", "v") and
                                              "p99=" in server("INFO", "latencystats")),
    "import-mode": Pair(("no", "yes"), lambda server: server.another()("CLIENT", "IMPORT-SOURCE", "ON")),
    "lazyfree-lazy-user-flush": Pair(("no", "yes"), changed("lazyfreed_objects", BIG, ("FLUSHALL",))),
    "lazyfree-lazy-server-del": Pair(("no", "yes"), changed("lazyfreed_objects", BIG, ("SET", "k", "v"),
                                                            ("RENAME", "k", "big"))),
    "replica-serve-stale-data": Pair(("no", "yes"), as_replica("GET", "k")),
    "slave-serve-stale-data": Pair(("no", "yes"), as_replica("GET", "k")),
    "replica-priority": Pair(("7", "8"), lambda server: as_replica("INFO", "replication")(server).split("slave_priority:")[1][0]),
    "slave-priority": Pair(("7", "8"), lambda server: as_replica("INFO", "replication")(server).split("slave_priority:")[1][0]),
    "slave-read-only": Pair(("no", "yes"), as_replica("SET", "k", "v")),
    "replica-announced": Pair(("no", "yes"), lambda server: as_replica("INFO", "replication")(server).split("replica_announced:")[1][0]),
    "min-slaves-to-write": Pair(("0", "3"), after(("SET", "k", "v"))),
    "min-replicas-max-lag": Pair(("0", "10"), lag_matters),
    "replica-announce-ip": Replica(("127.0.0.5", "127.0.0.6"), lambda primary, _: primary.info("slave0").split(",")[0]),
    "replica-announce-port": Replica(("7001", "7002"), lambda primary, _: primary.info("slave0").split(",")[1]),
    "bind-source-addr": Replica(("127.0.0.2", "127.0.0.3"), lambda primary, _: primary.info("slave0").split(",")[0]),
    "cluster-announce-ip": Start((None, "10.1.2.3"), names("10.1.2.3"), NODE),
    "cluster-announce-port": Start((None, "7001"), names(":7001@"), NODE),
    "cluster-announce-bus-port": Start((None, "17999"), names("@17999"), NODE),
    "cluster-allow-pubsubshard-when-down": Start(("no", "yes"), published, NODE),
    "cluster-announce-client-ipv4": Start((None, "10.1.2.3"), own_slots("10.1.2.3"), NODE),
    "cluster-announce-client-port": Start((None, "7003"), own_slots("7003"), NODE),
    "list-compress-depth": Pair(("0", "1"), compressed),
    "tracking-table-max-keys": Pair(("5", "1000"), tracked_keys),
    "lazyfree-lazy-eviction": Pair(("no", "yes"), evicted),
    "jemalloc-bg-thread": Start(("no", "yes"), has_thread("jemalloc_bg_thd")),
    "rdb-del-sync-files": Start(("no", "yes"), keeps_file),
    "repl-backlog-ttl": Start(("0", "1"), with_replica(keeps_backlog)),
    "repl-diskless-sync-max-replicas": Start(("0", "1"), with_replica(lambda *seen: seen[2]), ("--repl-diskless-sync-delay", "100")),
    "replica-lazy-flush": Start(("no", "yes"), flushed_for_sync),
    "databases": Start(("4", "16"), after(("SELECT", "9"))),
}
