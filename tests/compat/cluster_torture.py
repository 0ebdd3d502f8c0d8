#!/usr/bin/env python3
"""cluster_torture - nodes of a cluster are stopped, killed, slowed down and replaced while slots move; counters tell what is lost.

    cluster_torture.py --server target/release/cinnabar-server [--seconds 60] [--seed N] [--peers ~/.cache/peers --mixed]

Three primaries with a replica each. Clients count keys up and read them, and follow what they are told. Meanwhile slots move to and
fro, and in the midst of it a node takes over by hand, stands still, is killed and comes back, has a slow disk, or a move is
cancelled; another client publishes. The seed is printed: the same seed gives the same steps, not the same moments.

All nodes are ours, and acknowledge what a replica has (`min-replicas-to-acknowledge 1`). So at every moment, kills included:
  - a counter's reply is more than any client was told before it was asked; a read is never less, and never nil,
  - in the end a counter has every step that a client was told of,
  - a replica that has its data reads no nil where keys are,
  - after each step every key is served again within a bound, and in the end all nodes agree on the slots.
With --mixed half of the nodes are real, nothing is acknowledged by replicas, and counters may go back after a kill, a stop, or a failover
by hand of a real primary, whose slots may be moving.
Exits with 1 if anything is wrong, and leaves the folder.
"""
import argparse
import os
import random
import signal
import subprocess
import tempfile
import threading
import time

from cluster_processes import ClusterTool, Node, scratch_folder
from wire import Client, request

KEYS = 200
# Seconds after which all keys are served again, and seconds after which all nodes agree.
HEALED, AGREED = 40, 40
CERTAIN = ["--min-replicas-to-acknowledge", "1", "--acknowledge-lease", "300", "--acknowledge-timeout", "600", "--repl-timeout", "3",
           "--repl-ping-replica-period", "1"]


class Failed(Exception):
    pass


class TorturedNode(Node):
    """A node with a disk of its own, which is slow for a time."""

    def __init__(self, binary, folder, shim, *options):
        self.control, self.environment = f"{folder}.control", {**os.environ, "LD_PRELOAD": shim, "STORM_CONTROL": f"{folder}.control"}
        self.set_disk(0)
        # Whether it has had the data since it was started.
        self.has_data = False
        super().__init__(binary, folder, *options)

    def start(self):
        self.has_data = False
        with open(os.path.join(self.folder, "log"), "ab") as log:
            words = [self.binary, *map(str, [*self.words(), *self.options])]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, env=self.environment)
        self.until("an answer", lambda node: node("PING") is not None)

    def set_disk(self, micros):
        with open(self.control, "r+b" if os.path.exists(self.control) else "wb") as control:
            control.write(bytes(8) + micros.to_bytes(8, "little"))

    def client(self):
        client = super().client()
        client.socket.settimeout(10)
        return client


class Told:
    """Values that clients have received. After an allowed loss they are forgotten, and a new epoch begins."""

    def __init__(self):
        self.lock, self.epoch, self.values, self.steps, self.wrong = threading.Lock(), 0, {}, {}, []
        # A node may acknowledge writes that are lost: nothing is checked until all values are forgotten.
        self.is_loose = False

    def counted(self, epoch, key, value):
        with self.lock:
            if epoch == self.epoch:
                self.values[key] = max(value, self.values.get(key, 0))
                self.steps[key] = self.steps.get(key, 0) + 1

    def forget(self):
        with self.lock:
            self.epoch, self.values, self.steps = self.epoch + 1, {}, {}

    def judge(self, epoch, words, value, least):
        with self.lock:
            if value < least and epoch == self.epoch and not self.is_loose:
                self.wrong.append(f"{time.strftime('%H:%M:%S')} {' '.join(words)}: {value}, though a client knew of {least}")


