#!/usr/bin/env python3
"""lifecycle - how the server starts, ends and tells of itself, as valkey-server does.

    lifecycle.py --server target/release/cinnabar-server --peer .../valkey-server [--only WORD]

Each case is a folder, a server started there and something done to it: SHUTDOWN in all its ways and signals, with saving
that works and that fails; supervisors, the background, the process's title, its OOM score and open files; the formats of
the log, the system's log, and the report of a crash. Its words, its end and the files it leaves must be equal to the
peer's; names, versions, process ids and moments apart. Standard library only; needs root for the system's log.
"""
import argparse
import concurrent.futures
import difflib
import itertools
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from wire import TextClient, free_port

AT_ONCE = 8
PATIENCE = 15
# Output that is cut off after a time depends on the load of the machine; a port may be taken meanwhile.
ATTEMPTS = 3
# Seconds in which a server that refuses to end is watched.
REFUSED = 0.7
# Lines of the log about the end of a server.
ENDING = re.compile(r"Received SIG|You insist|User requested|Saving the final|DB saved on disk|Error trying to save|bye bye|"
                    r"errors trying|Removing the|aborted|Errors trying|can't exit|Exiting anyway")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    args = parser.parse_args()
    chosen = [case for case in cases() if args.only in case[0]]
    with tempfile.TemporaryDirectory() as root, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:

        def told(at, program):
            name, what, *rest = chosen[at]
            folder = tempfile.mkdtemp(dir=root)
            with Process(os.path.abspath((args.server, args.peer)[program]), folder) as process:
                try:
                    what(process, *rest)
                except (OSError, EOFError, AssertionError, subprocess.TimeoutExpired) as error:
                    process.say("it went wrong: %r" % error)
                return process.neutral()

        def compared(at):
            for _ in range(ATTEMPTS):
                peer, ours = told(at, 1), told(at, 0)
                if peer == ours:
                    return []
            return list(difflib.unified_diff(peer.split("\n"), ours.split("\n"), "peer", "server", lineterm=""))

        found = list(pool.map(compared, range(len(chosen))))
    for case, lines in zip(chosen, found):
        if lines:
            print("==== %s\n%s" % (case[0], "\n".join(lines)))
    wrong = sum(map(bool, found))
    print("lifecycle: %d cases, %d differ" % (len(chosen), wrong))
    return 1 if wrong or not chosen else 0


