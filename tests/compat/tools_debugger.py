"""The debugger of scripts (--ldb, --ldb-sync-mode) in both programs: sessions through a pipe and on a terminal."""
import os

# Values of every kind, functions, a loop, a stop of the script's own.
SCRIPT = """local number = 1
local list = {x=1, 2, 3}
local function double(x)
  local inner = x * 2
  return inner
end
number = double(number)
redis.call('SET', KEYS[1], number)
redis.breakpoint()
redis.debug('hello', list)
for i = 1, 2 do number = number + i end
return {KEYS[1], ARGV[1], number}
"""
SESSIONS = [
    b"s\nhelp x\nl\nw\nprint\np number\np nosuch\nb 5\nb 3 -3\nb\nc\ntrace\np\nc\ne number+1\ne KEYS\nredis get k\nc\nquit\n",
    b"s\na\nping\nrestart\nstep\nquit\n",
    b"maxlen\nmax\nmaxlen 70\nmaxlen 0\nmax\nmaxlen x\nmaxlen 5\nb 1\nb 0\nb -7\nb 700\nb x\nm\nfoo\n\n\"unbalanced\nc\nc\nget k\n",
    b"e 1\ne return 5,6\ne error(\"x\")\ne x=1\ne {a=1,b={1,2}}\nv set a 1\nv lrange none 0 -1\nr ping\nserver ping\n"
    b"p ARGV\np KEYS\np a b\nt 1\nw 3\nl 3\nl 3 1\nl 0 2\nl 100\nl x\nS\nSTEP\nn x\nc x\n",
    b"3 s\nclear\nexit\n",
    b"",
]
FAILING = {"local x = 1\nreturn redis.call('get')": [b"s\na\n"], "return 1 +": [b"s\n"], "return {err='MY error'}": [b"c\nget k\n"]}


def sessions(case, at, folder):
    """The cases, made by `case`, of the scripts in this folder for a server there."""
    path = os.path.join(folder, "debugged.lua")
    with open(path, "w", encoding="utf-8") as script:
        script.write(SCRIPT)
    for number, text in enumerate(FAILING):
        with open(os.path.join(folder, "failing-%d.lua" % number), "w", encoding="utf-8") as script:
            script.write(text)
    for mode in ("--ldb", "--ldb-sync-mode"):
        yield from of_mode(case, at + [mode, "--eval"], folder, path)
    yield case("debugger", at + ["--ldb", "ping"], view=first_line)


def of_mode(case, at, folder, path):
    """The cases of one of the modes: on a copy of the data, or under the script's locks."""
    arguments = at + [path, "k", ",", "argument"]
    for typed in SESSIONS:
        yield case("debugger", arguments, stdin=typed, environment={"TERM": "xterm"})
    for number, all_typed in enumerate(FAILING.values()):
        for typed in all_typed:
            yield case("debugger", at + [os.path.join(folder, "failing-%d.lua" % number)], stdin=typed)
    yield case("debugger", at + ["/nonexistent.lua"])
    keys = [b"s\r", b"p number\r", b"restart\r", b"n\r", b"c\r", b"c\r", b"get k\r", b"restart\r", b"quit\r"]
    yield case("debugger", arguments, keys=keys, environment={"TERM": "xterm-256color"})
    yield case("debugger", arguments, keys=[b"s\r", b"\x03"], environment={"TERM": "xterm-256color"})


def first_line(text):
    """Returns the first line: only valkey-cli adds its --help."""
    return "\n".join(line for line in text.splitlines() if "for more information" not in line)