class Counter(threading.Thread):
    """Counts and reads, follows redirections, and detects at once when a write is lost."""

    def __init__(self, told, ports, seed):
        super().__init__(daemon=True)
        self.told, self.ports, self.random, self.clients = told, ports, random.Random(seed), {}
        self.errors, self.ended, self.count = set(), False, 0

    def reply_of(self, port, *words):
        """A node's reply; None if it gives none."""
        try:
            if port not in self.clients:
                self.clients[port] = Client(port)
                self.clients[port].socket.settimeout(10)
            return (self.clients[port](*words),)
        except (OSError, EOFError):
            self.clients.pop(port, None)
            return None

    def ask(self, *words, seconds=4):
        """The owner's reply in a tuple; None if there is none in that time, or the outcome is open."""
        port, asking, end = self.random.choice(self.ports), False, time.monotonic() + seconds
        while time.monotonic() < end:
            if asking:
                self.reply_of(port, "ASKING")
            replied = self.reply_of(port, *words)
            asking = False
            if replied is None:
                port = self.random.choice(self.ports)
                time.sleep(0.02)
            elif not isinstance(replied[0], bytes) or replied[0][:1] != b"-":
                return replied
            else:
                error = replied[0].split()
                if error[0] in (b"-MOVED", b"-ASK"):
                    port, asking = int(error[2].rsplit(b":", 1)[1]), error[0] == b"-ASK"
                elif error[0] in (b"-TRYAGAIN", b"-CLUSTERDOWN", b"-LOADING", b"-READONLY", b"-MASTERDOWN"):
                    time.sleep(0.05)
                    port = self.random.choice(self.ports)
                elif error[0] == b"-UNACKNOWLEDGED":
                    return None
                else:
                    self.errors.add(replied[0])
                    return None
        return None

    def run(self):
        while not self.ended:
            key = f"k{self.random.randrange(KEYS)}"
            epoch, least = self.told.epoch, self.told.values.get(key, 0)
            words = ("GET", key) if self.random.random() < 0.4 else ("INCR", key)
            replied = self.ask(*words)
            if replied is None:
                continue
            if words[0] == "GET":
                self.told.judge(epoch, words, int(replied[0] or 0), least)
            elif isinstance(replied[0], bytes) and replied[0][:1] == b":":
                self.told.judge(epoch, words, int(replied[0][1:]), least + 1)
                self.told.counted(epoch, key, int(replied[0][1:]))
                self.count += 1


class Reader(Counter):
    """Reads keys at replicas that have been there all along."""

    def __init__(self, torture, seed):
        super().__init__(torture.told, torture.ports, seed)
        self.nodes = torture.nodes

    def followed(self, port):
        """Returns the primary with which a replica is in sync; None if there is none."""
        told = self.reply_of(port, "INFO", "replication")
        lines = told[0].split(b"\r\n") if told and told[0] else []
        return next((line for line in lines if line.startswith(b"master_port:")), None) if b"master_link_status:up" in lines else None

    def run(self):
        while not self.ended:
            node, key = self.random.choice(self.nodes), f"k{self.random.randrange(KEYS)}"
            before, primary, epoch = node.has_data, self.followed(node.port), self.told.epoch
            if not before or not primary:
                time.sleep(0.01)
                continue
            self.reply_of(node.port, "READONLY")
            replied = self.reply_of(node.port, "GET", key)
            if replied == (None,) and self.followed(node.port) == primary and node.has_data is before and epoch == self.told.epoch:
                self.told.wrong.append(f"{time.strftime('%H:%M:%S')} {node.port}: READONLY GET {key}: nil")
            time.sleep(0.002)


class Publisher(Counter):
    """Publishes in batches, and reads the replies."""

    def run(self):
        while not self.ended:
            port = self.random.choice(self.ports)
            if self.reply_of(port, "PING") is None:
                continue
            try:
                client = self.clients[port]
                client.socket.sendall(request(["PUBLISH", "news", "x" * 200]) * 500)
                for _ in range(500):
                    client.read()
                    self.count += 1
            except (OSError, EOFError):
                self.clients.pop(port, None)
            time.sleep(self.random.choice([0.01, 0.3, 1]))


