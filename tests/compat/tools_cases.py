"""The cases of tools.py: command lines, and their keys.

Left out, because cinnabar-cli does better there: numbers that are none (an error, not 0), the password in VALKEYCLI_AUTH,
--type, `(null)` for no arguments in help, attributes and big numbers, why --pipe ends when the server hangs up, reports as
JSON where valkey-cli has none (walks over the keyspace).
"""

import dataclasses
import os
import re
import time
from typing import Callable, Optional

import tools_debugger

EVERY_TYPE = [
    ("SET", "string", "hello world"),
    ("SET", b"binary\xff\x01\n", b'\x00\xc3\xa9\x7f"\\'),
    ("SET", "number", "42"),
    ("RPUSH", "list", *"abcdefghijkl"),
    ("RPUSH", "one", "x"),
    ("HSET", "hash", "f", "v", "g", "w x"),
    ("SADD", "set", "1", "2", "3"),
    ("ZADD", "zset", "1.5", "a", "2", "b"),
    ("XADD", "stream", "1-1", "f", "v", "g", "w"),
    ("XADD", "stream", "2-1", "f", "v"),
    ("SET", "with deadline", "v", "EX", "1000"),
]
MANY = [("SET", "many:%d" % number, "v" * (number % 50)) for number in range(300)] + EVERY_TYPE
# Keys that all programs print alike.
PRINTABLE = [command for command in EVERY_TYPE if isinstance(command[1], str)]
# Lengths by which redis-cli counts names, and one more or less.
LONG_NAMES = [("SET", "k" * length, "v") for length in (1, 31, 32, 33, 60)]
# Commands with replies of every shape.
REPLIES = [
    "get string",
    "get none",
    "get number",
    "strlen string",
    "set a b",
    "mget string none number",
    "lrange list 0 -1",
    "lrange none 0 -1",
    "lrange one 0 -1",
    "hgetall hash",
    "hgetall none",
    "smembers set",
    "smembers none",
    "zrange zset 0 -1 withscores",
    "zscore zset a",
    "zscore zset none",
    "xrange stream - +",
    "xread streams stream 0",
    "scan 0 match string",
    "incr string",
    "nosuch command",
    "get",
    "config get maxmemory*",
    "client info x",
    "xinfo stream stream full",
    "geopos none a",
    "command info get",
    "object help",
    "exists string none",
    "memory usage none",
    "client getname",
    "client no-evict on",
    "lolwut version 5 1 1 1",
    "cluster info",
    "memory doctor",
    "latency doctor",
    "command docs get",
    "hrandfield hash 0 withvalues",
    "function list",
    "acl whoami",
    "time x",
    "quit",
]
SHAPES = ["string", "integer", "double", "null", "array", "set", "map", "verbatim", "true", "false"]


# HELLO contains the connection's number.
IDENTITY = (r'\bid"?( => \(integer\) |[:,=]| )\d+',)


@dataclasses.dataclass
class Case:
    name: str
    arguments: list
    tool: str = "cli"
    setup: list = dataclasses.field(default_factory=list)
    teardown: list = dataclasses.field(default_factory=list)
    stdin: bytes = b""
    environment: dict = dataclasses.field(default_factory=dict)
    # Typed on a terminal, one after the other.
    keys: Optional[list] = None
    # Called while the program runs; it is ended so many seconds after that.
    meanwhile: Optional[Callable] = None
    seconds: float = 0
    # Figures in what these find differ from run to run.
    figures: tuple = ()
    view: Callable = str

    def waits(self):
        """Returns about how many seconds the case waits without computing."""
        return len(self.keys or []) + 2 * self.seconds + (1 if self.keys is not None else 0)


def cases(port, folder):
    """All of them, for a server on this port with its Unix socket in this folder."""
    at = ["-p", str(port)]
    for group in (
        replies,
        connections,
        inputs,
        repetitions,
        errors,
        walks,
        times,
        scripts,
        debugger,
        pipes,
        feeds,
        lines,
        prompts,
        messages,
        terminals,
        benchmarks,
    ):
        yield from group(at, folder)