class Process:
    """A server in a folder of its own, with the records about it."""

    def __init__(self, program, folder):
        self.program, self.folder, self.said, self.process = program, folder, [], None
        self.pids = set()
        self.port = str(free_port())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self, *options, before=(), environment=None, prepare=None):
        """Runs the program with these options; its output goes into the file `out`."""
        data = os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        command = [*before, self.program, "--port", self.port, "--dir", data, *options]
        with open(os.path.join(self.folder, "out"), "ab") as out:
            self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env={"PATH": os.environ["PATH"], "TZ": "UTC", **(environment or {})},
                                            preexec_fn=prepare)
        self.pids.add(self.process.pid)

    def serve(self, *options, **how):
        """Starts it and answers a connection to it."""
        self.start(*options, **how)
        return self.connect()

    def connect(self):
        until = time.monotonic() + PATIENCE
        while True:
            try:
                client = TextClient(int(self.port))
                # Until it has read its files.
                while client("TYPE", "x").startswith("-LOADING"):
                    time.sleep(0.01)
                return client
            except OSError:
                if time.monotonic() > until or self.process.poll() not in (None, 0):
                    raise
                time.sleep(0.01)

    def say(self, text):
        self.said.append(str(text))

    def ask(self, client, *words):
        """Records the answer to a command, or that there is none."""
        try:
            self.say("%s: %s" % (" ".join(words), client(*words)))
        except (OSError, EOFError):
            self.say("%s: the connection ends" % " ".join(words))

    def end(self, patience=PATIENCE):
        try:
            self.say("status %s" % self.process.wait(patience))
        except subprocess.TimeoutExpired:
            self.say("it goes on")

    def log(self, name="out"):
        with open(os.path.join(self.folder, name), encoding="utf-8", errors="backslashreplace") as out:
            return out.read()

    def lines(self, pattern, name="out"):
        """Records the lines of the log that are about this."""
        found = [line for line in self.log(name).split("\n") if re.search(pattern, line)]
        # Valkey says some things more than once.
        first = {}
        for line in found:
            first.setdefault(re.sub(r"^.*? [*#] |^.*\(\d+\) ", "", line), line)
        self.said += first.values()

    def until(self, pattern, times):
        """Waits until the log has so many lines about this."""
        until = time.monotonic() + PATIENCE
        while len(re.findall(pattern, self.log())) < times and self.process.poll() is None:
            assert time.monotonic() < until, "no %s" % pattern
            time.sleep(0.01)

    def wait_for(self, text, name="out"):
        until = time.monotonic() + PATIENCE
        while text not in self.log(name):
            assert time.monotonic() < until and self.process.poll() is None, "no %r in the log" % text
            time.sleep(0.01)

    def files(self):
        found = []
        for folder, _, names in os.walk(os.path.join(self.folder, "data")):
            found += [os.path.relpath(os.path.join(folder, name), self.folder) for name in names]
        self.say("files: %s" % sorted(found))

    def neutral(self):
        text = "\n".join(self.said).replace(self.program, "PROGRAM").replace(self.folder, "FOLDER").replace(self.port, "PORT")
        for pid in self.pids:
            text = re.sub(r"\b%d\b" % pid, "PID", text)
        for ours, theirs in (("cinnabar", "valkey"), ("Cinnabar", "Valkey"), ("CINNABAR", "VALKEY")):
            text = text.replace(ours, theirs)
        text = re.sub(r"(?m)^\w+:([MCSX]) \d+ \w+ \d{4} [\d:.]+", r"PID:\1 TIME", text)
        # Valkey writes this line from within the signal handler.
        text = re.sub(r"(?m)^\w+:signal-handler \(\d+\)", "PID:M TIME #", text)
        # The client of the request differs.
        text = re.sub(r"(?m)^(.*User requested shutdown\.\.\.).*", r"\1", text)
        return re.sub(r"\b([Vv]alkey |[Vv]ersion[ =])\d+\.\d+\.\d+", r"\1V", text)


# ---- the end -----------------------------------------------------------------------------------------------------------

SAVES = {"no": ("--save", ""), "yes": ("--save", "3600 1")}
LOGS = {"no": (), "yes": ("--appendonly", "yes")}
WORDS = [(), ("NOSAVE",), ("SAVE",), ("NOW",), ("FORCE",), ("SAVE", "FORCE"), ("NOSAVE", "NOW", "FORCE"), ("SAVE", "NOSAVE"),
         ("ABORT",), ("ABORT", "NOW"), ("NOSUCH",), ("save", "now"), ("NOW", "NOW")]
SIGNALS = [signal.SIGTERM, signal.SIGINT]
TURNS = ["default", "save", "nosave", "now", "force", "save force", "nosave now force"]


def endings():
    for words, (saves, save), (logs, log), fails in itertools.product(WORDS, SAVES.items(), LOGS.items(), (False, True)):
        # A failing save is a matter of saving alone.
        if not (fails and logs == "yes"):
            name = "SHUTDOWN %s, saves %s, log %s%s" % (" ".join(words), saves, logs, ", fails" if fails else "")
            yield name, shut_down, [*save, *log], words, fails
    for number, turn, (saves, save), fails in itertools.product(SIGNALS, TURNS, SAVES.items(), (False, True)):
        name = "%s is %s, saves %s%s" % (number.name, turn, saves, ", fails" if fails else "")
        yield name, signalled, [*save, "--shutdown-on-%s" % number.name.lower(), turn], number, 1, fails
    for number in SIGNALS:
        yield "%s twice, fails" % number.name, signalled, ["--save", "3600 1"], number, 2, True
        yield "%s while it saves" % number.name, insisting, number
    yield "SIGHUP", signalled, [], signal.SIGHUP, 1, False