class Torture:
    def __init__(self, options, folder, shim):
        self.options, self.random, self.told, self.log = options, random.Random(options.seed), Told(), []
        self.real = os.path.join(options.peers, "newest/bin/valkey-server")
        kinds = [self.real, options.server, options.server, options.server, self.real, self.real] if options.mixed else [options.server] * 6
        persistence = self.random.choice([[], [], ["--appendonly", "yes"], ["--appendonly", "yes", "--appendfsync", "always"]])
        threads = str(self.random.choice([1, 2, 4]))
        print("torture:", *persistence, "threads", threads, flush=True)
        self.nodes = []
        for at, kind in enumerate(kinds):
            own = [] if kind == self.real else ["--threads", threads]
            self.nodes.append(TorturedNode(kind, os.path.join(folder, str(at)), shim, *own))
        self.ports = [node.port for node in self.nodes]
        ClusterTool(options.peers).create(self.nodes)
        for node in self.nodes:
            node.until("the cluster", Node.is_up)
            node.until("all roles", lambda node: node("CLUSTER", "NODES").count(b"slave") == 3)
        certain = [] if options.mixed else CERTAIN
        for node in self.nodes:
            words = [word.removeprefix("--") for word in [*certain, *persistence]]
            if words and node("CONFIG", "SET", *words) != b"+OK":
                raise Failed("CONFIG SET is refused")
            node.options = [*node.options, *certain, *persistence]
        for replica in self.replicas():
            replica.until("its data", Node.is_synced)
        self.counters = [Counter(self.told, self.ports, options.seed + at) for at in range(3)]
        for at in range(KEYS):
            self.counters[0].ask("INCR", f"k{at}", seconds=20)
        time.sleep(1)
        for node in self.nodes:
            node.has_data = object()
        # Replicas of a real node that was killed may have less than before.
        readers = [] if options.mixed else [Reader(self, options.seed + 10)]
        self.threads = [*self.counters, *readers, Publisher(self.told, self.ports, options.seed + 11)]
        for thread in self.threads:
            thread.start()

    # ---- steps -------------------------------------------------------------------------------------------------------

    def say(self, text):
        self.log.append(f"{time.strftime('%H:%M:%S')} {text}")

    def role(self, node):
        try:
            return node.role()
        except (OSError, EOFError):
            return None

    def primaries(self):
        return [node for node in self.nodes if self.role(node) == b"master" and self.has_slots(node)]

    def has_slots(self, node):
        mine = next(line for line in node("CLUSTER", "NODES").splitlines() if b"myself" in line)
        return len(mine.split()) > 8

    def replicas(self):
        return [node for node in self.nodes if self.role(node) == b"slave"]

    def replica_of(self, primary):
        return next((node for node in self.replicas() if node("ROLE")[2] == b":%d" % primary.port), None)

    def fails_over(self, primary):
        """A failover by hand, which may fail: no other node has to agree."""
        replica = self.replica_of(primary)
        if replica:
            # A real primary that has granted slots to another node votes for its replica, too: both serve them then.
            self.told.is_loose = self.options.mixed and primary.binary == self.real
            self.say(f"{replica.port} takes over from {primary.port}: {replica('CLUSTER', 'FAILOVER')}")
            if self.told.is_loose:
                self.agree_soon()
                self.lossy()
                self.told.is_loose = False

    def stands_still(self, node):
        seconds, self.is_hurt = self.random.choice([0.3, 1, 2.5, 5]), True
        self.say(f"{node.port} stands still for {seconds} s")
        self.lossy()
        node.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.told.is_loose = node.binary == self.real
        node.process.send_signal(signal.SIGCONT)
        if self.told.is_loose:
            self.agree_soon()
        self.lossy()
        self.told.is_loose = False

    def agree_soon(self):
        """Waits until all nodes know of a replaced real one: until then it, or its successor, may acknowledge writes that are
        lost."""
        end, since = time.monotonic() + 5, None
        while time.monotonic() < end and (since is None or time.monotonic() < since + 0.5):
            try:
                agree = len({view_of(other) for other in self.nodes}) == 1
            except (OSError, EOFError):
                agree = False
            since = (since or time.monotonic()) if agree else None
            time.sleep(0.05)

    def is_killed(self, node):
        seconds, self.is_hurt = self.random.choice([0, 0, 1, 6]), True
        self.say(f"{node.port} is killed, and comes back after {seconds} s")
        self.lossy()
        node.has_data = False
        node.kill()
        time.sleep(seconds)
        node.start()
        self.lossy()

    def has_slow_disk(self, node):
        micros = self.random.choice([2_000, 20_000, 60_000])
        self.say(f"{node.port} has a disk that takes {micros} us")
        node.set_disk(micros)

    def lossy(self):
        """Forgets values: real nodes, and nodes that wait for no replica, may lose acknowledged writes."""
        if self.options.mixed:
            self.told.forget()

    def moves(self):
        primaries = self.primaries()
        if len(primaries) < 2:
            return
        source, target = self.random.sample(primaries, 2)
        ranges = self.own(source)
        if not ranges:
            return
        start, end = self.random.choice(ranges)
        end = min(end, start + self.random.choice([0, 50, 400, 3000]))
        reply = source("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", start, end, "NODE", target("CLUSTER", "MYID"))
        self.say(f"{start}-{end} from {source.port} to {target.port}: {reply}")
        time.sleep(self.random.choice([0, 0.002, 0.01, 0.03, 0.1]))
        what = self.random.choice(["", "", "", "source", "target", "cancel"])
        if what == "cancel":
            self.say(f"cancelled: {source('CLUSTER', 'CANCELSLOTMIGRATIONS')}")
        elif what:
            node = source if what == "source" else target
            self.random.choice([self.fails_over, self.fails_over, self.stands_still, self.is_killed])(node)

    def one_step(self):
        kind = self.random.choice(["move"] * 5 + ["fail over", "still", "kill", "replica", "disk", "disks"])
        if kind == "move":
            return self.moves()
        primaries, replicas = self.primaries(), self.replicas()
        if kind == "disks":
            for node in self.nodes:
                node.set_disk(0)
        elif kind == "replica" and replicas:
            self.random.choice([self.is_killed, self.stands_still])(self.random.choice(replicas))
        elif primaries:
            steps = {"fail over": self.fails_over, "still": self.stands_still, "kill": self.is_killed, "disk": self.has_slow_disk}
            steps.get(kind, self.fails_over)(self.random.choice(primaries))

    # ---- invariants --------------------------------------------------------------------------------------------------

    def heals(self):
        """All keys are served, and replicas have their data."""
        end, asker = time.monotonic() + HEALED, Counter(self.told, self.ports, 7)
        for at in range(0, KEYS, 5):
            while True:
                replied = asker.ask("INCR", f"k{at}", seconds=1)
                if replied and isinstance(replied[0], bytes) and replied[0][:1] == b":":
                    break
                if time.monotonic() > end:
                    raise Failed(f"k{at} is not served")
                self.gives_replicas()
        while missing := [node.port for node in self.nodes if not self.is_well(node)]:
            if time.monotonic() > end:
                raise Failed(f"no role, or no data: {missing}")
            time.sleep(0.1)
        for node in self.nodes:
            node.has_data = node.has_data or object()

    def gives_replicas(self):
        """An operator makes a primary without slots, or a surplus replica, follow a primary without replicas; if there is
        none, the slots of the primary without replicas are moved to one with replicas."""
        if time.monotonic() < self.step_began + 12:
            return
        try:
            alone = next((node for node in self.primaries() if not self.replica_of(node)), None)
            spare = [node for node in self.nodes if node is not alone and self.role(node) == b"master" and not self.has_slots(node)]
            spare += self.replicas() if alone and not spare and len(self.replicas()) > 3 else []
            if alone and spare:
                self.say(f"{spare[0].port} is told to follow {alone.port}: {spare[0]('CLUSTER', 'REPLICATE', alone.id())}")
                spare[0].has_data = False
            elif alone:
                self.is_relieved()
        except (OSError, EOFError):
            pass

    def is_relieved(self):
        """Takes the slots from the primary with the fewest, of those without replicas."""
        lonely = [node for node in self.primaries() if not self.replica_of(node)]
        followed = next((node for node in self.primaries() if self.replica_of(node)), None)
        if len(lonely) > 1 and followed:
            node = min(lonely, key=lambda node: sum(last - first for first, last in self.own(node)))
            words = [word for slots in self.own(node) for word in slots]
            told = node("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *words, "NODE", followed.id())
            self.say(f"{node.port} has no replica, and gives its slots to {followed.port}: {told}")

    @staticmethod
    def own(node):
        """Ranges of a node's own slots."""
        return [(int(first[1:]), int(last[1:])) for first, last, owner, *_ in node("CLUSTER", "SLOTS") if owner[2] == node("CLUSTER", "MYID")]

    def is_well(self, node):
        try:
            if node.role() == b"slave":
                return node.is_synced()
            return self.has_slots(node) and node.is_up() or self.is_spare(node)
        except (OSError, EOFError):
            return False

    def is_spare(self, node):
        """Returns whether a node has no slots left: a primary that has given its last slot away keeps its role."""
        return not self.has_slots(node) and node.is_up() and time.monotonic() > self.step_began + 8

    def goes_on(self):
        self.step_began, self.is_hurt = time.monotonic(), False
        self.one_step()
        # A write that one replica has survives one failure, and the next is another one when all replicas have it again.
        if self.is_hurt or self.random.random() < 0.5:
            self.heals()
        if self.told.wrong:
            raise Failed("\n".join(self.told.wrong[:20]))

    def ends(self):
        for node in self.nodes:
            node.set_disk(0)
        self.heals()
        for thread in self.threads:
            thread.ended = True
        for thread in self.threads:
            thread.join(20)
        asker = Counter(self.told, self.ports, 8)
        for key, steps in self.told.steps.items():
            replied = asker.ask("GET", key, seconds=20)
            if replied is None or int(replied[0] or 0) < steps:
                self.told.wrong.append(f"{key} is {replied}, and clients were told of {steps} steps")
        if self.told.wrong:
            raise Failed("\n".join(self.told.wrong[:20]))
        end = time.monotonic() + AGREED
        while len(views := {view_of(node) for node in self.nodes}) > 1:
            if time.monotonic() > end:
                raise Failed("nodes do not agree on the slots:\n" + "\n\n".join("\n".join(view) for view in views))
            time.sleep(0.3)
        if errors := set().union(*(thread.errors for thread in self.threads)):
            raise Failed(f"clients were told: {errors}")


def view_of(node):
    lines = (line.decode().split() for line in node("CLUSTER", "NODES").splitlines())
    return tuple(sorted(" ".join([words[0], *(word for word in words[8:] if word[0] != "[")]) for words in lines))


def told_of(node):
    """Returns a node's own view of its replication, for the search of a cause."""
    try:
        lines = node("INFO", "replication").decode().splitlines()
    except (OSError, EOFError):
        return "does not answer"
    return " ".join(line for line in lines if line.startswith(("role", "in_sync", "master_link_status", "master_port", "connected_slaves")))


def run(options, shim):
    print(f"torture: seed {options.seed}", flush=True)
    with scratch_folder(f"cluster_torture_{options.seed}") as folder:
        torture = None
        try:
            torture = Torture(options, folder, shim)
            end = time.monotonic() + options.seconds
            while time.monotonic() < end:
                torture.goes_on()
            torture.ends()
            count, messages = sum(counter.count for counter in torture.counters), torture.threads[-1].count
            print(f"torture: {len(torture.log)} disturbances, {count} steps counted, {messages} messages, nothing wrong", flush=True)
        except (Failed, SystemExit, AssertionError) as error:
            print("torture: FAILED, seed", options.seed, error)
            print("\n".join(torture.log[-40:] if torture else []))
            for node in torture.nodes if torture else []:
                print(node.port, told_of(node))
            print({node.port: node.folder for node in torture.nodes} if torture else "")
            raise SystemExit(1) from error
        finally:
            for node in torture.nodes if torture else []:
                node.process.send_signal(signal.SIGCONT)
                node.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", default="~/.cache/peers")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--mixed", action="store_true", help="half of the nodes are real ones")
    options = parser.parse_args()
    options.peers = os.path.expanduser(options.peers)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "storm_shim.c")
    with tempfile.TemporaryDirectory() as folder:
        shim = os.path.join(folder, "shim.so")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
        run(options, shim)


if __name__ == "__main__":
    main()