def replies(at, _):
    for command in REPLIES:
        for how in (
            [],
            ["--no-raw"],
            ["--csv"],
            ["--json"],
            ["--quoted-json"],
            ["-3", "--no-raw"],
            ["-3", "--csv"],
            ["-3"],
            ["-2", "--json"],
            ["-d", ";", "-D", "|"],
            ["-e"],
        ):
            yield Case("replies", at + how + command.split(), setup=EVERY_TYPE)
    for shape in SHAPES:
        for how in ([], ["--no-raw"], ["--csv"], ["--json"], ["--quoted-json"]):
            for protocol in ("-2", "-3"):
                yield Case("shapes", at + [protocol] + how + ["debug", "protocol", shape])
    for how in ([], ["--no-raw"], ["--csv"], ["--json"], ["--quoted-json"]):
        for arguments in (
            ["get", b"binary\xff\x01\n"],
            ["scan", "0", "count", "1000"],
            ["eval", "return {1,{2,{3,{4,{}}},{}},{'a',{'b'}},false,{err='ERR x'},{ok='fine'}}", "0"],
            ["-3", "eval", "server.setresp(3) return {map={a={1,2},b={map={c={set={x=true}}}}}}", "0"],
            ["-3", "eval", "server.setresp(3) return {{map={a={double=1.5}}},{map={}},{set={}}}", "0"],
        ):
            yield Case("nested", at + how + arguments, setup=EVERY_TYPE)


def connections(at, folder):
    unix = os.path.join(folder, "socket")
    for arguments in (
        ["-s", unix, "ping"],
        ["-h", "127.0.0.1", *at, "ping"],
        ["-u", "redis://127.0.0.1:%s/3" % at[1], "client", "info"],
        ["-u", "valkey://default:secret@127.0.0.1:%s" % at[1], "ping"],
        ["-u", "http://x", "ping"],
        ["-u", "redis://127.0.0.1:%s" % at[1], "ping"],
        ["-h", "localhost", "-4", *at, "ping"],
        [*at, "-n", "5", "set", "a", "b"],
        [*at, "-n", "99999", "ping"],
        [*at, "-n", "-1", "ping"],
        [*at, "-3", "hello"],
        [*at, "-t", "1.5", "ping"],
        ["-p", "1", "ping"],
        ["-s", "/nonexistent", "ping"],
        ["-h", "127.0.0.1", "-p", "1", "--scan"],
        ["-p", "1", "--bigkeys"],
        ["-p", "1", "--stat"],
        ["-p", "1", "--latency"],
        ["-p", "1", "--pipe"],
        ["-p", "1", "--hotkeys"],
        ["-p", "1", "--latency-dist"],
        ["-h", "nowhere.invalid", "ping"],
        ["-h", "127.0.0.1:7000", "ping"],
        [*at, "--mptcp", "ping"],
    ):
        yield Case("connections", arguments, figures=IDENTITY + (r"\b(addr|fd|age|idle|tot-\S*|cmd|lib-ver)=\S+",))
    password = [("CONFIG", "SET", "requirepass", "secret")]
    undo = [("CONFIG", "SET", "requirepass", "")]
    for arguments in (
        ["ping"],
        ["-a", "secret", "ping"],
        ["--pass", "secret", "--no-auth-warning", "ping"],
        ["-a", "wrong", "ping"],
        ["--user", "default", "-a", "secret", "ping"],
        ["--user", "nobody", "--no-auth-warning", "-a", "x", "ping"],
        ["--askpass", "ping"],
        ["--user", "default", "ping"],
        ["-a", "wrong", "--scan"],
        ["--bigkeys"],
        ["--memkeys"],
        ["--hotkeys"],
        ["-a", "wrong", "-n", "2", "ping"],
        ["-a", "wrong", "-3", "ping"],
        ["-u", "redis://secret@127.0.0.1:%s" % at[1], "ping"],
        ["--no-auth-warning", "-a", "wrong", "--bigkeys"],
        ["-a", "wrong", "-e", "ping"],
    ):
        yield Case("passwords", at + arguments, setup=password, teardown=undo, stdin=b"secret\n")
    for value in ("secret", "wrong"):
        yield Case("passwords", at + ["ping"], setup=password, teardown=undo, environment={"REDISCLI_AUTH": value})
    yield Case(
        "passwords",
        at,
        setup=password,
        teardown=undo,
        stdin=b"ping\nauth secret\nping\nselect 4\nauth wrong\nping\n",
    )


