"""storm_parts - parts of storms.py: servers with a clock and a disk of their own, links that spoil snapshots, clients."""
import contextlib
import mmap
import os
import random
import re
import signal
import struct
import tempfile
import threading
import time

from acknowledged import Proxy
from replicas import Failed, Server, commands, fields_that_expire
from wire import Client, request

# Seconds within which a reply arrives, besides those that this program itself had to wait for its turn.
LIVELY = 5.0
# Bytes that a server may take: all data is less than a tenth of it.
MOST_MEMORY = 700 << 20


class Link(Proxy):
    """A connection from a replica to its primary, which may spoil the next snapshot."""

    HEAD = re.compile(rb"(?:FULLRESYNC|ENDOFF).*?\$(EOF:.{40}|[0-9]+)\r\n", re.DOTALL)

    def __init__(self, target):
        super().__init__(target)
        self.spoil, self.heads, self.sent = None, {}, {}

    def altered(self, source, data):
        if source.getpeername()[1] != self.target or self.heads.get(source) == b"":
            return data
        begins = 0
        if source not in self.sent:
            head = self.heads.get(source, b"") + data
            match = self.HEAD.search(head)
            # Beyond this length the stream has no snapshot, and its head is dropped.
            self.heads[source] = b"" if len(head) > 1 << 16 and not match else head
            if not match:
                return data
            self.sent[source] = 0
            begins = len(data) - (len(head) - match.end())
        return self.spoiled(source, data, begins)

    def spoiled(self, source, data, begins):
        at = self.sent[source]
        self.sent[source] += len(data) - begins
        # A snapshot whose place is past already is not the next one.
        if not self.spoil or not at <= self.spoil[1] < self.sent[source]:
            return data
        (how, place), self.spoil, self.heads[source] = self.spoil, None, b""
        if how == "cut":
            raise OSError("cut")
        spot = begins + place - at
        mark = re.search(rb"EOF:(.{40})", self.HEAD.search(data).group(1) if begins and self.HEAD.search(data) else b"", re.DOTALL)
        if spot < len(data) - 41 and not (mark and mark.group(1) in data[begins:spot + 41]):
            data = data[:spot] + bytes([data[spot] ^ 0x55]) + data[spot + 1:]
        return data