def prepared(process, options, fails):
    client = process.serve(*options)
    client("SET", "a", "b")
    if fails:
        # Nothing can be created in a folder that is gone, not even by root.
        shutil.rmtree(os.path.join(process.folder, "data"))
    return client


def over(process, fails):
    process.end(REFUSED if fails else PATIENCE)
    process.lines(ENDING)
    process.files()


def shut_down(process, options, words, fails):
    client = prepared(process, options, fails)
    process.ask(client, "SHUTDOWN", *words)
    if process.said[-1].endswith("ends"):
        over(process, False)
    else:
        over(process, True)
        process.ask(client, "SET", "a", "c")


def insisting(process, number):
    client = process.serve("--save", "3600 1", "--rdb-key-save-delay", "100000")
    for key in range(12):
        client("SET", str(key), "x")
    for _ in range(2):
        process.process.send_signal(number)
        time.sleep(0.4)
    over(process, False)


def signalled(process, options, number, times, fails):
    prepared(process, options, fails)
    for _ in range(times):
        process.process.send_signal(number)
        time.sleep(0.5 if times > 1 else 0)
    if fails:
        process.until(r"Errors trying|bye bye", times)
    over(process, fails or number == signal.SIGHUP)


# ---- supervisors, background, title, score, files ----------------------------------------------------------------------


def surroundings():
    for mode, variables in itertools.product(("no", "systemd", "upstart", "auto"),
                                             ((), ("NOTIFY_SOCKET",), ("UPSTART_JOB",), ("NOTIFY_SOCKET", "UPSTART_JOB"))):
        yield "supervised %s %s" % (mode, " ".join(variables)), supervised, mode, variables
    yield "supervised by an abstract socket", supervised, "systemd", ("@NOTIFY_SOCKET",)
    yield "supervised by a socket that is not there", unsupervised
    for options in ([], ["--pidfile", "./x.pid"], ["--logfile", "./log", "--pidfile", "./x.pid"], ["--supervised", "systemd"]):
        yield "daemon %s" % " ".join(options), daemon, ["--daemonize", "yes", *options]
    yield "pid file", pid_file, ["--pidfile", "./x.pid"]
    yield "no pid file", pid_file, []
    for template in ("{title} {listen-addr} {server-mode}", "{port}/{tls-port} {unixsocket} [{config-file}]",
                     "a {{ b", "  x  ", "{listen-addr}", "{server-mode}x", "%s {title}", "{title} " + "long " * 100):
        yield "title %s" % template, title, ["--proc-title-template", template, "--unixsocket", "./s"]
    for bind in ("127.0.0.1", "* -::*", "127.0.0.1 -::1"):
        yield "title of %s" % bind, title, ["--bind", bind]
    yield "title not set", title, ["--set-proc-title", "no"]
    yield "title changes", changing_title
    for values in (["no"], ["yes"], ["relative"], ["absolute"], ["yes", "1 2 3"], ["absolute", "7 8 9"], ["absolute", "1000 0 0"],
                   ["relative", "900 0 0"]):
        yield "oom %s" % " ".join(values), score, values
    yield "oom changes", changing_score
    for soft, hard, clients in ((1024, 4096, 10000), (1024, 4096, 1000), (1024, 1024, 100), (40, 40, 100), (32, 32, 100),
                                (10, 10, 100), (1024, 20000, 10000), (100, 20000, 60)):
        yield "files %d %d for %d" % (soft, hard, clients), open_files, soft, hard, clients