def inputs(at, _):
    yield Case("inputs", at + ["-x", "set", "a"], stdin=b"value\n\x00\xff", teardown=[("DEL", "a")])
    yield Case("inputs", at + ["-x", "echo"], stdin=b"value\n\x00\xff")
    yield Case("inputs", at + ["-x", "echo"], stdin=b"")
    yield Case("inputs", at + ["-x"], stdin=b"ping")
    yield Case("inputs", at + ["-X", "tag", "mset", "a", "tag", "b", "tag"], stdin=b"value")
    yield Case("inputs", at + ["-X", "tag", "echo", "x"], stdin=b"value")
    yield Case("inputs", at + ["-X", "tag", "echo", "tag"], stdin=b"v\x00w\n")
    yield Case("inputs", at + ["-x", "-X", "tag", "echo", "tag"], stdin=b"value")
    yield Case("inputs", at + ["-x", "-r", "3", "rpush", "l"], stdin=b"value")
    for word in ('"a\\x00b"', "'a b'", "plain", '"open', '"a"b', '"\\xff\\n"', "''", '"é"'):
        yield Case("inputs", at + ["--quoted-input", "--no-raw", "echo", word])
    yield Case("inputs", at + ["--quoted-input", "-x", "echo"], stdin=b'"a"')


def repetitions(at, _):
    yield Case("repetitions", at + ["-r", "3", "incr", "n"])
    yield Case("repetitions", at + ["-r", "3", "-i", "0.01", "--csv", "incr", "n"])
    yield Case("repetitions", at + ["-r", "3", "-D", ";", "incr", "n"])
    yield Case("repetitions", at + ["-r", "0", "incr", "n"])
    yield Case("repetitions", at + ["-r", "2", "lrange", "list", "0", "1"], setup=EVERY_TYPE)
    yield Case("repetitions", at + ["-r", "2", "-e", "nosuch"])
    yield Case("repetitions", at + ["-r", "2"], stdin=b"incr n\nincr n\n")
    yield Case("repetitions", at + ["-r", "-1", "-i", "0.3", "incr", "n"], meanwhile=nothing, seconds=0.8)


def errors(at, _):
    for arguments in (
        ["--nosuch"],
        ["-p"],
        ["-p", "99999", "ping"],
        ["-2", "-3", "ping"],
        ["-r"],
        ["-z", "ping"],
        ["--quoted-pattern", '"a', "--scan"],
        ["--pipe-timeout"],
        ["--eval"],
        ["--count"],
        ["--memkeys-samples"],
        ["--intrinsic-latency"],
        ["-u"],
        ["-s"],
        ["-n"],
        ["--user"],
        ["-d"],
        ["-X"],
    ):
        yield Case("errors", at + arguments)
    for arguments in (
        ["-e", "nosuch"],
        ["-e", "--no-raw", "incr", "string"],
        ["-e", "--json", "incr", "string"],
        ["-e", "get", "none"],
        ["-e", "eval", "return {1,{err='ERR in'}}", "0"],
    ):
        yield Case("errors", at + arguments, setup=EVERY_TYPE)
    yield Case("errors", at + ["-e"], stdin=b"nosuch\nping\n")


