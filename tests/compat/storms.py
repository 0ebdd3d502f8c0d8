#!/usr/bin/env python3
"""storms - servers that follow each other, random commands, and all that can go wrong with them at once.

    storms.py --server target/release/cinnabar-server --peers ~/.cache/peers --seconds 600 [--seed N]

A storm has three or four servers, Cinnabars and Valkeys, with options at random, and a proxy between any two of them. In each of its
rounds clients write to the primary while links are cut, snapshots come broken, processes and clients are paused, clocks go forward and
back, disks and loading are slow, servers are killed, ended, promoted and told to follow others, and all data is flushed, loaded anew and
saved. Then the storm rests: all links come up, all servers have the same data, and so have they what was acknowledged: by WAIT
whatever is promoted, by WAITAOF whatever is killed, by +OK where nothing of that happened. All the time each Cinnabar answers INFO
and SET soon, and its memory has a bound.

The seed is printed. A storm has a seed of its own, one more than that of the storm before: with it, and the same version of this file,
it makes the same choices again.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

from replicas import Failed, disturb, is_up, same
from storm_parts import AckWriter, Acknowledged, Clockwork, Gate, Link, Node, Watcher, Writer
from wire import Client, request

VALKEY, BENCHMARK = "newest/bin/valkey-server", "newest/bin/valkey-benchmark"
ROUNDS = 3
PATIENCE = 45
HOUR = 3_600_000_000


class Storm:
    def __init__(self, args, shim, scratch, seed):
        self.rng, self.scratch, self.peers, self.began = random.Random(seed), scratch, args.peers, time.monotonic()
        self.gate, self.open_gate, self.clockwork, self.acknowledged = Gate(), Gate(), Clockwork(), Acknowledged()
        self.ends, self.commands, self.problems, self.undone, self.floods, self.story = False, 0, [], [], [], []
        kinds = self.rng.choice(["CCC", "CCC", "CCCC", "CCV", "CVC", "VCC", "CVVC", "VCVC"])
        self.nodes, self.label = [], kinds
        for kind in kinds:
            is_ours = kind == "C"
            options = self.options(is_ours)
            has_log = self.rng.random() < 0.5
            self.tell(f"{kind}: {' '.join(options)}{' with a log' if has_log else ''}")
            self.nodes.append(Node(args.server if is_ours else os.path.join(args.peers, VALKEY), scratch, shim, options, is_ours, has_log))
        self.links = {(one, other): Link(other.port) for one in self.nodes for other in self.nodes if one is not other}
        self.primary, self.parents, self.direct = self.nodes[0], {}, 0
        self.check_shim()
        self.follow_all(chain=self.rng.random() < 0.3)
        self.threads = [Writer(self, f"{seed} {number}") for number in range(2)] + [AckWriter(self, number, f"{seed} a{number}") for number in range(3)]
        self.threads += [Watcher(self, node, word) for node in self.nodes if node.is_ours for word in ("INFO", "SET")]
        for thread in self.threads:
            thread.start()

    def options(self, is_ours):
        pick = self.rng.choice
        options = ["--repl-timeout", 5, "--save", pick(["3600 1 300 100 60 10000", "1 1", ""]), "--appendfsync", pick(["always", "everysec"]),
                   "--repl-diskless-sync", pick(["yes", "no"]), "--repl-diskless-load", pick(["disabled", "swapdb", "on-empty-db"]),
                   "--dual-channel-replication-enabled", pick(["yes", "no"]), "--repl-backlog-size", pick([16384, 1 << 20])]
        threads, chance = pick([1, 2, 4]), self.rng.random()
        options += ["--threads", threads] if is_ours else ["--loading-process-events-interval-bytes", 1024]
        if chance < 0.3:
            options += ["--client-output-buffer-limit", "replica 8mb 4mb 2"]
        return [str(option) for option in options]

    # ---- story and problems ----

    def tell(self, text):
        self.story.append(f"{time.monotonic() - self.began:7.2f} {text}")

    def problem(self, text):
        self.tell(f"PROBLEM: {text}")
        self.problems.append(text)

    def name(self, node):
        return f"{'C' if node.is_ours else 'V'}{self.nodes.index(node)}"

    # ---- commands ----

    def ask(self, node, *words):
        """A server whose process is stopped, or which has ended, is not asked."""
        if node.is_paused or node.process.poll() is not None:
            return None
        try:
            return node(*words)
        except (OSError, EOFError):
            node.client = Client(node.port)
            return node(*words)

    def later(self, seconds, undo):
        self.undone.append((time.monotonic() + seconds, undo))

    def undo(self, everything=False):
        due = [entry for entry in self.undone if everything or entry[0] <= time.monotonic()]
        self.undone = [entry for entry in self.undone if entry not in due]
        for _, undo in sorted(due, key=lambda entry: entry[0]):
            undo()

    def pass_time(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.undo()
            time.sleep(0.02)

    def wait(self, what, holds, patience=PATIENCE):
        end = time.monotonic() + patience
        while not holds():
            if time.monotonic() > end:
                raise Failed(f"in vain: {what}")
            self.pass_time(0.03)

    # ---- primaries and replicas ----

    def follow_all(self, chain=False):
        """Makes all servers follow the primary, or each the one before it."""
        before = self.primary
        for node in self.nodes:
            if node is not self.primary:
                self.follow(node, before)
                before = node if chain else before

    def follow(self, node, parent):
        self.parents[node] = parent
        with self.acknowledged.lock:
            self.direct = sum(self.parents.get(replica) is self.primary for replica in self.nodes if replica is not self.primary)
        self.ask(node, "REPLICAOF", "127.0.0.1", self.links[node, parent].port)

    def lead(self, node, way):
        """Makes a node the primary, and checks the writes that were acknowledged in this way."""
        def set_primary():
            self.primary = node

        old = self.primary
        told = self.acknowledged.forget(and_then=set_primary)
        if way:
            self.acknowledged.check(way, node, told)
        # All that is acknowledged from now on is acknowledged by all of them.
        for other in self.nodes:
            other.is_fresh = other.process.poll() is None
        self.parents.pop(node, None)
        for other in self.nodes:
            if other is not node and (other is old or self.parents.get(other) is node or self.parents.get(other) is old):
                self.follow(other, node)

    def replicas(self):
        return [node for node in self.nodes if node is not self.primary]

    def any_node(self, chance):
        return self.nodes[int(chance * len(self.nodes))]

    def any_replica(self, chance):
        replicas = self.replicas()
        return replicas[int(chance * len(replicas))]

    # ---- rounds ----

    def round(self):
        names = [name for name, weight in DISTURBANCES.items() for _ in range(weight[0])]
        plan = [(self.rng.choice(names), [self.rng.random() for _ in range(3)], self.rng.uniform(0.02, 0.9)) for _ in range(self.rng.randrange(4, 11))]
        for name, chances, rest in plan:
            self.tell(f"{name} {' '.join(f'{chance:.2f}' for chance in chances)}")
            DISTURBANCES[name][1](self, *chances)
            self.pass_time(rest)
            self.judge()
        self.rest()

    def has_lost_a_valkey(self):
        """Returns whether a Valkey ends within a second, as a broken snapshot makes it do, also during a command."""
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if any(node.process.poll() is not None for node in self.nodes if not node.is_ours):
                return all(node.process.poll() is None for node in self.nodes if node.is_ours)
            time.sleep(0.05)
        return False

    def judge(self):
        for node in self.nodes:
            if node.process.poll() is not None:
                if node.is_ours:
                    raise Failed(f"{self.name(node)} has ended with {node.process.returncode}")
                # A Valkey ends over a broken snapshot, and leaves it in the file that it would load.
                self.tell(f"{self.name(node)} has ended and comes back with nothing")
                shutil.rmtree(node.folder)
                os.mkdir(node.folder)
                come_back(self, node)
        if self.problems:
            raise Failed(self.problems[0])

    def calm(self):
        self.tell("rests")
        self.undo(everything=True)
        for flood in self.floods:
            flood.kill()
            flood.wait()
        self.floods = []
        for link in self.links.values():
            link.spoil = None
            link.heal()
        for node in self.nodes:
            node.set_clock(0)
            node.set_disk(0)
        self.judge()
        for node in self.nodes:
            for name in "rdb-key-save-delay", "key-load-delay":
                self.ask(node, "CONFIG", "SET", name, 0)

    def rest(self):
        self.calm()
        for node in self.replicas():
            if node.info().get("master_port") != str(self.links[node, self.parents[node]].port):
                self.tell(f"{self.name(node)} does not follow whom it was told to")
                self.follow(node, self.parents[node])
        with self.gate.closed():
            for node in self.replicas():
                self.wait(f"{self.name(node)} follows", lambda node=node: is_up(node))
                self.compare(node)
            self.acknowledged.check("reply", self.primary, self.acknowledged.told)
        for node in self.nodes:
            node.is_fresh = True
            if node.info("persistence")["aof_enabled"] != str(int(node.has_log)):
                raise Failed(f"the log of {self.name(node)} is {'off' if node.has_log else 'on'}")
        self.judge()

    def compare(self, node):
        try:
            same(self.primary, node)
        except Failed as failure:
            if not node.is_ours and not self.primary.is_ours and node.complains():
                raise ValkeysFault(f"{self.name(node)} has misread another's stream") from failure
            raise Failed(f"{self.name(node)} is not as {self.name(self.primary)}: {failure}") from failure

    def check_shim(self):
        """A storm without its clocks and disks would find nothing."""
        for node in self.nodes:
            node.set_clock(HOUR)
            self.wait("the clock is set", lambda node=node: int(node("TIME")[0]) > time.time() + 1800, 5)
            node.set_clock(0)

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join(PATIENCE)
        for node in self.nodes:
            node.stop()

    def states(self):
        """Returns for each node how it replicates, or why it does not say so."""
        for node in self.nodes:
            try:
                client = Client(node.port)
                client.socket.settimeout(2)
                text = client("INFO", "replication").decode("latin-1")
                yield f"{self.name(node)}: {' '.join(text.split()[2:])}"
            except (OSError, EOFError, ValueError, AttributeError) as error:
                yield f"{self.name(node)}: {type(error).__name__} {error}"

    def abandon(self):
        self.ends = True
        for process in [*self.floods, *(node.process for node in self.nodes)]:
            process.kill()
            process.wait()


# ---- events --------------------------------------------------------------------------------------------------------------

def seconds(chance, most):
    return 0.05 + chance * chance * most


def cut_link(storm, which, how, how_long):
    node = storm.any_replica(which)
    link = storm.links[node, storm.parents[node]]
    if how < 0.5:
        link.cut()
        storm.later(seconds(how_long, 8), link.heal)
    elif how < 0.75:
        storm.ask(storm.parents[node], "CLIENT", "KILL", "TYPE", "replica")
    else:
        storm.ask(node, "CLIENT", "KILL", "TYPE", "primary")


def pause_process(storm, which, _, how_long):
    node = storm.any_node(which)
    if node.is_paused:
        return
    excuse = node.excused()
    excuse.__enter__()
    node.pause()

    def resume():
        node.resume()
        excuse.__exit__(None, None, None)

    storm.later(seconds(how_long, 7), resume)


def pause_clients(storm, which, how, how_long):
    node, time_of_it = storm.any_node(which), seconds(how_long, 1.5)
    # A Valkey pauses until a time of day: after its clock has gone back it stays paused for as long as the clock was
    # ahead, also for its primary's commands and for CLIENT UNPAUSE.
    if node.is_ahead and not node.is_ours:
        return
    node.excuse_for(time_of_it)
    storm.ask(node, "CLIENT", "PAUSE", int(time_of_it * 1000), "WRITE" if how < 0.6 else "ALL")


def slow_disk(storm, which, how, how_long):
    node, time_of_it = storm.any_node(which), seconds(how_long, 6)
    if node.has_log:
        # Replies may wait for the disk.
        node.excuse_for(time_of_it + 2)
    node.set_disk(int(how * 300_000))
    storm.later(time_of_it, lambda: node.set_disk(0))


def set_clock(storm, which, how, how_long):
    node = storm.any_node(which)
    node.set_clock(int((how - 0.5) * HOUR) if how_long < 0.5 else int((how - 0.5) * 40_000_000))
    storm.later(seconds(how_long, 6), lambda: node.set_clock(0))


def full_sync(storm, which, *_):
    if not storm.primary.is_paused:
        disturb(None, storm.primary, storm.any_replica(which), "full sync")


def spoil_snapshot(storm, which, how, where):
    node = storm.any_replica(which)
    storm.links[node, storm.parents[node]].spoil = ("cut" if how < 0.5 else "flip", int(10 * 2 ** (where * 10)))
    full_sync(storm, which)


def slow_snapshot(storm, which, how, how_long):
    node = storm.any_replica(which)
    storm.ask(node, "CONFIG", "SET", "key-load-delay", int(how_long * 3000))
    storm.ask(storm.parents[node], "CONFIG", "SET", "rdb-key-save-delay", int(how * 1000))
    full_sync(storm, which)


def promote(storm, which, how, _):
    node = storm.any_replica(which)
    if node.is_paused:
        return
    client = Client(node.port)
    words = [["INFO", "replication"], ["REPLICAOF", "NO", "ONE"]]
    if how < 0.5:
        words = [["MULTI"], *words, ["EXEC"]]
    client.socket.sendall(b"".join(map(request, words)))
    replies = [client.read() for _ in words]
    # It is refused while data is loaded beside the old one.
    if how < 0.5 and not isinstance(replies[-1], list):
        storm.tell(f"promotion is answered {replies[-1]}")
        return
    info, reply = replies[-1] if how < 0.5 else replies
    if reply != b"+OK":
        storm.tell(f"promotion is answered {reply}")
        return
    has_all = b"master_link_status:up" in info and b"master_sync_in_progress:0" in info and node.is_fresh and storm.parents[node] is storm.primary
    storm.tell(f"{storm.name(node)} leads{'' if has_all else ', and need not have what was acknowledged'}")
    storm.lead(node, "replicas" if has_all else None)


def succeed(storm, which, how, _):
    """A primary is killed, and a replica takes over. The old primary returns as its replica."""
    old = storm.primary
    with old.excused():
        old.pause()
        promote(storm, which, how, 0)
        old.kill()
        come_back(storm, old)


def hand_over(storm, which, how, how_long):
    old, node = storm.primary, storm.any_replica(which)
    # In the meantime writes wait.
    with old.excused():
        reply = storm.ask(old, "FAILOVER", "TO", "127.0.0.1", node.port, "TIMEOUT", int(200 + how_long * 2000))
        if reply != b"+OK":
            storm.tell(f"FAILOVER is answered {reply}")
            return
        if how < 0.3:
            pause_process(storm, storm.nodes.index(node) / len(storm.nodes) + 0.01, 0, how_long)
        storm.wait("the failover ends", lambda: old.info()["master_failover_state"] == "no-failover")
    if old.info()["role"] == "slave":
        # A node that is stopped leads when it goes on.
        storm.undo(everything=True)
        storm.wait(f"{storm.name(node)} leads", lambda: node.info()["role"] == "master")
        storm.tell(f"{storm.name(node)} leads")
        storm.lead(node, "reply")


def flush_all(storm, _, how, __):
    if storm.ask(storm.primary, "FLUSHALL", "ASYNC" if how < 0.5 else "SYNC") == b"+OK":
        storm.acknowledged.forget()


def reload(storm, which, *_):
    """Reloads a server, except a Valkey that follows: it loses writes that reach it while it loads."""
    node = storm.any_node(which)
    if not node.is_ours and node is not storm.primary:
        return
    with node.excused():
        storm.tell(f"DEBUG RELOAD is answered {storm.ask(node, 'DEBUG', 'RELOAD')}")


def save(storm, which, how, _):
    storm.ask(storm.any_node(which), "BGSAVE" if how < 0.5 else "BGREWRITEAOF")


def switch_log(storm, which, *_):
    node = storm.any_node(which)
    wanted = not node.has_log
    if storm.ask(node, "CONFIG", "SET", "appendonly", "yes" if wanted else "no") == b"+OK":
        node.has_log = wanted
        if node is storm.primary:
            storm.acknowledged.forget("disk")


def come_back(storm, node):
    """Starts a node again: the data of its disk is there, and a replica follows as before."""
    if node is storm.primary:
        told = storm.acknowledged.forget()
        node.start()
        storm.acknowledged.check("disk" if node.has_log else "none", node, told)
    else:
        node.start()
        node.is_fresh = False
        storm.follow(node, storm.parents[node])


def kill(storm, which, *_):
    node = storm.any_node(which)
    with node.excused():
        node.kill()
        come_back(storm, node)


def restart(storm, which, *_):
    node = storm.any_node(which)
    if node.is_paused:
        return
    with node.excused():
        node.set_disk(0)
        node.stop()
        told, is_kept = storm.acknowledged.told, node.has_log or "" not in node.options
        come_back(storm, node)
        if node is storm.primary and is_kept:
            storm.acknowledged.check("reply", node, told)


def flood(storm, *_):
    """Writes more than the replicas' buffers may hold."""
    command = [os.path.join(storm.peers, BENCHMARK), "-p", storm.primary.port, "-n", 60_000, "-c", 20, "-P", 16, "-d", 700, "-r", 3000, "-t", "set,incr"]
    storm.floods.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def large_values(storm, _, how, how_many):
    for number in range(int(how_many * 6)):
        storm.ask(storm.primary, "SET", f"large:{number}", b"x" * int(how * 6_000_000))