def supervised(process, mode, variables):
    environment, listener = {}, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.settimeout(PATIENCE)
    address = os.path.join(process.folder, "notify")
    if "@NOTIFY_SOCKET" in variables:
        address = "@cinnabar-test-%s" % process.port
    listener.bind(address.replace("@", "\0"))
    if any("NOTIFY_SOCKET" in variable for variable in variables):
        environment["NOTIFY_SOCKET"] = address
    if "UPSTART_JOB" in variables:
        environment["UPSTART_JOB"] = "x"
    process.start("--supervised", mode, "--save", "", environment=environment)
    if "UPSTART_JOB" in variables and mode in ("upstart", "auto"):
        _, status = os.waitpid(process.process.pid, os.WUNTRACED)
        process.say("stopped by %s" % os.WSTOPSIG(status))
        process.process.send_signal(signal.SIGCONT)
    client = process.connect()
    process.lines("upervis|UPSTART|SIGSTOP", "out")
    process.say(re.findall("process_supervised:.*", client("INFO", "server")))
    process.process.terminate()
    process.end()
    listener.setblocking(False)
    try:
        while True:
            process.say("told %r" % listener.recv(4096))
    except BlockingIOError:
        listener.close()


def unsupervised(process):
    process.serve("--supervised", "systemd", "--save", "", environment={"NOTIFY_SOCKET": "/nonexistent/socket"})
    process.process.terminate()
    process.end()
    process.lines("systemd|notify")


def daemon(process, options):
    process.start(*options, "--save", "", environment={"NOTIFY_SOCKET": ""} if "--supervised" in options else None)
    process.end()
    client = process.connect()
    info = client("INFO", "server")
    pid = int(re.search(r"process_id:(\d+)", info)[1])
    process.pids.add(pid)
    process.say(re.findall("process_supervised:.*", info))
    state = open("/proc/%d/stat" % pid, encoding="utf-8").read().rpartition(")")[2].split()
    process.say("parent is another: %s, a session of its own: %s, a terminal: %s" % (
        int(state[1]) != os.getpid(), state[3] == str(pid), state[4]))
    process.say("files: %s" % [os.readlink("/proc/%d/fd/%d" % (pid, at)) for at in range(3)])
    for name in ("x.pid", "data/x.pid"):
        path = os.path.join(process.folder, name)
        if os.path.exists(path):
            process.say("%s: %r" % (name, open(path, encoding="utf-8").read()))
    process.ask(client, "SHUTDOWN")
    until = time.monotonic() + PATIENCE
    while os.path.exists("/proc/%d" % pid) and time.monotonic() < until:
        time.sleep(0.01)
    process.say(sorted(name for name in os.listdir(process.folder) if name != "out"))


def pid_file(process, options):
    process.serve(*options, "--save", "")
    for folder in ("", "data"):
        path = os.path.join(process.folder, folder, "x.pid")
        if os.path.exists(path):
            process.say("%s: %r" % (folder, open(path, encoding="utf-8").read()))
    process.process.terminate()
    process.end()
    process.lines(ENDING)
    process.say(os.listdir(process.folder) + os.listdir(os.path.join(process.folder, "data")))


def title_of(pid):
    text = open("/proc/%d/cmdline" % pid, "rb").read().rstrip(b"\0").replace(b"\0", b" ").decode()
    # Valkey fills short ones up; how long one can be depends on the environment.
    return re.sub(r" +\.$", "", text)


def title(process, options):
    process.serve(*options, "--save", "")
    process.say(title_of(process.process.pid).replace(process.program, "PROGRAM")[:60])


def changing_title(process):
    client = process.serve("--save", "")
    for name, value in (("proc-title-template", "{title} x {port}"), ("bind", "127.0.0.1"), ("proc-title-template", "{nosuch}"),
                        ("proc-title-template", ""), ("proc-title-template", "{title} {listen-addr}")):
        process.ask(client, "CONFIG", "SET", name, value)
        process.say(title_of(process.process.pid))