def walks(at, _):
    for arguments in (
        [],
        ["--pattern", "many:1*"],
        ["--count", "7"],
        ["--no-raw"],
        ["--csv"],
        ["--quoted-pattern", '"bin\\x61ry*"'],
        ["--pattern", "nothing"],
        ["-n", "1"],
        ["-i", "0.001"],
        ["-3", "--no-raw"],
        ["--count", "0"],
        ["-d", ";"],
        ["-D", ";"],
    ):
        yield Case("scan", at + ["--scan", *arguments], setup=MANY)
        yield Case("bigkeys", at + ["--bigkeys", *arguments], setup=MANY, view=summary_sorted)
        yield Case("memkeys", at + ["--memkeys", *arguments], setup=MANY, view=summary_sorted)
    yield Case("bigkeys", at + ["--bigkeys"], view=summary_sorted)
    yield Case("memkeys", at + ["--memkeys"], view=summary_sorted)
    yield Case("memkeys", at + ["--memkeys-samples", "0"], setup=MANY, view=summary_sorted)
    yield Case("memkeys", at + ["--memkeys-samples", "3", "--pattern", "l*"], setup=MANY, view=summary_sorted)
    yield Case("scan", at + ["--scan"])
    # Only redis-cli has this mode. Its output for an empty keyspace is left out: the average of no numbers.
    for arguments in ([], ["--top", "3"], ["--top", "0"], ["--cursor", "0"], ["--count", "7"], ["-3"],
                      ["--pattern", "many:1*"]):
        yield Case("keystats", at + ["--keystats", *arguments], tool="redis-cli", setup=MANY[:300], view=lines_sorted)
    yield Case("keystats", at + ["--keystats-samples", "0"], tool="redis-cli", setup=PRINTABLE, view=lines_sorted)
    yield Case("keystats", at + ["--keystats"], tool="redis-cli", setup=LONG_NAMES, view=lines_sorted)
    # Counters grow by chance: so many uses that the order does not depend on it.
    uses = [
        ("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"),
        *MANY,
        *[("GET", "many:7")] * 10000,
        *[("GET", "string")] * 500,
    ]
    undo = [("CONFIG", "SET", "maxmemory-policy", "noeviction")]
    yield Case("hotkeys", at + ["--hotkeys"], setup=MANY)
    yield Case("hotkeys", at + ["--hotkeys"])
    for arguments in ([], ["--pattern", "many:7"], ["-i", "0.01"]):
        yield Case(
            "hotkeys", at + ["--hotkeys", *arguments], setup=uses, teardown=undo, figures=(r"counter:? \d+",)
        )


def times(at, _):
    sample = (r"(?m)^(?:\^C)?[\d.]+[ ,][\d.]+[ ,][\d.]+[ ,][\d.]+\r?$", r"-- [\d.]+ seconds", r'\{"min.*\}')
    for how in (["--raw"], ["--csv"], ["--json"]):
        yield Case("latency", at + ["--latency", "-i", "0.2", *how], figures=sample)
        # A sample more or less in that time, so which kinds of lines there are is compared.
        yield Case(
            "latency-history",
            at + ["--latency-history", "-i", "0.1", *how],
            keys=[b"\x03"],
            figures=sample,
            view=kinds_of_lines,
        )
    yield Case(
        "latency",
        at + ["--latency", "--no-raw", "-i", "0.2"],
        meanwhile=nothing,
        seconds=0.6,
        figures=(r"min: [^)]*\)",),
        view=kinds_of_lines,
    )
    yield Case(
        "latency-history",
        at + ["--latency-history", "--no-raw", "-i", "0.2"],
        meanwhile=nothing,
        seconds=0.6,
        figures=(r"min: [^)]*\)", r"-- [\d.]+ seconds"),
        view=kinds_of_lines,
    )
    yield Case(
        "latency-dist",
        at + ["--latency-dist", "-i", "0.2"],
        meanwhile=nothing,
        seconds=0.7,
        figures=(r"48;5;\d+m.",),
        view=kinds_of_lines,
    )
    yield Case(
        "intrinsic-latency",
        ["--intrinsic-latency", "1"],
        figures=(r"(?m)^(Max|\d+ total|Worst).*$",),
        view=kinds_of_lines,
    )
    moment = (r"(?m)^(?:\^C)?\d.*$",)
    for arguments in ([], ["-n", "3"], ["--csv"]):
        yield Case(
            "stat",
            at + ["--stat", "-i", "0.1", *arguments],
            setup=MANY,
            keys=[b"\x03"],
            figures=moment,
            view=kinds_of_lines,
        )


def scripts(at, folder):
    path = os.path.join(folder, "script.lua")
    with open(path, "w", encoding="utf-8") as script:
        script.write("return {KEYS, ARGV, redis.call('get', 'string')}")
    for arguments in (["a", "b", ",", "c", "d"], ["a", "b"], [",", "c"], [], ["a,", "b"], [","]):
        for how in ([], ["--no-raw"], ["--json"]):
            yield Case("eval", at + how + ["--eval", path, *arguments], setup=EVERY_TYPE)
    yield Case("eval", at + ["--eval", "/nonexistent.lua"])
    broken = os.path.join(folder, "broken.lua")
    with open(broken, "w", encoding="utf-8") as script:
        script.write("return redis.call('incr', 'string')")
    yield Case("eval", at + ["--eval", broken], setup=EVERY_TYPE)
    yield Case("eval", at + ["-e", "--eval", broken], setup=EVERY_TYPE)
    yield Case("eval", at + ["-r", "2", "--eval", path, "a"], setup=EVERY_TYPE)