class Node(Server):
    """A server with a clock and a disk of its own."""

    def __init__(self, binary, scratch, shim, options, is_ours, has_log):
        self.is_ours, self.started, self.excuses, self.has_log = is_ours, 0, [], has_log
        # Whether the process is stopped; whether all that replicas acknowledged is there once its link is up.
        self.is_paused, self.is_fresh, self.is_ahead = False, True, False
        path = tempfile.mktemp(dir=scratch, prefix="control-")
        with open(path, "wb") as file:
            file.write(bytes(16))
        with open(path, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), 16)
        self.environment = {**os.environ, "LD_PRELOAD": shim, "STORM_CONTROL": path}
        super().__init__(binary, scratch, *options)

    def start(self, *_):
        # A log that was turned on or off is so after a restart, too.
        with self.excused():
            super().start("--appendonly", "yes" if self.has_log else "no")
        self.started += 1

    def complains(self):
        """Returns whether a Valkey has found its primary's stream to be wrong."""
        with open(self.log, "rb") as log:
            return b"== CRITICAL == This replica is sending an error" in log.read()

    def set_clock(self, micros):
        self.is_ahead = micros > 0
        self.control[:8] = struct.pack("q", micros)

    def set_disk(self, micros):
        self.control[8:] = struct.pack("q", micros)

    @contextlib.contextmanager
    def excused(self):
        """During the block, and for a moment after it, no client expects a reply."""
        excuse = [time.monotonic(), float("inf")]
        self.excuses.append(excuse)
        try:
            yield
        finally:
            excuse[1] = time.monotonic() + 0.5

    def excuse_for(self, seconds):
        now = time.monotonic()
        self.excuses.append([now, now + seconds + 0.5])

    def is_excused(self, begin, end):
        return any(begin < until and end > since for since, until in self.excuses)

    def resident(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            # A process that has just ended has no such line.
            return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS:")), 0)

    def pause(self):
        self.is_paused = True
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.is_paused = False
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.is_paused = False
        self.process.kill()
        self.process.wait()


class Gate:
    """A gate that threads pass once a step; closing it waits until they are outside."""

    def __init__(self):
        self.changed, self.inside, self.is_open = threading.Condition(), 0, True

    @contextlib.contextmanager
    def passed(self):
        with self.changed:
            self.changed.wait_for(lambda: self.is_open)
            self.inside += 1
        try:
            yield
        finally:
            with self.changed:
                self.inside -= 1
                self.changed.notify_all()

    @contextlib.contextmanager
    def closed(self):
        with self.changed:
            self.is_open = False
            if not self.changed.wait_for(lambda: self.inside == 0, 60):
                raise Failed("a client waits for a reply in vain")
        try:
            yield
        finally:
            with self.changed:
                self.is_open = True
                self.changed.notify_all()


class Acknowledged:
    """Values that clients have received: with any reply, with all replicas, with the primary's disk."""

    def __init__(self):
        self.lock, self.epoch, self.told, self.count = threading.Lock(), 0, {}, 0

    def remember(self, epoch, key, value, ways):
        with self.lock:
            if epoch != self.epoch:
                return
            self.count += 1
            for way in ways:
                self.told[way, key] = max(value, self.told.get((way, key), 0))

    def forget(self, *ways, and_then=lambda: None):
        """Forgets all values, or those received in these ways; pending ones are not recorded. Returns the earlier values."""
        with self.lock:
            self.epoch += 1
            and_then()
            before = self.told
            self.told = {(way, key): value for (way, key), value in before.items() if ways and way not in ways}
            return before

    def check(self, way, server, told):
        client = Client(server.port)
        client("SELECT", 9)
        for (told_way, key), value in told.items():
            if told_way == way:
                found = client("GET", key)
                if not isinstance(found, bytes) or not found.isdigit() or int(found) < value:
                    raise Failed(f"{key}: {value} was acknowledged ({way}), and {found} is there")


class Repeated(threading.Thread):
    """Does one step after the other until the storm ends, and connects anew when the connection is lost."""

    def __init__(self, storm):
        super().__init__(daemon=True)
        self.storm, self.client, self.node = storm, None, None

    def run(self):
        while not self.storm.ends:
            try:
                with self.gate().passed():
                    self.step()
            except (OSError, EOFError, ValueError):
                self.client = None
                time.sleep(0.02)

    def gate(self):
        return self.storm.gate

    def connected(self, node):
        if self.client is None or self.node is not node:
            self.node, self.client = node, None
            self.client = Client(node.port)
            self.client.socket.settimeout(20)
        return self.client


class Writer(Repeated):
    """Random commands, as many at a time as it likes."""

    def __init__(self, storm, seed):
        super().__init__(storm)
        self.rng = random.Random(seed)

    def step(self):
        client = self.connected(self.storm.primary)
        batch = []
        for _ in range(self.rng.choice([1, 1, 20])):
            batch += fields_that_expire(self.rng) if self.rng.random() < 0.02 else commands(self.rng)
        # The storm itself flushes everything, because it knows the loss.
        batch = [words for words in batch if words != ["FLUSHALL"]]
        client.socket.sendall(b"".join(map(request, batch)))
        for _ in batch:
            client.read()
        self.storm.commands += len(batch)


class AckWriter(Repeated):
    """Writes its own keys, and records the replies."""

    def __init__(self, storm, number, seed):
        super().__init__(storm)
        self.rng, self.number, self.value = random.Random(seed), number, 0

    def step(self):
        storm = self.storm
        with storm.acknowledged.lock:
            epoch, primary, replicas = storm.acknowledged.epoch, storm.primary, storm.direct
        client = self.connected(primary)
        self.value += 1
        key = f"ack:{self.number}:{self.value % 7}"
        ways, wait = self.rng.choice([(["reply"], None), (["reply", "replicas"], ["WAIT", replicas, 400]), (["reply", "disk"], ["WAITAOF", 1, 0, 400])])
        batch = [["SELECT", 9], ["SET", key, self.value], *([wait] if wait else [])]
        client.socket.sendall(b"".join(map(request, batch)))
        replies = [client.read() for _ in batch]
        if replies[1] != b"+OK":
            time.sleep(0.02)
            return
        enough = {"WAIT": lambda reply: isinstance(reply, bytes) and reply[:1] == b":" and int(reply[1:]) >= replicas > 0,
                  "WAITAOF": lambda reply: isinstance(reply, list) and reply[0] == b":1"}
        storm.acknowledged.remember(epoch, key, self.value, ways if not wait or enough[wait[0]](replies[2]) else ["reply"])


class Watcher(Repeated):
    """Checks that one of our servers runs, and its use of memory."""

    def __init__(self, storm, node, word):
        super().__init__(storm)
        self.watched, self.word = node, word

    def gate(self):
        # INFO changes nothing: it may run while all is compared.
        return self.storm.gate if self.word == "SET" else self.storm.open_gate

    def step(self):
        node, begin, started = self.watched, time.monotonic(), self.watched.started
        problem = None
        try:
            client = self.connected(node)
            client(*(["INFO", "everything"] if self.word == "INFO" else ["SET", f"alive:{node.port}", begin]))
        except (OSError, EOFError, ValueError) as error:
            self.client, problem = None, f"{type(error).__name__} {error}"
        end = time.monotonic()
        late = end - begin - self.storm.clockwork.late(begin, end)
        if late > LIVELY:
            problem = f"reply after {late:.2f} s"
        if problem and node.started == started and not node.is_excused(begin, end):
            self.storm.problem(f"{self.word} at {node.port}: {problem}")
        if self.word == "INFO" and not node.is_excused(begin, end) and (taken := node.resident()) > MOST_MEMORY:
            self.storm.problem(f"{node.port} takes {taken >> 20} MB")
        time.sleep(0.05)


class Clockwork(threading.Thread):
    """Measures how long threads of this process wait for a processor."""

    def __init__(self):
        super().__init__(daemon=True)
        self.waits = []
        self.start()

    def run(self):
        while True:
            begin = time.monotonic()
            time.sleep(0.02)
            late = time.monotonic() - begin - 0.02
            if late > 0.02:
                self.waits.append((begin, late))

    def late(self, begin, end):
        return sum(late for at, late in self.waits[-2000:] if begin - late < at < end)