def detach(storm, which, how, how_long):
    """A replica leads by itself for a moment, has data of its own, and follows again."""
    node = storm.any_replica(which)
    storm.ask(node, "REPLICAOF", "NO", "ONE")
    if how < 0.5:
        storm.ask(node, "SET", "own", how)
    storm.later(seconds(how_long, 2), lambda: node is not storm.primary and storm.follow(node, storm.parents[node]))


def follow_another(storm, which, whom, _):
    """Makes a node a replica of a replica, or of the primary again."""
    node = storm.any_replica(which)
    others = [other for other in storm.nodes if other is storm.primary or other is not node and storm.parents[other] is storm.primary]
    if node in storm.parents.values():
        others = [storm.primary]
    node.is_fresh = False
    storm.follow(node, others[int(whom * len(others))])


# Weight of each event, and its action with three numbers between 0 and 1.
DISTURBANCES = {
    "cut link": (4, cut_link), "pause process": (3, pause_process), "pause clients": (2, pause_clients), "slow disk": (3, slow_disk), "clock": (3, set_clock),
    "full sync": (2, full_sync), "spoil snapshot": (4, spoil_snapshot), "slow snapshot": (2, slow_snapshot), "promote": (3, promote), "succeed": (2, succeed),
    "hand over": (3, hand_over), "flush all": (2, flush_all), "reload": (2, reload), "save": (3, save), "switch log": (2, switch_log), "kill": (2, kill),
    "restart": (2, restart), "flood": (2, flood), "large values": (1, large_values), "detach": (2, detach), "follow another": (2, follow_another),
}