def debugger(at, folder):
    return tools_debugger.sessions(Case, at, folder)


def pipes(at, _):
    def request(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    mass = b"".join(request(b"SET", b"k%d" % number, b"v" * 100) for number in range(5000))
    for stdin in (
        mass,
        b"",
        b"set a b\r\nget a\r\n",
        b"set a b\nnosuch\nget a",
        mass + b"nosuch\r\nincr k1\r\n",
        request(b"ECHO", b"x" * 300000),
        request(b"HELLO", b"3") + request(b"HGETALL", b"hash"),
        b"\r\n\r\n",
        request(b"LRANGE", b"list", b"0", b"-1") * 1000,
        b"multi\r\nincr x\r\nexec\r\n",
    ):
        yield Case("pipe", at + ["--pipe"], setup=EVERY_TYPE, stdin=stdin)
    yield Case("pipe", at + ["--pipe", "--pipe-timeout", "1"], stdin=b"blpop none 0\r\n")


def feeds(at, folder):
    """Cases of a primary's stream: its data set, and then its commands."""
    quick = [("CONFIG", "SET", "repl-diskless-sync-delay", "0"), *EVERY_TYPE]
    by_file = [*quick, ("CONFIG", "SET", "repl-diskless-sync", "no")]
    back = [("CONFIG", "SET", "repl-diskless-sync", "yes")]
    sizes = (r"\d+ bytes",)
    file = os.path.join(folder, "fetched.rdb")
    for option in "--rdb", "--functions-rdb":
        yield Case("snapshot", at + [option, file], setup=quick, figures=sizes)
        yield Case("snapshot by a file", at + [option, file], setup=by_file, teardown=back, figures=sizes)
        yield Case("snapshot", at + [option, "-"], setup=quick, figures=sizes, view=without_snapshot)
        yield Case("snapshot", at + [option, os.path.join(folder, "none", "file")], setup=quick, figures=sizes)
        yield Case("snapshot", at + [option])
    yield Case("snapshot", at + ["--rdb", file, "--functions-rdb", file])
    for name in "--replica", "--slave":
        yield Case("commands of a primary", at + [name], setup=quick, meanwhile=changes, seconds=0.5, figures=sizes, view=without_select)
    yield Case("commands of a primary by a file", at + ["--replica"], setup=by_file, teardown=back, meanwhile=changes, seconds=0.5, figures=sizes)


def without_snapshot(text):
    """Removes a snapshot except for its format's name."""
    return text[:5] + text[text.rindex("\n-- standard error"):]


def without_select(text):
    """Removes the first command, which valkey-cli takes for an answer to its own."""
    return text.replace('"SELECT","0"\n', "")


def changes(server):
    """Runs these commands once there is a replica, and ends its connection."""
    until = time.monotonic() + 20
    while b"state=online" not in server.call("INFO", "replication") and time.monotonic() < until:
        time.sleep(0.05)
    for words in ("SET", "k", "v w"), ("RPUSH", "list", "a", b"\xff\n"), ("DEL", "number"):
        server.call(*words)
    time.sleep(0.3)
    server.call("CLIENT", "KILL", "TYPE", "replica")


def lines(at, _):
    for stdin in (
        b"set a 1\nincr a\nget a\n",
        b"\n\n  \nping\n",
        b"ping",
        b"echo 'a b' \n echo \"a\\x00\\n\"\n",
        b'echo "open\nping\n',
        b"echo 'a'b\nping\n",
        b"3 incr a\n0 incr a\n-1 incr a\n2x incr a\n2\n",
        b"quit\nping\n",
        b"restart\nrestart now\nping\n",
        b"exit\nping\n",
        b"QUIT\nping\n",
        b"select 3\nset a b\nselect 99999\nget a\n",
        b"multi\nincr a\nincr a\nexec\n",
        b"multi\nincr a\ndiscard\nget a\n",
        b"multi\nnosuch\nexec\n",
        b"exec\n",
        b"connect 127.0.0.1 1\nping\n",
        b"connect 127.0.0.1 %s\nping\n" % at[1].encode(),
        b"connect\nping\n",
        b"clear\nping\n",
        b"hello 3\nhgetall hash\nreset\nhgetall hash\n",
        b"client kill type normal skipme no\nping\nping\n",
        b"client kill type normal skipme no\nselect 1\nping\nping\n",
        b":set hints\n:set nosuch\n:nosuch\n:get pubsub\n",
        b"subscribe ch\n",
        b"subscribe ch\nping\n",
        b"auth x\n",
        b"info nosuch\nping\n",
        b"lolwut version 5 1 1 1\n",
        b'mget a "" b\n',
        b"ping\r\nping\r\n",
        b"debug sleep 0.6\nping\n",
    ):
        for how in ([], ["--no-raw"], ["--csv"], ["-3", "--json"]):
            yield Case("lines", at + how, setup=EVERY_TYPE, stdin=stdin, figures=IDENTITY + (r"\(0\.6\ds\)",))
    for topic in (
        ["get"],
        ["@string"],
        ["@nosuch"],
        ["nosuch"],
        ["config", "set"],
        ["@list"],
        ["xadd"],
        ["zadd"],
        ["set"],
    ):
        yield Case("help", at + ["help", *topic])
    yield Case("help", at, stdin=b"help get\n? lpush\nhelp @hash\n")


def prompts(at, _):
    """A terminal that can only show lines: every byte is compared."""
    for keys in (
        ["ping", "get string", "lrange list 0 -1"],
        ["select 3", "get a", "select 0"],
        ["multi", "incr x", "select 2", "exec", "ping"],
        ["multi", "select 2", "discard"],
        ["multi", "nosuch", "exec"],
        ["quit"],
        ["exit"],
        ["connect 127.0.0.1 1", "ping", "connect 127.0.0.1 %s" % at[1], "ping"],
        ["hello 3", "hgetall hash", "reset"],
        ["select 2", "multi", "client kill type normal skipme no", "ping", "ping"],
        ["2 incr number"],
        ["debug sleep 0.6"],
        ["client kill type normal skipme no", "get string"],
        ["nosuch", "incr string", 'echo "a\\x00"', "echo 'open"],
        ["select 7", "reset", "ping"],
        ["select 7", "hello 3", "multi", "reset"],
        ["multi", "multi", "exec"],
        [("CLIENT", "KILL", "TYPE", "normal"), "select 1", "get a"],
        ["select 1", ("CLIENT", "KILL", "TYPE", "normal"), "get a"],
    ):
        typed = [key if isinstance(key, tuple) else key.encode() + b"\r" for key in keys]
        for how in ([], ["--raw"], ["--csv"], ["-n", "4"]):
            yield Case("prompts", at + how, setup=EVERY_TYPE, keys=typed, figures=IDENTITY + (r"\(0\.6\ds\)",))


def messages(at, _):
    def typed(*keys):
        return [key if isinstance(key, tuple) else key.encode() + b"\r" for key in keys]

    publish = ("PUBLISH", "ch", "hi")
    for how in ([], ["-3"], ["--csv"], ["--json"]):
        yield Case(
            "messages", at + how + ["subscribe", "ch", "other"], keys=[publish, ("PUBLISH", "other", "x"), b"\x03"]
        )
        yield Case("messages", at + how + ["psubscribe", "c*"], keys=[publish, b"\x03"])
        yield Case("messages", at + how + ["ssubscribe", "ch"], keys=[("SPUBLISH", "ch", "hi"), b"\x03"])
        yield Case(
            "messages",
            at + how + ["monitor"],
            keys=[("SET", "a", "b\n"), b"\x03"],
            figures=(r"\d+\.\d+ \[0 \S+\]",),
        )
        yield Case("messages", at + how, keys=typed("subscribe ch") + [publish, b"\x03"])
        yield Case(
            "messages",
            at + how,
            keys=typed("subscribe ch ch2") + [publish, b"x"] + typed("", "unsubscribe ch ch2", "ping"),
        )
        yield Case("messages", at + how, keys=typed("psubscribe c*", "ping", "punsubscribe c*", "get a"))
        yield Case("messages", at + how, keys=typed("subscribe ch", "get a", "unsubscribe", "get a"))
        yield Case(
            "messages",
            at + how,
            keys=typed("monitor") + [("SET", "a", "b"), b"\x03"],
            figures=(r"\d+\.\d+ \[0 \S+\]",),
        )
        yield Case("messages", at + how, keys=typed("blpop none 0") + [b"\x03"])
        yield Case(
            "messages",
            at + how + ["subscribe", "ch"],
            meanwhile=lambda server: (pause(), server.call(*publish)),
            seconds=0.3,
        )
        yield Case(
            "messages",
            at + how + ["monitor"],
            meanwhile=lambda server: (pause(), server.call("SET", "a", "b")),
            seconds=0.3,
            figures=(r"\d+\.\d+ \[0 \S+\]",),
        )
    tracking = (
        typed("client tracking on", "get string")
        + [("SET", "string", "x")]
        + typed("ping", "get number")
        + [("FLUSHALL",)]
        + typed("ping")
    )
    for how in ([], ["--show-pushes", "no"], ["--show-pushes", "yes"], ["--csv"], ["--json"], ["--raw"]):
        yield Case("pushes", at + ["-3", *how], setup=EVERY_TYPE, keys=tracking)
        yield Case(
            "pushes",
            at + ["-3", *how],
            setup=EVERY_TYPE,
            stdin=b"client tracking on\nget string\nset string x\nping\n",
        )


def terminals(at, folder):
    """A terminal with line editing: the screens after each key are compared."""
    able = {"TERM": "xterm-256color"}
    for keys in (
        [b"get", b" ", b"string", b"\r"],
        [b"SET ", b"k ", b"v ", b"EX ", b"10 ", b"\r"],
        [b"lra", b"\t", b" x", b"\x7f\x7f", b"\x03"],
        [b"config ", b"set ", b"maxmemory ", b"\x15", b"ping\r"],
        [b"pi", b"\t", b"\t", b"\r"],
        [b"help ge", b"\t", b"\t", b"\r"],
        [b"help @bit", b"\t", b"\r"],
        [b"echo a\r", b"echo b\r", b"\x1b[A", b"\x1b[A", b"\x1b[B", b"\r"],
        [b":set nohints\r", b"get "],
        [b"nosuch "],
        [b"echo ab", b"\x1b[D", b"x", b"\x01", b"2 ", b"\x05", b"y", b"\r"],
        [b"zadd k ", b"nx ", b"1 "],
        [b"\x04"],
        [b"get ", b"\x03"],
        [b"echo abc", b"\x17", b"x", b"\x0b", b"\r"],
        [b"multi\r", b"get "],
        [b"echo a\recho b\r", b"ping\r"],
        [b"clear\r"],
        [b"ping", b"\x0c"],
        [b"e", b"cho 'a b'", b"\r"],
        [b"set ", b'"a b" '],
    ):
        yield Case("terminals", at, setup=EVERY_TYPE, keys=keys, environment=able)
    for arguments in (
        ["lrange", "list", "0", "-1"],
        ["get", "none"],
        ["hgetall", "hash"],
        ["-3", "hgetall", "hash"],
        ["info", "nosuch"],
        ["--scan"],
        ["--raw", "get", "string"],
        ["--csv", "mget", "a", "string"],
        ["nosuch"],
    ):
        yield Case("terminals", at + arguments, setup=EVERY_TYPE, keys=[])
    yield Case("terminals", at + ["--bigkeys"], setup=EVERY_TYPE, keys=[], view=summary_sorted)
    yield Case("terminals", at + ["--memkeys"], setup=EVERY_TYPE, keys=[], view=summary_sorted)
    yield Case("terminals", at + ["--askpass", "ping"], keys=[b"se", b"\x7f", b"cret\r"], environment=able)
    yield Case(
        "terminals",
        at + ["--latency", "-i", "0.2"],
        keys=[b"\x03"],
        figures=(r"min: [^)]*\)",),
        view=kinds_of_lines,
    )
    yield Case("terminals", at, keys=[b"subscribe ch\r", ("PUBLISH", "ch", "hi"), b"x", b"\x03"], environment=able)


def benchmarks(at, folder):
    unix = os.path.join(folder, "socket")
    brief = ["-n", "1000", "-c", "5"]
    figures = (
        r"(?m)[\d.]+ requests per second, p50=[\d.]+",
        r'(?m)","[\d.",]+"$',
        r"completed in [\d.]+",
        r"summary: [\d.]+",
        r"(?m)^[\d.]+% <= [\d.]+ .*$",
        r"(?m)^ +[\d.]+( +[\d.]+){5} *$",
        r"rps=\S+ \(overall: \S+\) avg_msec=\S+ \(overall: \S+\)",
        r"[\d.]+ seconds",
    )
    tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,lrange_300,lrange_500,lrange_600,mset,xadd,function_load,fcall"
    for arguments in (
        ["-q"],
        ["--csv"],
        [],
        ["--csv", "-t", tests],
        ["--csv", "-t", "ping_inline"],
        ["--csv", "-t", "ping_mbulk,LRANGE"],
        ["-q", "-t", "SET,get"],
        ["-t", "set", "-d", "100", "-P", "10"],
        ["-t", "set", "-k", "0"],
        ["-t", "get", "--threads", "2"],
        ["-q", "-t", "zadd", "-r", "100"],
        ["--csv", "incr", "x"],
        ["set", "a:__rand_int__", "b"],
        ["-q", "-r", "10", "set", "a:__rand_int__", "b"],
        ["-t", "get", "--precision", "3"],
        ["-q", "-t", "get", "-3"],
        ["-q", "-t", "get", "--dbnum", "3"],
        ["-q", "-t", "get", "--seed", "5", "-r", "10"],
        ["-q", "-t", "nosuch"],
        ["-q", "nosuch"],
        ["-q", "-t", "get", "--enable-tracking", "-3"],
        ["-q", "-t", "get", "-s", unix],
        ["-q", "-t", "get", "-a", "wrong"],
        ["-q", "-t", "get", "-u", "redis://127.0.0.1:%s/2" % at[1]],
        ["-q", "-t", "function_load", "--num-functions", "3"],
        ["-q", "-t", "fcall", "--num-keys-in-fcall", "3"],
        ["--csv", "-t", "get", "-q"],
        ["-q", "--", "ping"],
        ["-q", "eval", "return 1", "0"],
        ["-q", "-n", "10", "-c", "50", "-t", "set"],
    ):
        yield Case("benchmarks", at + brief + arguments, tool="benchmark", figures=figures, view=benchmark_lines)
    yield Case(
        "benchmarks",
        at + brief + ["-q", "-x", "set", "a"],
        tool="benchmark",
        stdin=b"value",
        figures=figures,
        view=benchmark_lines,
    )
    yield Case("benchmarks", ["-p", "1", "-q", "-t", "get"], tool="benchmark")
    yield Case("benchmarks", ["-s", "/nonexistent", "-q", "-t", "get"], tool="benchmark")


# ---- observations ----------------------------------------------------------------------------------------------------


def nothing(_):
    pass


def pause():
    """Waits until the program has subscribed."""
    time.sleep(0.5)


def summary_sorted(text):
    """Sorts the summary: valkey-cli lists types in the order of a hash table."""
    head, mark, summary = text.partition("-------- Summary")
    return head + mark + "\n".join(sorted(summary.splitlines()))


def lines_sorted(text):
    """Sorts lines, because types have a hash table's order; removes listed keys, because of keys of one size a random one is listed."""
    return "\n".join(sorted(line for line in text.splitlines() if not re.match(r" *\d+ +\S+B .*\"", line)))


def kinds_of_lines(text):
    """Returns each different line once. The terminal's echo of the key that ends the program may be anywhere."""
    lines = text.replace("\r", "\n").replace("\x1b[0G\x1b[2K", "\n").splitlines()
    return "\n".join(dict.fromkeys(line.removeprefix("^C") for line in lines if line != "^C"))


def benchmark_lines(text):
    """Removes the lines of progress, which are overwritten, and keeps one line for each kind of percentile."""
    last = [" ".join(line.rpartition("\r")[2].split()) for line in text.split("\n")]
    return "\n".join(dict.fromkeys(line for line in last if line))