def score_of(pid):
    return open("/proc/%d/oom_score_adj" % pid, encoding="utf-8").read().strip()


def score(process, values):
    before = int(score_of(os.getpid()))
    options = [word for pair in zip(("--oom-score-adj", "--oom-score-adj-values"), values) for word in pair]
    process.serve(*options, "--save", "")
    process.say(int(score_of(process.process.pid)) - before)


def changing_score(process):
    client = process.serve("--save", "")
    for words in (("oom-score-adj", "absolute"), ("oom-score-adj-values", "5 6 7"), ("oom-score-adj", "relative"),
                  ("oom-score-adj", "no"), ("oom-score-adj-values", "1 2"), ("oom-score-adj", "yes", "oom-score-adj-values", "9 9 9"),
                  ("oom-score-adj-values", "1001 0 0")):
        process.ask(client, "CONFIG", "SET", *words)
        process.say(score_of(process.process.pid))


def open_files(process, soft, hard, clients):
    process.start("--maxclients", str(clients), "--save", "", before=["prlimit", "--nofile=%d:%d" % (soft, hard),
                                                                      *without("cap_sys_resource")])
    try:
        client = process.connect()
        process.say(client("CONFIG", "GET", "maxclients"))
        # The hard limit is left as it is, where Valkey lowers it.
        process.say(re.findall(r"Max open files +\d+", open("/proc/%d/limits" % process.process.pid, encoding="utf-8").read()))
    except (OSError, EOFError):
        process.end()
    process.lines("ulimit|maxclients|open files")


def without(capability):
    return ["setpriv", "--bounding-set=-" + capability.removeprefix("cap_"), "--inh-caps=-" + capability.removeprefix("cap_")]


# ---- the log -----------------------------------------------------------------------------------------------------------

FORMATS, STAMPS = ("legacy", "logfmt"), ("legacy", "iso8601", "milliseconds")


def logs():
    for form, stamp in itertools.product(FORMATS, STAMPS):
        yield "log %s %s" % (form, stamp), formats, form, stamp, {}
    yield "log in another zone", formats, "logfmt", "iso8601", {"TZ": "Asia/Kathmandu"}
    yield "log changes", changing_formats
    for level in ("debug", "verbose", "notice", "warning", "nothing"):
        yield "log level %s" % level, level_of, level
    yield "log is moved", moved_log
    for options in ([], ["--syslog-ident", "my ident"], ["--syslog-facility", "local5"], ["--syslog-facility", "user"],
                    ["--loglevel", "warning"], ["--logfile", "./log"]):
        yield "syslog %s" % " ".join(options), system_log, options


def shape(text):
    """Digits of moments as D, so that only the form is left."""
    text = re.sub(r'timestamp="([^"]*)"', lambda found: 'timestamp="%s"' % re.sub(r"\d", "D", found[1]), text)
    return re.sub(r"(?m)^(\d+:[MCSX]) (.*?) ([.\-*#]) ", lambda found: "%s %s %s " % (
        found[1], re.sub(r"\d", "D", found[2]), found[3]), text)