class ValkeysFault(Failed):
    """Two Valkeys differ: by two channels a replica of a replica may apply the stream to another database."""


def run_storm(args, shim, seed):
    """Returns whether the storm succeeded; a failure is printed with all steps before it."""
    scratch = tempfile.mkdtemp(prefix="storm-")
    storm = None
    try:
        storm = Storm(args, shim, scratch, seed)
        for _ in range(ROUNDS):
            storm.round()
        storm.end()
        print(f"storm {seed}, {storm.label}: {storm.commands} commands, {storm.acknowledged.count} acknowledged, {time.monotonic() - storm.began:.0f} s", flush=True)
    except (Failed, EOFError, OSError, ValueError, TypeError) as error:
        has_ended = storm and isinstance(error, (EOFError, OSError)) and storm.has_lost_a_valkey()
        if has_ended or isinstance(error, ValkeysFault):
            why = "a Valkey has ended at a bad snapshot" if has_ended else f"{error}"
            print(f"storm {seed}, {storm.label}: given up, as {why}", flush=True)
            storm.abandon()
            shutil.rmtree(scratch, ignore_errors=True)
            return True
        print(f"storm {seed}, {storm.label if storm else '?'} FAILED: {type(error).__name__} {str(error)[:400]} (logs: {scratch})", flush=True)
        if not isinstance(error, Failed):
            traceback.print_exc(file=sys.stdout)
        if storm:
            ports = " ".join(f"{storm.name(node)}={node.port}" for node in storm.nodes)
            print(ports, *storm.story[-40:], *storm.states(), sep="\n", flush=True)
            storm.abandon()
        return False
    shutil.rmtree(scratch, ignore_errors=True)
    return True


def in_a_process(work):
    """Returns the result of the work, whose threads and sockets end with a process of its own."""
    process = os.fork()
    if process == 0:
        succeeded = False
        try:
            succeeded = work()
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0 if succeeded else 1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    args = parser.parse_args()
    args.server, args.peers = os.path.abspath(args.server), os.path.abspath(os.path.expanduser(args.peers))
    if not os.access(args.server, os.X_OK):
        parser.error(f"{args.server} is no program")
    print(f"seed {args.seed}", flush=True)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "storm_shim.c")
    with tempfile.TemporaryDirectory() as folder:
        shim = os.path.join(folder, "shim.so")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
        end, seed, failed = time.monotonic() + args.seconds, args.seed, 0
        while time.monotonic() < end:
            failed += not in_a_process(lambda: run_storm(args, shim, seed))
            seed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
