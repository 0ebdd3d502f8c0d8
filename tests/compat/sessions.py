#!/usr/bin/env python3
"""Several clients act on each other, on two servers: every reply is compared.

    sessions.py 127.0.0.1:6379 --peer 127.0.0.1:6380

All servers are flushed. The dialogues below are held with the first server and with the peer; the filters of CLIENT LIST
and CLIENT KILL are compared with the newest server, whose they are. A line of a dialogue is

    a: WORDS       client a sends a command and is answered
    a! WORDS       client a sends a command; whether it is answered at once is part of what is compared
    a?             client a is answered what it has sent before, if it is
    a= FIELDS      what CLIENT LIST tells of client a in these fields
    sleep SECONDS

With --random N, N dialogues more are put together by chance from --seed on. {id:a} and {addr:a} stand for the client's ID and address. Exits with 1 if there is a difference.
"""
import argparse
import random
import shlex
import socket
import sys
import time

from wire import request

# Seconds within which a prompt answer arrives, and seconds after which an answer counts as missing; a machine may be
# busy.
AT_ONCE = 0.2
SOON = 0.03
SILENCE = 20
ATTEMPTS = 3

DIALOGUES = {
    "watched keys that are changed": [
        step
        for change in ("SET k 2", "GET k", "DEL k", "DEL other", "EXPIRE k 100", "PERSIST k", "RENAME k z", "RENAME z k", "MOVE k 3",
                       "COPY z k REPLACE", "COPY k y", "APPEND k ''", "SETRANGE k 0 ''", "SET k 1", "SETNX k 9", "TOUCH k", "GETEX k",
                       "GETEX k PERSIST", "GETEX k EX 100", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "SWAPDB 1 2", "OBJECT FREQ k",
                       "SORT l STORE k", "SORT none STORE k", "EVAL \"return redis.call('set','k','x')\" 0", "EVAL \"return redis.call('get','k')\" 1 k",
                       "EXPIRE k -1", "PEXPIREAT k 1", "RPUSH k x", "RESTORE k 0 x REPLACE", "GETDEL k", "INCRBY k 0", "LREM l 0 nothing")
        for step in ("b: FLUSHALL", "b: SET k 1", "b: SET z 5", "b: RPUSH l 2 1", "a: WATCH k l", "b: " + change, "a: MULTI", "a: PING", "a: EXEC")
    ],
    "watched keys that are missing": [
        step
        for before in ("PING", "SET elsewhere 1")
        for change in ("FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "SWAPDB 1 2", "SET k 1", "DEL k", "LPUSH k 1", "MOVE elsewhere 1", "PFADD k")
        for step in ("b: FLUSHALL", "b: " + before, "b: SELECT 1", "b: SET k in-one", "b: SELECT 0", "a: WATCH k", "b: " + change, "a: MULTI",
                     "a: PING", "a: EXEC")
    ],
    "watched keys that expire": [
        "a: SET k 1 PX 40", "a: WATCH k", "sleep 0.15", "a: MULTI", "a: PING", "a: EXEC",
        "a: SET k 1 PX 40", "a: WATCH k", "sleep 0.15", "b: GET k", "a: MULTI", "a: PING", "a: EXEC",
        "a: SET k 1 PX 40", "sleep 0.15", "a: WATCH k", "b: GET k", "a: MULTI", "a: PING", "a: EXEC",
        "a: SET k 1 PX 40", "sleep 0.15", "a: WATCH k", "b: FLUSHALL", "a: MULTI", "a: PING", "a: EXEC",
        "a: SET k 1 PX 40", "sleep 0.15", "a: WATCH k", "b: SET k 1", "a: MULTI", "a: PING", "a: EXEC",
        "a: WATCH k", "b: SET k 1 PX 40", "b: DEL k", "a: MULTI", "a: PING", "a: EXEC",
    ],
    "the end of watching": [
        "a: WATCH k", "a: UNWATCH", "b: SET k 1", "a: MULTI", "a: PING", "a: EXEC",
        "a: WATCH k", "a: MULTI", "a: DISCARD", "b: SET k 1", "a: MULTI", "a: PING", "a: EXEC",
        "a: WATCH k", "a: MULTI", "a: NOPE", "b: SET k 1", "a: EXEC", "a: MULTI", "a: PING", "a: EXEC",
        "a: WATCH k", "a: RESET", "b: SET k 1", "a: MULTI", "a: PING", "a: EXEC",
        "a: WATCH k k k", "a: SET k 2", "a: MULTI", "a: EXEC", "a: EXEC",
        "a: SELECT 1", "a: WATCH k", "b: SET k 1", "a: MULTI", "a: EXEC",
        "a: SELECT 0", "b: PFADD sketch 1", "a: WATCH sketch", "b: PFDEBUG TODENSE sketch", "a: MULTI", "a: EXEC",
    ],
    "what others see of a transaction": [
        step
        for lines in (
            ["a: WATCH k", "a: WATCH k j", "b: SET k 1", "a: WATCH other", "a: MULTI", "a: PING", "a: EXEC"],
            ["a: WATCH k", "a: UNWATCH", "a: MULTI", "a: PING", "a: SET k v", "a: DISCARD"],
            ["a: WATCH k", "a: MULTI", "a: PING", "b: SET k 1", "a: PING", "a: EXEC"],
            ["a: MULTI", "a: PING", "a: NOPE", "a: PING", "a: EXEC"],
            ["a: DISCARD", "a: UNWATCH", "a: EXEC", "a: RESET", "a: MULTI", "a: WATCH k", "a: PING", "a: RESET"],
            ["a: SELECT 3", "a: WATCH k", "a: SELECT 0", "a: WATCH k", "a: MULTI", "a: EXEC x", "a: PING"],
        )
        for line in lines
        for step in (line, "a= flags multi watch db")
    ],
    "a transaction that will fail does not wait for a pause": [
        step
        for spoil in ("b: SET k 1", "a: NOPE", "b: PING")
        for step in ("a: WATCH k", "a: MULTI", "a: SET x 1", spoil, "c: CLIENT PAUSE 100000 WRITE", "a! EXEC", "c: CLIENT UNPAUSE", "a?")
    ],
    "what scripts find": [
        "a: " + line
        for line in (
            "EVAL \"return redis.call('set',KEYS[1],-0.0)\" 1 k", "GET k", "EVAL \"redis.setresp(3.9) return redis.call('hgetall','none')\" 0",
            "EVAL \"return redis.setresp(1.9)\" 0", "EVAL \"return bit.band('5',7)\" 0", "EVAL \"return bit.band('x',7)\" 0",
            "EVAL \"return bit.tohex('255')\" 0", "EVAL \"local f = load('return 1')\" 0", "EVAL \"local f = load()\" 0", "EVAL \"local f = load(nil)\" 0",
            "EVAL \"return struct.pack('i')\" 0", "EVAL \"return struct.pack('is',1)\" 0", "EVAL \"return struct.pack('c5','abc')\" 0",
            "EVAL \"#!lua flags=no-writes,\nreturn 1\" 0", "EVAL \"#!lua flags=\nreturn 1\" 0", "EVAL \"#!lua flags=,\nreturn 1\" 0",
            "EVAL '#!lua flags=\"no-writes\"\nreturn 1' 0", "EVAL '#!lua flags=\"no-writes\nreturn 1' 0", "EVAL '#!\"lua\"\nreturn 1' 0",
            "EVAL \"#! lua\nreturn 1\" 0", "EVAL \"#!\nreturn 1\" 0", "EVAL \"#!lua flags=no-writes, allow-oom\nreturn 1\" 0",
            "FUNCTION LOAD '#!lua name=\"a\"\nredis.register_function(\"a\",function() end)'", "FUNCTION LOAD '#!lua name=\"a\nreturn 1'", "FUNCTION LOAD '#! name=a\nx'",
            "FUNCTION LOAD '#!lua name=a\"b\"\nreturn 1'", "FUNCTION LOAD '#!\nreturn 1'",
        )
    ],
    "who is refused does not wait for a pause": [
        "a: SUBSCRIBE news", "d: HELLO 3", "d: SUBSCRIBE news", "c: CLIENT PAUSE 100000 WRITE", "a! SET k 1", "a! GET k", "d! GET k", "d! SET k 1", "c: CLIENT UNPAUSE", "d?",
    ],
    "errors while commands are queued": [
        step
        for wrong in ("NOPE", "GET", "GET a b", "MULTI", "WATCH k", "EXEC x", "DISCARD x", "CLIENT NOPE", "CONFIG", "SHUTDOWN x y", "SUBSCRIBE", "RESET x",
                      "OBJECT NOPE k", "UNWATCH", "SELECT 99", "SELECT x", "SET k v EX 0", "INCR list", "AUTH x", "HELLO 9", "SAVE x", "XADD k", "COMMAND NOPE",
                      "CLIENT REPLY OFF x", "MONITOR x", "EVAL 1", "EVALSHA 0000 0", "SCRIPT NOPE", "FCALL nothing 0", "SLOWLOG NOPE", "DEBUG")
        for step in ("a: RPUSH list x", "a: MULTI", "a: SET k 1", "a: " + wrong, "a: SET k 2", "a: EXEC", "a: GET k", "a: DISCARD", "b: FLUSHALL")
    ] + ["a: EXEC", "a: DISCARD", "a: MULTI", "a: RESET", "a: EXEC", "a: MULTI", "a: MULTI", "a: EXEC"],
    "commands that would wait, in a transaction": [
        "b: RPUSH full 1 2 3 4 5 6 7 8", "b: ZADD scores 1 a 2 b 3 c 4 d", "b: XADD stream 1-1 f v", "b: XGROUP CREATE stream g 0", "a: MULTI",
        "a: BLPOP none 0", "a: BLPOP none full 0", "a: BRPOP full 0", "a: BLMOVE full other LEFT RIGHT 0", "a: BLMOVE none other LEFT RIGHT 0",
        "a: BRPOPLPUSH full other 0", "a: BRPOPLPUSH none other 0", "a: BLMPOP 0 2 none full RIGHT COUNT 2", "a: BLMPOP 0 1 none LEFT",
        "a: BZPOPMIN scores 0", "a: BZPOPMAX none 0", "a: BZMPOP 0 2 none scores MAX", "a: BZMPOP 0 1 none MIN", "a: XREAD BLOCK 0 STREAMS stream $",
        "a: XREAD BLOCK 0 STREAMS stream 0", "a: XREADGROUP GROUP g c BLOCK 0 STREAMS stream >", "a: XREADGROUP GROUP g c BLOCK 0 STREAMS stream >",
        "a: BLPOP scores 0", "a: EXEC", "a: LRANGE other 0 -1", "a: MULTI", "a: BLPOP none -1", "a: BLPOP none x", "a: EXEC",
        "a: EVAL \"return redis.call('blpop','none',0)\" 0", "a: EVAL \"return redis.call('blmove','none','b','LEFT','LEFT',0)\" 0",
    ],
    "who waits is served when a transaction has ended": [
        "a! BLPOP k 0", "b: MULTI", "b: RPUSH k 1", "b: DEL k", "b: EXEC", "a?", "b: MULTI", "b: RPUSH k 1 2", "b: LPOP k", "b: EXEC", "a?", "b: LLEN k",
        "a! BLMOVE k m LEFT LEFT 0", "c! BLPOP m 0", "b: MULTI", "b: RPUSH k x", "b: RPUSH m y", "b: LLEN k", "b: EXEC", "a?", "c?", "b: LRANGE m 0 -1",
        "b: FLUSHALL", "a! BZPOPMIN z 0", "b: MULTI", "b: SET z 1", "b: DEL z", "b: ZADD z 1 m", "b: EXEC", "a?", "b: EXISTS z",
        "a! BLPOP k 0", "b: EVAL \"redis.call('rpush','k','s'); return redis.call('llen','k')\" 1 k", "a?", "b: EXISTS k",
    ],
    "a pause of writes": [
        "b: SET k 1", "b: FUNCTION LOAD REPLACE \"#!lua name=smoke\\nredis.register_function{function_name='r',callback=function(k) return redis.call('get',k[1]) end,"
        "flags={'no-writes'}} redis.register_function('w',function(k) return redis.call('set',k[1],'f') end)\"", "b: PING", "a: MULTI", "a: SET k 2", "l: MULTI", "l: PUBLISH a b",
        "m: MULTI", "m: EVAL \"return 1\" 0", "n: MULTI", "o: MULTI", "o: SET k 1", "c: CLIENT PAUSE 100000 WRITE",
        "z: GET k", "z: MULTI", "z: GET k", "z: EXEC", "z: EVAL_RO \"return redis.call('get',KEYS[1])\" 1 k", "z: FCALL_RO r 1 k", "z! FCALL r 1 k",
        "y! EVAL \"#!lua flags=no-writes\nreturn redis.call('get',KEYS[1])\" 1 k", "x: WATCH k", "x: UNWATCH", "a! EXEC", "b: GET k", "d! SET k 3", "e! PUBLISH news x",
        "f! EVAL \"return redis.call('get',KEYS[1])\" 1 none", "g! FCALL w 1 k", "h! PFCOUNT none", "i! SPUBLISH news x", "j! FLUSHALL", "l! EXEC", "m! EXEC",
        "n! SET k 1", "o: DISCARD", "c: CLIENT UNPAUSE", "a?", "d?", "e?", "f?", "g?", "h?", "i?", "j?", "l?", "m?", "n?", "n: DISCARD", "y?", "z?",
    ],
    "a pause of everything": [
        "b: SET k 1", "a: PING", "b: PING", "d: PING", "e: PING", "c: CLIENT PAUSE 1000", "a! GET k", "b! PING", "d! MULTI", "e! EVAL \"return 1\" 0", "sleep 1",
        "a?", "b?", "d?", "e?", "d: DISCARD",
        "c: CLIENT PAUSE 500 WRITE", "a! SET k 5", "b: GET k", "sleep 0.6", "a?", "b: GET k",
        "c: CLIENT PAUSE x", "c: CLIENT PAUSE -1", "c: CLIENT PAUSE 10 NOPE", "c: CLIENT PAUSE", "c: CLIENT UNPAUSE x",
        "c: CLIENT PAUSE 0 WRITE x", "c: CLIENT UNBLOCK {id:a}", "c: CLIENT UNBLOCK {id:a} NOPE", "c: CLIENT UNBLOCK {id:a} ERROR x", "c: CLIENT UNBLOCK 0",
        "a! BLPOP q 0.5", "c: CLIENT PAUSE 100000 WRITE", "sleep 0.7", "a?", "c: CLIENT UNPAUSE", "a?",
    ],
    "tracking that cannot be": [
        "b: PING", "c: PING", "a: GET k", "a: CLIENT TRACKING ON REDIRECT 1 REDIRECT 2", "a: CLIENT TRACKING ON REDIRECT {id:b} REDIRECT {id:c}",
        "a: CLIENT TRACKING ON REDIRECT", "a: CLIENT TRACKING ON REDIRECT x", "a: CLIENT TRACKING ON REDIRECT -1", "a: CLIENT TRACKING ON REDIRECT 99999999",
        "a: CLIENT TRACKING ON", "a: CLIENT TRACKING ON OPTIN OPTOUT", "a: CLIENT TRACKING ON BCAST OPTIN", "a: CLIENT TRACKING ON PREFIX k",
        "a: CLIENT TRACKING ON BCAST PREFIX k PREFIX kk", "a: CLIENT TRACKING ON BCAST PREFIX", "a: CLIENT TRACKING NOPE", "a: CLIENT TRACKING OFF NOPE",
        "a: CLIENT CACHING YES", "a: CLIENT TRACKING ON OPTIN REDIRECT {id:b}", "a: CLIENT CACHING NO", "a: CLIENT CACHING YES", "a: GETREDIR",
        "a: CLIENT TRACKING ON OPTOUT REDIRECT {id:b}", "a: CLIENT TRACKING ON BCAST REDIRECT {id:b}", "a: CLIENT TRACKING OFF", "a: CLIENT TRACKINGINFO", "a: CLIENT GETREDIR",
        "a: CLIENT TRACKING ON BCAST PREFIX k REDIRECT {id:b}", "a: CLIENT TRACKING ON BCAST PREFIX kk REDIRECT {id:b}",
    ],
    "subscribers": [
        "a: SUBSCRIBE one", "a: GET k", "b: MULTI", "b: PUBLISH one x", "b: PUBLISH two y", "b: SPUBLISH one z", "b: EXEC", "a?", "a?", "a: UNSUBSCRIBE", "a: GET k",
        "d: MULTI", "d: SUBSCRIBE three", "d: PUBLISH three self", "d: EXEC", "d?", "b: PUBSUB NUMSUB one three", "d: RESET", "b: PUBSUB CHANNELS",
        "a: PSUBSCRIBE h?llo", "b: PUBLISH hello p", "a?", "a: PING", "a: PING x", "a: QUIT",
    ],
}


class Server:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.address = (host, int(port))
        self.clients = {}

    def begin(self):
        for client in self.clients.values():
            client.close()
        self.clients = {}
        first = Client(self)
        for line in ("CLIENT UNPAUSE", "FLUSHALL", "FUNCTION FLUSH", "CONFIG RESETSTAT", "CONFIG SET notify-keyspace-events ''"):
            first.send(shlex.split(line))
            first.receive(SILENCE)
        first.close()

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = Client(self)
        return self.clients[name]

    def words(self, text):
        words = shlex.split(text)
        for name, client in self.clients.items():
            words = [word.replace("{id:%s}" % name, str(client.id)).replace("{addr:%s}" % name, client.addr) for word in words]
        return [word.replace("\\n", "\n") for word in words]

    def step(self, line):
        if line.startswith("sleep "):
            time.sleep(float(line[6:]))
            return None
        name, kind, text = line[0], line[1], line[2:].strip()
        client = self.client(name)
        if kind == "=":
            return self.fields(client, text.split())
        try:
            if kind in ":!":
                client.send(self.words(text))
            return comparable(client.receive(SILENCE if kind == ":" else AT_ONCE), {})
        except (ConnectionError, EOFError):
            return "closed"

    def say(self, line):
        """Sends a line; returns the messages to all clients until the sender's reply, or until a moment later if it has none."""
        client = self.client(line[0])
        try:
            client.send(self.words(line[2:].strip()))
        except ConnectionError:
            self.gone.add(line[0])
        return self.heard(line[0])

    def heard(self, until_by=None):
        """Returns the messages to each client since the last call."""
        heard = []
        for name in sorted(self.clients, key=lambda name: (name != until_by, name)):
            seconds = SOON if name == until_by else 0.002
            while name not in self.gone and name != "?":
                try:
                    told = self.clients[name].receive(seconds)
                except (ConnectionError, EOFError):
                    told = "closed"
                    self.gone.add(name)
                if told == "nothing":
                    break
                heard.append((name, told))
                seconds = 0.002
        names = {client.id: name for name, client in self.clients.items()}
        return sorted(((name, comparable(told, names)) for name, told in heard), key=of_whom)

    def fields(self, client, names):
        """Reads fields over a separate client, whose name no dialogue uses."""
        asker = self.client("?")
        asker.send(["CLIENT", "LIST", "ID", client.id])
        listed = str(asker.receive(SILENCE)).split()
        fields = dict(word.partition("=")[::2] for word in listed)
        return {name: fields.get(name) for name in names}


class Client:
    def __init__(self, server):
        self.socket = socket.create_connection(server.address, SILENCE)
        self.unread = b""
        self.addr = "%s:%d" % self.socket.getsockname()
        self.send(["CLIENT", "ID"])
        self.id = self.receive(SILENCE)

    def close(self):
        self.socket.close()

    def send(self, words):
        self.socket.sendall(request(words))

    def receive(self, seconds):
        """The next reply; 'nothing' if it does not come."""
        until = time.monotonic() + seconds
        while True:
            try:
                reply, rest = parse(self.unread)
            except IndexError:
                self.socket.settimeout(max(until - time.monotonic(), 0.001))
                try:
                    more = self.socket.recv(1 << 16)
                except TimeoutError:
                    return "nothing"
                if not more:
                    raise EOFError
                self.unread += more
                continue
            self.unread = rest
            return reply


def parse(data):
    """(reply, rest); IndexError if there is more to come."""
    line, found, rest = data.partition(b"\r\n")
    if not found:
        raise IndexError
    kind, text = line[:1], line[1:].decode("latin-1")
    if kind == b":":
        return int(text), rest
    if kind in b"+-,#_(":
        return kind.decode() + text, rest
    length = int(text) * (2 if kind == b"%" else 1)
    if length < 0:
        return None, rest
    if kind in b"$=":
        if len(rest) < length + 2:
            raise IndexError
        return repr(rest[:length]), rest[length + 2:]
    values = []
    for _ in range(length):
        value, rest = parse(rest)
        values.append(value)
    return values if kind == b"*" else [kind.decode()] + values, rest


def of_whom(pair):
    return pair[0]


def comparable(reply, names):
    """Removes texts that differ between servers: IDs of clients, versions."""
    if isinstance(reply, list):
        if "b'server'" in reply:
            return "hello"
        return [comparable(part, names) for part in reply]
    return "the ID of " + names[reply] if isinstance(reply, int) and reply > 9 and reply in names else reply


def compare(title, server, peer, lines):
    """Returns 1 if the replies differ every time: a busy machine changes which replies arrive at once."""
    for _ in range(ATTEMPTS):
        server.begin()
        peer.begin()
        for number, line in enumerate(lines):
            found, expected = server.step(line), peer.step(line)
            if found != expected:
                break
        else:
            return 0
    before = "\n    ".join(lines[max(0, number - 12):number])
    print("%s\n    %s\n  %s\n      found     %s\n      expected  %s" % (title, before, line, found, expected))
    return 1


# ---- dialogues at random --------------------------------------------------------------------------------------------

SCRIPTS = ("return redis.call('get',KEYS[1])", "return redis.call('incr',KEYS[1])", "redis.call('set',KEYS[1],'s') return redis.pcall('lpush',KEYS[1],1)",
           "redis.call('rpush','q','x') return redis.call('lpop','q')", "return {redis.pcall('blpop','q',0),redis.call('exists','k','q')}",
           "redis.call('publish','news','s') return 1", "redis.call('del','k','j') error('after')", "redis.call('select',1) redis.call('set','k','one') return 1")
PLAIN_LINES = (
    "SET k 1", "SET k v XX", "GET k", "GET j", "DEL k", "DEL k j q z", "INCR k", "APPEND j x", "EXPIRE k 100", "PERSIST k", "RENAME k j", "COPY j k REPLACE", "SETNX j 5",
    "RPUSH q a", "RPUSH q b c", "LPUSH q d", "LPOP q", "LLEN q", "LRANGE q 0 -1", "LMOVE q p LEFT RIGHT", "RPUSH p a", "LRANGE p 0 -1", "ZADD z 1 m", "ZADD z 2 n 3 o",
    "ZRANGE z 0 -1", "ZREM z m", "HSET h f v", "HGETALL h", "SADD s m n", "SREM s m", "XADD x 1-* f v", "XLEN x", "XTRIM x MAXLEN 1", "FLUSHDB", "FLUSHALL", "SWAPDB 0 1",
    "SELECT 0", "SELECT 1", "MOVE k 1", "EXISTS k j q z", "TYPE k", "DBSIZE", "PUBLISH news hi", "PUBLISH other hi", "SPUBLISH shard hi", "PING", "ECHO e", "OBJECT ENCODING k",
    "NOPE", "GET", "INCR q", "LPUSH k 1", "SET k v EX 0", "MGET k j q", "MSET k 1 j 2", "GETDEL k", "GETSET j 9", "SETRANGE k 2 ab", "UNLINK q", "TOUCH k j",
    "PUBSUB CHANNELS n*", "PUBSUB NUMSUB news other", "PUBSUB NUMPAT", "PUBSUB SHARDCHANNELS", "PUBSUB SHARDNUMSUB shard", "CLIENT TRACKINGINFO", "CLIENT GETREDIR",
)
STATE_LINES = ("MULTI", "MULTI", "EXEC", "EXEC", "EXEC", "DISCARD", "WATCH k", "WATCH k q j", "WATCH z", "UNWATCH", "RESET", "HELLO 3", "HELLO 2")
WAITING_LINES = ("BLPOP q 0", "BRPOP q p 0", "BLMOVE q p LEFT LEFT 0", "BLMPOP 0 2 p q LEFT COUNT 2", "BZPOPMIN z 0", "BZMPOP 0 1 z MAX", "XREAD BLOCK 0 STREAMS x $",
                 "BRPOPLPUSH q p 0", "BZPOPMAX z 0")
TOLD_LINES = ("SUBSCRIBE news", "SUBSCRIBE news other", "PSUBSCRIBE n*", "SSUBSCRIBE shard", "UNSUBSCRIBE", "UNSUBSCRIBE news", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "SUBSCRIBE __keyevent@0__:del",
              "CLIENT TRACKING ON", "CLIENT TRACKING ON BCAST", "CLIENT TRACKING ON BCAST PREFIX k", "CLIENT TRACKING ON NOLOOP", "CLIENT TRACKING ON OPTIN", "CLIENT TRACKING ON OPTOUT",
              "CLIENT CACHING YES", "CLIENT CACHING NO", "CLIENT TRACKING OFF", "CLIENT TRACKING ON REDIRECT {id:b}", "CLIENT TRACKING ON BCAST REDIRECT {id:a}")
OTHERS_LINES = ("CLIENT UNBLOCK {id:%s}", "CLIENT UNBLOCK {id:%s} ERROR", "CLIENT KILL ID {id:%s}", "CLIENT PAUSE 100000 WRITE", "CLIENT UNPAUSE", "CLIENT UNPAUSE", "CLIENT NO-EVICT ON",
                "CLIENT NO-TOUCH ON", "FUNCTION STATS", "SCRIPT EXISTS x", "CONFIG SET notify-keyspace-events KEA",
                "CONFIG SET notify-keyspace-events ''", "CONFIG SET notify-keyspace-events g$")


def random_dialogue(rng):
    lines = ["a: PING", "b: PING", "c: PING"]
    kinds = (PLAIN_LINES,) * 6 + (STATE_LINES,) * 3 + (WAITING_LINES, TOLD_LINES, OTHERS_LINES, SCRIPTS)
    for _ in range(rng.randrange(10, 40)):
        who, kind = rng.choice("aabbc"), rng.choice(kinds)
        line = rng.choice(kind)
        if kind is SCRIPTS:
            line = "EVAL \"%s\" 1 %s" % (line, rng.choice("kjq"))
        elif "%s" in line:
            line = line % rng.choice("abc")
        lines.append("%s! %s" % (who, line))
        if rng.random() < 0.2:
            lines.append("%s= flags multi watch db sub psub ssub resp" % rng.choice("abc"))
    return lines


def compare_random(server, peer, count, seed):
    """Compares each client's replies and messages after every line; a client without a prompt reply is checked again later."""
    differences = 0
    for one in range(seed, seed + count):
        lines = random_dialogue(random.Random(one))
        for attempt in range(ATTEMPTS):
            outcome = first_unlike(server, peer, lines)
            if not outcome:
                break
        else:
            number, found, expected = outcome
            print("dialogue %d\n    %s\n      found     %s\n      expected  %s" % (one, "\n    ".join(lines[:number + 1]), found, expected))
            differences += 1
    return differences


def first_unlike(server, peer, lines):
    for one in (server, peer):
        one.begin()
        one.gone = set()
    for number, line in enumerate(lines):
        if number and line[1] == "=":
            found, expected = server.step(line), peer.step(line)
            # The peer still counts watched keys where a whole database was changed, not where one key was.
            for fields in (found, expected):
                fields.update(dict.fromkeys(("multi", "watch")) if "d" in (fields["flags"] or "") else {})
        else:
            found, expected = server.say(line), peer.say(line)
        # Effects of other clients need time to arrive.
        if found != expected and isinstance(found, list):
            time.sleep(AT_ONCE)
            found, expected = (sorted(told + one.heard(), key=of_whom) for told, one in ((found, server), (expected, peer)))
        if found != expected:
            return number, found, expected
    return None


# ---- filters of CLIENT LIST and CLIENT KILL --------------------------------------------------------------------------

# Clients that differ in the fields of filters.
CAST = {
    "a": ["CLIENT SETNAME a"],
    "b": ["CLIENT SETNAME b", "SELECT 3", "CLIENT SETINFO LIB-NAME jedis"],
    "c": ["CLIENT SETNAME c", "CLIENT SETINFO LIB-NAME redis-py", "CLIENT SETINFO LIB-VER 1.0", "MULTI"],
    "d": ["CLIENT SETNAME d", "SELECT 3", "SUBSCRIBE news"],
    "e": ["CLIENT SETNAME e", "CLIENT SETINFO LIB-VER 2.0", "CLIENT CAPA redirect", "WATCH k"],
    "f": ["CLIENT SETNAME f", "CLIENT NO-EVICT on", "CLIENT NO-TOUCH on"],
}
VALUES = {
    "ID": ["{id:a}", "{id:b}", "{id:a} {id:c}", "{id:x}", "999999", "0", "x", "-1", ""],
    "TYPE": ["normal", "pubsub", "master", "replica", "slave", "PRIMARY", "nope"],
    "USER": ["default", "nobody"],
    "ADDR": ["{addr:a}", "{addr:b}", "127.0.0.1:1"],
    "LADDR": ["127.0.0.1:1"],
    "FLAGS": ["N", "P", "x", "e", "T", "eT", "d", "Nx", "?", ""],
    "NAME": ["a", "b", "nobody", ""],
    "LIB-NAME": ["jedis", "redis-py", "", "nope"],
    "LIB-VER": ["1.0", "2.0", "nope"],
    "DB": ["0", "3", "15", "16", "-1", "x"],
    "CAPA": ["r", "redirect", "x"],
    "IP": ["127.0.0.1", "10.0.0.1", "localhost"],
}
PLAIN = {"MAXAGE": ["0", "1000", "-1", "x"], "IDLE": ["0", "1000", "-1", "x"], "SKIPME": ["yes", "no", "nope"], "NOPE": ["1"]}


def random_filters(rng):
    filters = []
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        if rng.random() < 0.2:
            name = rng.choice(sorted(PLAIN))
            value = rng.choice(PLAIN[name])
        else:
            name = rng.choice(sorted(VALUES))
            value = rng.choice(VALUES[name])
            if rng.random() < 0.4:
                name = "NOT-" + name
        filters.append(name + " " + (value or "''"))
    return " ".join(filters)


def assemble(server):
    server.begin()
    # Clients of other tests may still be on their way out.
    time.sleep(0.02)
    server.client("x")
    for name, commands in CAST.items():
        for command in commands:
            server.step("%s: %s" % (name, command))


def who_is_there(server):
    alive = []
    for name in CAST:
        client = server.clients[name]
        try:
            client.send(["PING"])
            client.receive(SILENCE)
            alive.append(name)
        except (ConnectionError, EOFError):
            pass
    return alive


def listed(reply):
    """The names in a CLIENT LIST; an error as it is."""
    if not isinstance(reply, str) or not reply.startswith("b"):
        return reply
    fields = [word for word in reply.replace("\\n", " ").split() if word.startswith("name=")]
    return sorted(word[5:] or "x" for word in fields)


def knows_filters(peer):
    """Returns whether the server knows the filters: Valkey before 9 has only a few of them."""
    peer.begin()
    return not str(peer.step("x: CLIENT LIST NOT-NAME nobody")).startswith("-")


def compare_filters(server, peer, lists, kills):
    rng = random.Random(5)
    differences = 0
    assemble(server)
    assemble(peer)
    for _ in range(lists):
        line = "x: CLIENT LIST " + random_filters(rng)
        found, expected = listed(server.step(line)), listed(peer.step(line))
        if found != expected:
            print("%s\n      found     %s\n      expected  %s" % (line, found, expected))
            differences += 1
    for _ in range(kills):
        line = "x: CLIENT KILL " + random_filters(rng)
        outcome = []
        for one in (server, peer):
            assemble(one)
            outcome.append((one.step(line), who_is_there(one)))
        if outcome[0] != outcome[1]:
            print("%s\n      found     %s\n      expected  %s" % (line, *outcome))
            differences += 1
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="HOST:PORT of the server")
    parser.add_argument("--peer", required=True, help="HOST:PORT of the server that is right")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many dialogues put together by chance")
    parser.add_argument("--seed", type=int, default=1, help="of the first of these; each further one adds one")
    parser.add_argument("--only", default="", help="dialogues with this in their title")
    args = parser.parse_args()
    server, peer = Server(args.address), Server(args.peer)
    differences = sum(compare(title, server, peer, lines) for title, lines in DIALOGUES.items() if args.only in title)
    if args.only in "random":
        differences += compare_random(server, peer, args.random, args.seed)
    if args.only in "filters" and knows_filters(peer):
        differences += compare_filters(server, peer, 400, 60)
    print("sessions.py: %s" % ("no difference" if not differences else "%d differences" % differences))
    return min(differences, 1)


if __name__ == "__main__":
    sys.exit(main())