def months(text):
    return re.sub(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b", "MON", text)


def formats(process, form, stamp, environment):
    process.serve("--log-format", form, "--log-timestamp-format", stamp, "--save", "", environment=environment)
    process.wait_for("Ready to accept")
    for line in process.log().split("\n"):
        if re.search("is starting|Configuration loaded|Running mode|Server init|Ready to accept", line):
            process.say(months(shape(line)))


def changing_formats(process):
    client = process.serve("--save", "", "--loglevel", "notice")
    for words in (("log-format", "logfmt"), ("log-timestamp-format", "milliseconds"), ("log-format", "legacy"),
                  ("log-timestamp-format", "iso8601"), ("log-format", "logfmt", "log-timestamp-format", "legacy")):
        process.ask(client, "CONFIG", "SET", *words)
        client("DEBUG", "LOG", "x")
        client("SAVE")
    process.say(months("\n".join(shape(line) for line in process.log().split("\n") if "DB saved on disk" in line)))


def level_of(process, level):
    client = process.serve("--loglevel", level, "--enable-debug-command", "yes")
    for word in ("debug", "verbose", "notice", "warning"):
        process.ask(client, "CONFIG", "SET", "loglevel", word)
        client("DEBUG", "LOG", "said at %s" % word)
        client("SAVE")
    client("CONFIG", "SET", "loglevel", level)
    process.lines("said at|DB saved|is starting|Configuration loaded")


def moved_log(process):
    client = process.serve("--logfile", "./log", "--save", "")
    client("SAVE")
    where = [folder for folder in ("", "data") if os.path.exists(os.path.join(process.folder, folder, "log"))]
    for folder in where:
        os.rename(os.path.join(process.folder, folder, "log"), os.path.join(process.folder, folder, "old"))
    client("SAVE")
    process.say(where)
    process.say([sorted(set(os.listdir(os.path.join(process.folder, folder))) - {"dump.rdb"}) for folder in ("", "data")])
    process.say("on standard output: %r" % process.log())


# A /dev of its own with a socket for the system's log, then the server.
OWN_DEV = """
mkdir dev && mount -t tmpfs none dev && touch dev/null dev/urandom dev/random
for file in null urandom random; do mount --bind /dev/$file dev/$file; done
mount --rbind dev /dev && ln -s "$PWD/syslog" /dev/log && exec "$0" "$@"
"""


def system_log(process, options):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(os.path.join(process.folder, "syslog"))
        listener.settimeout(PATIENCE)
        process.serve("--save", "", "--syslog-enabled", "yes", *options, before=["unshare", "-m", "sh", "-c", OWN_DEV])
        process.process.terminate()
        lines = []
        # There is room for a few lines only: a reader that does not read them stops the server.
        listener.settimeout(0.05)
        until = time.monotonic() + PATIENCE
        ended = False
        while time.monotonic() < until:
            try:
                lines.append(listener.recv(8192).decode())
            except TimeoutError:
                if ended:
                    break
                ended = process.process.poll() is not None
        process.end()
        for line in lines:
            if re.search("Ready to accept|bye bye", line):
                process.say(repr(months(re.sub(r"\w{3} [ \d]\d \d\d:\d\d:\d\d", "MOMENT", line))))


# ---- crashes -----------------------------------------------------------------------------------------------------------

# Marks that readers of a report look for.
FRAME = r"=== VALKEY BUG REPORT|------ STACK TRACE"
REPORT = FRAME + r"|crashed by signal|------ (INFO|CLIENT LIST|MODULES INFO|CONFIG DEBUG) OUTPUT ------|^# \w+$"
# Valkey 9.1 crashes again in its test of the memory.
NO_MEMORY_TEST = ["--crash-memcheck-enabled", "no"]
# The client that the failed thread served, and its command.
CLIENT = r"------ (CURRENT|EXECUTING) CLIENT INFO ------|^argc: |^argv\["


def crashes():
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        yield "crash by %s" % number.name, crash, number, []
    yield "crash without a report", crash, signal.SIGSEGV, ["--crash-log-enabled", "no"]
    for words in (("SEGFAULT",), ("PANIC",), ("ASSERT",)):
        yield "DEBUG %s" % words, debugged, words
    yield "DEBUG PANIC with an exit", debugged, ("PANIC",), "--use-exit-on-panic", "yes"
    for hides in ("no", "yes"):
        for words in (("SEGFAULT", "key", "\n\x01'\\\""), ("PANIC", "z" * 300, ""), ("PANIC", *map(str, range(50)))):
            yield "arguments of %.20s, hidden: %s" % (words, hides), argued, words, "--hide-user-data-from-log", hides
    yield "watchdog", watched
    yield "a backlog that is too long", backlog
    yield "lines about clients", told_of
    yield "lines about clients with their names", told_of, "--hide-user-data-from-log", "no"


def watched(process):
    """The watchdog reports a thread that works for long, and not an idle one."""
    client = process.serve("--save", "", "--watchdog-period", "400", "--enable-debug-command", "yes")
    time.sleep(1)
    process.say("quiet: %d" % process.log().count("WATCHDOG TIMER EXPIRED"))
    process.ask(client, "DEBUG", "SLEEP", "1.5")
    process.say("asleep: %d" % process.log().count("WATCHDOG TIMER EXPIRED"))


def backlog(process):
    process.serve("--save", "", "--tcp-backlog", "1000000")
    process.lines("TCP backlog")


def told_of(process, *options):
    """Checks the log lines about clients that disconnect, exceed a limit, or send invalid requests."""
    limits = ("--client-query-buffer-limit", "1mb", "--client-output-buffer-limit", "normal 100kb 0 0")
    process.serve("--save", "", "--loglevel", "verbose", *limits, *options)
    ends = [b"ECHO x\r\n", b"PING\r\n", b"*a\r\n", b"SET a \"b\r\n", b"SETRANGE a 10000 b\r\n" + b"GET a\r\n" * 20,
            b"*2\r\n$4\r\nECHO\r\n" + b"$9000000\r\n" + b"x" * 4000000]
    for end in ends:
        with socket.create_connection(("127.0.0.1", int(process.port)), PATIENCE) as connection:
            connection.sendall(b"CLIENT SETNAME client-name\r\n")
            connection.recv(100)
            try:
                connection.sendall(end)
                if end == ends[0]:
                    # The server then finds an error, and no end of the stream.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.recv(100)
                    connection.close()
                    continue
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:
                pass
        time.sleep(0.1)
    process.process.terminate()
    process.end()
    lines = [line for line in process.log().split("\n") if re.search("name=|Reading", line)]
    # The length of a buffer, and with it the name of the error, depends on the server.
    varying = r"^.*? [-#*] |id=.* name=|age=.* user=| redir=.*?(?=Query|sched|\(qbuf|$)|\([^)]*\)"
    shown = (re.sub(varying, " ", line).rstrip() for line in lines)
    process.say("\n".join(sorted(shown)))


def crash(process, number, options):
    process.serve("--save", "", *NO_MEMORY_TEST, *options)
    process.process.send_signal(number)
    process.end()
    report(process, FRAME if options else REPORT)


def debugged(process, words, *options):
    client = process.serve("--save", "", "--enable-debug-command", "yes", *NO_MEMORY_TEST, *options)
    process.ask(client, "CLIENT", "SETNAME", "client-name")
    process.ask(client, "DEBUG", *words)
    process.end()
    process.say("names shown: %d" % process.log().count("client-name"))
    # Valkey shows less of a server that finds a mistake of its own.
    report(process, FRAME if words == ("ASSERT",) else REPORT)


def argued(process, words, *options):
    client = process.serve("--save", "", "--enable-debug-command", "yes", *NO_MEMORY_TEST, *options)
    process.ask(client, "SET", "key", "value")
    process.ask(client, "DEBUG", *words)
    process.end()
    report(process, CLIENT)


def report(process, pattern):
    text = process.log().replace("CINNABAR", "VALKEY")
    # The section that Valkey 9.1 has more.
    found = [line.strip() for line in text.split("\n") if re.search(pattern, line) and line.strip() != "# TLS"]
    process.say("\n".join(re.sub(r".*(crashed by signal: \d+).*", r"\1", line) for line in found))


def cases():
    """(name, function, arguments of it after the process)"""
    return itertools.chain(endings(), surroundings(), logs(), crashes())


if __name__ == "__main__":
    sys.exit(main())
