"""Experiments of directive_effects.py that watch a server's calls of the system, its sockets, its clock and its disk."""
import atexit
import ctypes
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections import Counter

from directive_experiments import BRIEFLY, Scene, until
from directive_tls import at, tls_options
from wire import free_port

PIDFD_GETFD = 438
IPPROTO_MPTCP = 262
# A kernel without the protocol shows nothing.
HAS_MPTCP = os.path.exists("/proc/sys/net/mptcp/enabled")


@functools.cache
def shim():
    """Compiles the shim; returns its path."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "directive_shim.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", folder + "/shim.so", source, "-ldl"], check=True)
    return folder + "/shim.so"


class Watched:
    """A server whose calls are logged, and whose clock can be moved, for as long as a `with` lasts."""

    def __init__(self, start, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.log, self.forward = self.folder.name + "/log", self.folder.name + "/forward"
        self.server = start(*options, env={"LD_PRELOAD": shim(), "SHIM_LOG": self.log, "SHIM_FORWARD": self.forward})

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *error):
        self.server.__exit__(*error)
        self.folder.cleanup()

    def lines(self):
        with open(self.log, "a+") as file:
            file.seek(0)
            return file.read().splitlines()

    def syncs(self, part):
        """The number of syncs of files with this part in their name."""
        return sum(line.startswith("sync ") and part in line for line in self.lines())


BIG_FILE = ("--rdbcompression", "no")


def populate(server):
    """40 MB."""
    server("DEBUG", "POPULATE", "40", "key", "1000000")


def syncs_of_file(start, option):
    """Whether a large file of a save is synced more than a few times."""
    with Watched(start, *BIG_FILE, *option) as it:
        populate(it.server)
        it.server("SAVE")
        return it.syncs(".rdb") > 4


def syncs_of_log(start, option):
    """Whether the large base of a rewritten log is synced more than a few times."""
    with Watched(start, *BIG_FILE, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0", *option) as it:
        populate(it.server)
        it.server("BGREWRITEAOF")
        until(lambda: it.server.info("aof_rewrite_in_progress") == "0" and it.server.info("aof_rewrite_scheduled") == "0")
        return sum("temp-" in line and "manifest" not in line for line in it.lines()) > 4


def syncs_while_rewriting(start, option):
    """Whether writes are synced while the log is rewritten."""
    with Watched(start, *BIG_FILE, "--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes",
                 "--rdb-key-save-delay", "10000", *option) as it:
        it.server("CONFIG", "SET", "rdb-key-save-delay", "0")
        it.server("DEBUG", "POPULATE", "400", "key", "1000")
        it.server("CONFIG", "SET", "rdb-key-save-delay", "10000")
        it.server("BGREWRITEAOF")
        until(lambda: it.server.info("aof_rewrite_in_progress") == "1")
        it.server("SET", "k", "first")
        before = it.syncs(".incr.aof")
        for number in range(20):
            it.server("SET", "k", str(number))
        synced = it.syncs(".incr.aof") - before
        return it.server.info("aof_rewrite_in_progress"), synced > 10


def frequency_later(start, option):
    """Whether the counter of a key falls in an hour without use."""
    with Watched(start, "--maxmemory-policy", "allkeys-lfu", *option) as it:
        it.server("SET", "k", "v")
        before = it.server("OBJECT", "FREQ", "k")
        open(it.forward, "w").close()
        return bool(until(lambda: it.server("OBJECT", "FREQ", "k") != before, BRIEFLY))


def accepted_in_a_row(limit, options=()):
    """A look: whether more connections than `limit` are accepted between two waits for events."""
    def look(start, option):
        with Watched(start, *option, *at(port := free_port(), options)) as it:
            target = port if options else it.server.port
            before = len(it.lines())
            it.server.process.send_signal(signal.SIGSTOP)
            waiting = [socket.create_connection(("127.0.0.1", target)) for _ in range(60)]
            it.server.process.send_signal(signal.SIGCONT)
            until(lambda: sum("accept" in line for line in it.lines()[before:]) >= len(waiting))
            rows, longest = Counter(), 0
            for call, thread in (line.split() for line in it.lines()[before:] if not line.startswith("sync")):
                rows[thread] = rows[thread] + 1 if call == "accept" else 0
                longest = max(longest, rows[thread])
            for each in waiting:
                each.close()
            return longest > limit
    return look


def socket_of(process, is_meant):
    """Returns the first socket of another process that is meant."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    pid = os.pidfd_open(process.pid)
    try:
        for name in os.listdir("/proc/%d/fd" % process.pid):
            file = call(PIDFD_GETFD, pid, int(name), 0)
            if file < 0:
                continue
            if not os.readlink("/proc/self/fd/%d" % file).startswith("socket:"):
                os.close(file)
                continue
            found = socket.socket(fileno=file)
            try:
                if is_meant(found):
                    return found
            except OSError:
                pass
            found.close()
    finally:
        os.close(pid)


