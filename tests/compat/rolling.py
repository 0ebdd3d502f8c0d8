#!/usr/bin/env python3
"""rolling - with acknowledged writes under Sentinel, all nodes restart one at a time and service comes back by itself each time.

    rolling.py --server target/release/cinnabar-server [--peers ~/.cache/peers/newest/bin/valkey-server] [--rounds 1] [--seed 1] [--quick]

Two and three nodes, of which one has to acknowledge (`min-replicas-to-acknowledge 1`), and Sentinels. Every node is restarted in turn,
in a random order: by SHUTDOWN or by kill -9, and comes back at once, after a moment, or after it was noticed. Nodes save by save points,
by a log, or not at all. Before that the role goes to another node and on by SENTINEL FAILOVER. From the start of the process, or
from the order, clients are served again within down-after and 5 seconds, with nobody's help,
and every value that was acknowledged is there. With --peers, one of three nodes is that server.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from wire import Client, free_port

DOWN_AFTER = 2.0
MORE = 5.0
LEASE = 500
KEYS = 4
SAVES = {"points": "", "log": 'appendonly yes\nsave ""\n', "none": 'save ""\n'}
OWN = f"min-replicas-to-acknowledge 1\nacknowledge-lease {LEASE}\nacknowledge-timeout 1000\n"


class Failed(Exception):
    pass


class Process:
    def __init__(self, command, folder, config):
        self.port = free_port()
        self.folder = os.path.join(folder, str(self.port))
        os.mkdir(self.folder)
        self.command, self.file = command, os.path.join(self.folder, "server.conf")
        with open(self.file, "w") as file:
            file.write(f"port {self.port}\ndir {self.folder}\nlogfile {self.folder}/log\n{config}")
        self.start()

    def start(self):
        with open(f"{self.folder}/output", "ab") as output:
            self.process = subprocess.Popen([self.command[0], self.file, *self.command[1:]], stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output)

    def ask(self, *words):
        client = Client(self.port)
        client.socket.settimeout(3)
        return client(*words)

    def info(self):
        try:
            lines = self.ask("INFO", "replication").decode().split("\r\n")
            return dict(line.split(":", 1) for line in lines if ":" in line)
        except (OSError, EOFError, AttributeError):
            return {}

    def end(self, how):
        if how == "kill":
            self.process.send_signal(signal.SIGKILL)
        else:
            try:
                self.ask("SHUTDOWN")
            except (OSError, EOFError):
                pass
        self.process.wait(20)


class Writers(threading.Thread):
    """Writers at the primary that the Sentinels name; they record the acknowledged writes, and when."""

    def __init__(self, sentinels):
        super().__init__(daemon=True)
        self.sentinels, self.told, self.ends, self.served = sentinels, [0] * KEYS, False, 0.0
        self.lock = threading.Lock()

    def primary(self):
        for sentinel in self.sentinels:
            try:
                return int(sentinel.ask("SENTINEL", "get-master-addr-by-name", "group")[1])
            except (OSError, EOFError, TypeError):
                pass
        raise OSError("no Sentinel answers")

    def run(self):
        value = 0
        while not self.ends:
            try:
                client = Client(self.primary())
                client.socket.settimeout(1.5)
                while not self.ends:
                    value += 1
                    key = value % KEYS
                    if client("SET", f"key:{key}", value) != b"+OK":
                        break
                    with self.lock:
                        self.told[key], self.served = value, time.time()
                    time.sleep(0.002)
            except (OSError, EOFError):
                pass
            time.sleep(0.05)


class World:
    def __init__(self, options, folder, nodes, saves, peer):
        config = f"repl-diskless-sync-delay 0\n{SAVES[saves]}"
        own = lambda: Process([options.server], folder, config + OWN)
        self.nodes = [own() for _ in range(nodes - bool(peer))]
        if peer:
            self.nodes.append(Process([peer], folder, config))
        self.up([node for node in self.nodes])
        for node in self.nodes[1:]:
            node.ask("REPLICAOF", "127.0.0.1", self.nodes[0].port)
            node.ask("CONFIG", "REWRITE")
        quorum = options.sentinels // 2 + 1
        monitor = (f"sentinel monitor group 127.0.0.1 {self.nodes[0].port} {quorum}\nsentinel down-after-milliseconds group {int(DOWN_AFTER * 1000)}\n"
                   "sentinel failover-timeout group 10000\n")
        self.sentinels = [Process([options.server, "--sentinel"], folder, monitor) for _ in range(options.sentinels)]
        self.up(self.sentinels)
        self.writers = Writers(self.sentinels)
        self.writers.start()

    def up(self, processes):
        end = time.time() + 20
        for process in processes:
            while True:
                try:
                    process.ask("PING")
                    break
                except (OSError, EOFError):
                    if time.time() > end:
                        raise Failed(f"{process.folder} does not start")
                    time.sleep(0.05)

    def settle(self):
        """Waits until every node is known, and the primary acknowledges."""
        end = time.time() + 40
        while True:
            infos = [node.info() for node in self.nodes]
            leads = [info for info in infos if info.get("role") == "master"]
            follow = [info for info in infos if info.get("role") == "slave" and info.get("master_link_status") == "up"]
            is_known = all(int(self.knows(sentinel).get("num-slaves", 0)) >= len(self.nodes) - 1
                           and int(self.knows(sentinel).get("num-other-sentinels", 0)) == len(self.sentinels) - 1 for sentinel in self.sentinels)
            if len(leads) == 1 and len(follow) == len(self.nodes) - 1 and is_known and time.time() - self.writers.served < 0.5:
                return
            if time.time() > end:
                raise Failed(f"the nodes do not come together: {infos}")
            time.sleep(0.1)

    def knows(self, sentinel):
        words = [word.decode() for word in sentinel.ask("SENTINEL", "primary", "group") if isinstance(word, bytes)]
        return dict(zip(words[::2], words[1::2]))

    def restart(self, node, how, pause):
        was = "primary" if node.info().get("role") == "master" else "replica"
        node.end(how)
        time.sleep(pause)
        node.start()
        begun = time.time()
        allowed = DOWN_AFTER + MORE
        while not self.writers.served > begun + 0.2:
            if time.time() > begun + allowed + 30:
                raise Failed(f"{was} by {how}, back after {pause:.1f} s: nobody is served: {[node.info() for node in self.nodes]}")
            time.sleep(0.02)
        took = self.writers.served - begun
        if took > allowed:
            raise Failed(f"{was} by {how}, back after {pause:.1f} s: served after {took:.1f} s")
        self.check()
        return f"{was} by {how}, away for {pause:.1f} s: served {took:.1f} s after its start"

    def hand_over(self):
        """Makes a Sentinel replace the primary."""
        old, begun = self.writers.primary(), time.time()
        while (reply := self.sentinels[0].ask("SENTINEL", "FAILOVER", "group")) != b"+OK":
            # The Sentinel has not polled the replica since its link is up.
            if time.time() > begun + 12:
                raise Failed(f"SENTINEL FAILOVER: {reply}")
            time.sleep(0.1)
        begun = time.time()
        last, longest, new = begun, 0.0, None
        while new in (None, old) or not self.writers.served > switched:
            if time.time() > begun + DOWN_AFTER + MORE:
                raise Failed(f"SENTINEL FAILOVER: nobody is served: {[node.info() for node in self.nodes]}")
            if new in (None, old):
                new, switched = int(self.sentinels[0].ask("SENTINEL", "get-master-addr-by-name", "group")[1]), time.time()
            served = self.writers.served
            if served > last:
                last, longest = served, max(longest, served - last)
            time.sleep(0.005)
        self.check()
        return f"SENTINEL FAILOVER: nobody served for {max(longest, self.writers.served - last):.1f} s"

    def check(self):
        with self.writers.lock:
            told = list(self.writers.told)
        client = Client(self.writers.primary())
        for key, value in enumerate(told):
            found = client("GET", f"key:{key}")
            if isinstance(found, bytes) and found.isdigit() and int(found) < value:
                raise Failed(f"key:{key}: {value} was acknowledged, and {found} is there")

    def end(self):
        self.writers.ends = True
        for process in self.nodes + self.sentinels:
            process.process.kill()
            process.process.wait()


def roll(options, rng, nodes, saves, hows, pauses, peer=None):
    folder = tempfile.mkdtemp(prefix="rolling-")
    world = None
    try:
        world = World(options, folder, nodes, saves, peer)
        world.settle()
        # A peer confirms no role: as primary it may lack acknowledged writes.
        for _ in range(0 if peer else 1 if options.quick else 2):
            print(f"{nodes} nodes, save {saves}: {world.hand_over()}", flush=True)
            world.settle()
            world.check()
        for _ in range(options.rounds):
            for node in rng.sample(world.nodes, len(world.nodes)):
                said = world.restart(node, rng.choice(hows), rng.choice(pauses))
                print(f"{nodes} nodes, save {saves}{', one a peer' if peer else ''}: {said}", flush=True)
                world.settle()
                world.check()
    except Failed as failed:
        print(f"FAILED: {nodes} nodes, save {saves}: {failed} (logs: {folder})")
        sys.exit(1)
    finally:
        if world:
            world.end()
    shutil.rmtree(folder, ignore_errors=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--peers")
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--sentinels", type=int, default=3)
    arguments.add_argument("--quick", action="store_true", help="two nodes, each killed or shut down once")
    options = arguments.parse_args()
    options.server = os.path.abspath(options.server)
    rng = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    if options.quick:
        # Elections of many Sentinels are another test's, and take longer on a busy machine.
        options.sentinels = 1
        return roll(options, rng, 2, "points", ["kill", "shutdown"], [0.0])
    for nodes in (2, 3):
        for saves in SAVES:
            for how in ("shutdown", "kill"):
                roll(options, rng, nodes, saves, [how], [0.0, 0.5, DOWN_AFTER + 3.0])
    if options.peers:
        roll(options, rng, 3, "points", ["shutdown", "kill"], [0.0, 0.5], os.path.abspath(os.path.expanduser(options.peers)))


if __name__ == "__main__":
    main()