def of_link(look, at_primary):
    """A look at the socket of the link between a replica and its primary, at one of its ends."""
    def seen(start, option):
        with start(*option) as primary, start(*option) as replica:
            replica("REPLICAOF", "127.0.0.1", str(primary.port))
            until(lambda: replica.info("master_link_status") == "up" and primary.info("slave0"))
            address = next(word[5:] for word in primary("CLIENT", "LIST", "TYPE", "replica").split() if word.startswith("addr="))
            client = ("127.0.0.1", int(address.split(":")[1]))
            end, process = ("getpeername", primary) if at_primary else ("getsockname", replica)
            with socket_of(process.process, lambda one: getattr(one, end)() == client) as link:
                return look(link)
    return seen


def has_no_delay(link):
    return bool(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def is_mptcp(link):
    return link.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == IPPROTO_MPTCP


def goes_on_without_disk(start, option):
    """Whether a replica whose snapshot failed survives a write of its primary."""
    with start() as primary, start("--save", "3600 1000", "--enable-protected-configs", "yes", *option) as replica:
        os.mkdir(os.path.join(replica.folder.name, "folder"))
        replica("REPLICAOF", "127.0.0.1", str(primary.port))
        until(lambda: replica.info("master_link_status") == "up")
        # A file cannot have the name of a folder.
        replica("CONFIG", "SET", "dbfilename", "folder")
        replica("BGSAVE")
        until(lambda: replica.info("rdb_last_bgsave_status") == "err")
        primary("SET", "k", "v")
        return not until(lambda: replica.process.poll() is not None, BRIEFLY)


def evicts_as_replica(start, option):
    """Whether a replica beyond its limit evicts keys."""
    with start() as primary, start("--maxmemory-policy", "allkeys-random", *option) as replica:
        replica("REPLICAOF", "127.0.0.1", str(primary.port))
        until(lambda: replica.info("master_link_status") == "up")
        replica("CONFIG", "SET", "maxmemory", "1000")
        for number in range(100):
            primary("SET", "k%d" % number, "v")
        primary("WAIT", "1", "1000")
        return until(lambda: replica("DBSIZE") != ":100", BRIEFLY)


def ready_behind_a_silent_primary(start, option):
    """Whether the page for health checks calls a replica ready whose primary stands still."""
    port = free_port()
    with start("--repl-ping-replica-period", "1") as primary, start("--admin-port", str(port), *option) as replica:
        replica("REPLICAOF", "127.0.0.1", str(primary.port))
        until(lambda: replica.info("master_link_status") == "up")

        def ready():
            try:
                return urllib.request.urlopen("http://127.0.0.1:%d/readyz" % port, timeout=5).status == 200
            except urllib.error.HTTPError:
                return False
        if not until(ready):
            return "never ready"
        primary.process.send_signal(signal.SIGSTOP)
        return not until(lambda: not ready(), 3 * BRIEFLY)


EXPERIMENTS = {
    "rdb-save-incremental-fsync": Scene(("no", "yes"), syncs_of_file),
    "aof-rewrite-incremental-fsync": Scene(("no", "yes"), syncs_of_log),
    "no-appendfsync-on-rewrite": Scene(("no", "yes"), syncs_while_rewriting),
    "lfu-decay-time": Scene(("0", "1"), frequency_later),
    "max-new-connections-per-cycle": Scene(("1", "1000"), accepted_in_a_row(5)),
    "max-new-tls-connections-per-cycle": Scene(("1", "1000"), lambda *scene: accepted_in_a_row(5, tls_options())(*scene)),
    "repl-disable-tcp-nodelay": Scene(("no", "yes"), of_link(has_no_delay, at_primary=True)),
    "replica-ignore-disk-write-errors": Scene(("no", "yes"), goes_on_without_disk),
    "replica-ignore-maxmemory": Scene(("no", "yes"), evicts_as_replica),
    "repl-mptcp": Scene(("no", "yes"), of_link(is_mptcp, at_primary=False) if HAS_MPTCP else lambda _, option: option[1]),
    "admin-ready-max-lag": Scene(("1", "1000"), ready_behind_a_silent_primary),
}
