#!/usr/bin/env python3
"""acknowledged - what clients were told of with acknowledgement by replicas is there after any failover.

    acknowledged.py --server target/release/cinnabar-server [--rounds 100] [--seed 1] [--durable]

Three servers follow each other through a proxy. In each round one of them is killed, stopped or cut off while clients write and
read at all of them; when it was the primary, the member of the in-sync set with the largest offset that is reached takes over. Then
the other one comes back, as what it was. In other rounds the primary hands its role over by FAILOVER, and at times it or the one
that is to lead is hit meanwhile. A client that was told of a value must never read an older one, wherever it is answered.
"""
import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from wire import Client, free_port

PATIENCE = 30
LEASE, TIMEOUT = 300, 600
KEYS = 6


class Failed(Exception):
    pass


class Proxy:
    """A connection from a replica to its primary. While cut, it carries no data and reports no error."""

    def __init__(self, target):
        self.target, self.is_cut, self.pairs = target, threading.Event(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            ours, _ = self.listener.accept()
            try:
                theirs = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                theirs.settimeout(None)
            except OSError:
                ours.close()
                continue
            self.pairs.append((ours, theirs))
            for source, to in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self.carry, args=(source, to), daemon=True).start()

    def carry(self, source, to):
        try:
            while data := source.recv(1 << 16):
                if self.is_cut.is_set():
                    # Bytes under way are lost, and so is the connection, as both ends will find out.
                    return
                to.sendall(self.altered(source, data))
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def altered(self, _, data):
        """Returns the part of the received data that is passed on; an OSError ends the connection."""
        return data

    def cut(self):
        self.is_cut.set()

    def heal(self):
        if not self.is_cut.is_set():
            return
        pairs, self.pairs = self.pairs, []
        for end in (end for pair in pairs for end in pair):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.is_cut.clear()


class Server:
    def __init__(self, binary, folder, options):
        self.binary, self.options, self.port = binary, options, free_port()
        self.folder = os.path.join(folder, str(self.port))
        self.is_stopped = False
        self.start()

    def start(self):
        # The server starts again without data: its memory is lost.
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)
        command = [self.binary, "--port", str(self.port), "--dir", self.folder, "--save", "", "--repl-diskless-sync-delay", "0",
                   "--repl-timeout", "3", "--repl-ping-replica-period", "1", "--min-replicas-to-acknowledge", "1",
                   "--acknowledge-lease", str(LEASE), "--acknowledge-timeout", str(TIMEOUT), *self.options]
        with open(f"{self.folder}.log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(400):
            try:
                return Client(self.port)("PING")
            except OSError:
                time.sleep(0.02)
        raise Failed("the server does not start")

    def ask(self, *words):
        return Client(self.port)(*words)

    def info(self):
        lines = self.ask("INFO", "replication").decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.is_stopped = True
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.is_stopped = False
        self.process.send_signal(signal.SIGCONT)


class Clients:
    """Clients that write and read at any server, and record the replies."""

    def __init__(self, servers, seed, words):
        self.servers, self.words, self.problem, self.ends = servers, words, None, False
        self.lock = threading.Lock()
        self.told, self.tried, self.answers = [0] * KEYS, [0] * KEYS, [0] * len(servers)
        self.threads = [threading.Thread(target=self.run, args=(key, random.Random(f"{seed} {key}")), daemon=True) for key in range(KEYS)]
        self.threads += [threading.Thread(target=self.watch, args=(random.Random(f"{seed} r{n}"),), daemon=True) for n in range(3)]
        for thread in self.threads:
            thread.start()

    def connect(self, number):
        client = Client(self.servers[number].port)
        client.socket.settimeout(2)
        if self.words:
            client(*self.words)
        return client

    def each(self, rng, act):
        """Runs an action at one server as long as that answers, and then at another one."""
        while not self.ends:
            number = rng.randrange(len(self.servers))
            try:
                client = self.connect(number)
                while not self.ends and act(client, number):
                    pass
            except (OSError, EOFError):
                pass
            time.sleep(0.005)

    def run(self, key, rng):
        def write(client, number):
            self.tried[key] += 1
            value = self.tried[key]
            reply = client("SET", f"key:{key}", value)
            if reply == b"+OK":
                with self.lock:
                    self.told[key] = value
                    self.answers[number] += 1
            return reply == b"+OK"

        self.each(rng, write)

    def watch(self, rng):
        seen = [0] * KEYS

        def read(client, number):
            key = rng.randrange(KEYS)
            with self.lock:
                least = max(self.told[key], seen[key])
            # A replica's reply waits for nothing: the role that it reports is of the same moment.
            replies = [client(*words) for words in (["MULTI"], ["GET", f"key:{key}"], ["ROLE"], ["EXEC"])]
            if not isinstance(replies[3], list) or replies[3][1][0] != b"master":
                return False
            reply = replies[3][0]
            value = int(reply or 0)
            if value < least:
                self.problem = f"key:{key} was {least} and is {value} at {self.servers[number].port}"
            seen[key] = max(seen[key], value)
            time.sleep(0.001)
            return True

        self.each(rng, read)

    def end(self):
        self.ends = True
        for thread in self.threads:
            thread.join(PATIENCE)


class World:
    def __init__(self, binary, folder, seed, durable):
        self.rng = random.Random(seed)
        options = ["--appendonly", "yes", "--appendfsync", "always"] if durable else []
        self.servers = [Server(binary, folder, options) for _ in range(3)]
        numbers = range(len(self.servers))
        self.ways = {(one, other): Proxy(self.servers[other].port) for one in numbers for other in numbers if one != other}
        self.primary = 0
        self.handed_over = 0
        self.away = set()
        for number in (1, 2):
            self.follow(number)
        self.clients = None
        self.settle()

    def follow(self, number):
        self.servers[number].ask("REPLICAOF", "127.0.0.1", self.ways[number, self.primary].port)

    def cut(self, number):
        for pair, way in self.ways.items():
            if number in pair:
                way.cut()

    def settle(self):
        """Waits until the primary acknowledges, and both others are members."""
        end = time.time() + PATIENCE
        while True:
            known = self.servers[self.primary].info()
            if known.get("in_sync_state") == "open" and known.get("in_sync_members", "").count(",") == 1:
                mine = self.servers[self.primary].ask("SET", "settled", 1)
                if mine == b"+OK":
                    return
            if time.time() > end:
                raise Failed(f"the servers do not come together: {[server.info() for server in self.servers]}")
            time.sleep(0.05)

    def promote(self):
        """Promotes the reachable member with the most data, as Sentinels choose."""
        end = time.time() + PATIENCE
        while True:
            known = {number: server.info() for number, server in enumerate(self.servers) if number not in self.away}
            members = [number for number, info in known.items() if info["role"] == "slave" and info["slave_priority"] != "0"]
            if members:
                break
            if time.time() > end:
                raise Failed(f"there is nobody to be promoted: {known}")
            time.sleep(0.05)
        best = max(members, key=lambda number: int(known[number]["slave_repl_offset"]))
        self.primary = best
        self.servers[best].ask("REPLICAOF", "NO", "ONE")
        for number in known:
            if number != best:
                self.follow(number)

    def round(self):
        if self.rng.random() < 0.3:
            self.hand_over()
        else:
            self.fail()

    def hand_over(self):
        """Runs FAILOVER, not over the proxies. Then asks which server leads: one that was stopped may have kept its role."""
        old, target = self.primary, self.rng.choice([number for number in range(3) if number != self.primary])
        reply = self.servers[old].ask("FAILOVER", "TO", "127.0.0.1", self.servers[target].port, "TIMEOUT", 500)
        if reply != b"+OK":
            raise Failed(f"FAILOVER is answered {reply}")
        stops = self.rng.choice([None, None, old, target])
        if stops is not None:
            time.sleep(self.rng.uniform(0.0, 0.01))
            self.servers[stops].pause()
            time.sleep(self.rng.uniform(0.1, 1.0))
            self.servers[stops].resume()
        end = time.time() + PATIENCE
        while self.servers[old].info()["master_failover_state"] != "no-failover":
            if time.time() > end:
                raise Failed("the failover does not end")
            time.sleep(0.01)
        leads = [number for number, server in enumerate(self.servers) if server.info()["role"] == "master"]
        if len(leads) != 1 or stops is None and leads != [target]:
            raise Failed(f"{old} was to hand over to {target}, and these lead: {leads}")
        self.handed_over += leads == [target]
        self.primary = leads[0]
        for number in range(3):
            if number != self.primary:
                self.follow(number)
        self.settle()

    def fail(self):
        hit = self.rng.choice([self.primary, self.primary, self.rng.randrange(3)])
        how = self.rng.choice(["kill", "stop", "cut"])
        time.sleep(self.rng.uniform(0.05, 0.3))
        server = self.servers[hit]
        {"kill": server.kill, "stop": server.pause, "cut": lambda: self.cut(hit)}[how]()
        self.away = {hit}
        time.sleep(self.rng.uniform(0.0, 0.4))
        if hit == self.primary:
            self.promote()
        time.sleep(self.rng.uniform(0.1, 0.8))
        # The server starts again in its old role: an old primary leads until an order makes it follow.
        {"kill": server.start, "stop": server.resume, "cut": lambda: None}[how]()
        if how == "cut" or self.rng.random() < 0.5:
            time.sleep(self.rng.uniform(0.0, 0.4))
        for way in self.ways.values():
            way.heal()
        self.away = set()
        if hit != self.primary:
            self.follow(hit)
        self.settle()

    def check(self):
        """Checks that all acknowledged writes are there."""
        client = Client(self.servers[self.primary].port)
        for key in range(KEYS):
            with self.clients.lock:
                least = self.clients.told[key]
            value = int(client("GET", f"key:{key}") or 0)
            if value < least:
                raise Failed(f"key:{key}: {least} was acknowledged, and {value} is there")
        if self.clients.problem:
            raise Failed(self.clients.problem)

    def end(self):
        for server in self.servers:
            server.resume()
            server.kill()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--rounds", type=int, default=8)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--durable", action="store_true", help="replicas have it on their disks")
    options = arguments.parse_args()
    folder = tempfile.mkdtemp(prefix="acknowledged-")
    world, clients = World(os.path.abspath(options.server), folder, options.seed, options.durable), None
    try:
        words = ["CLIENT", "ACKNOWLEDGE", "1", "DURABLE"] if options.durable else None
        clients = world.clients = Clients(world.servers, options.seed, words)
        for number in range(options.rounds):
            before = sum(clients.answers)
            world.round()
            world.check()
            if number % 10 == 9 or number + 1 == options.rounds:
                print(f"round {number + 1}: {sum(clients.answers)} writes acknowledged, {sum(clients.answers) - before} in this one", flush=True)
        if not sum(clients.answers):
            raise Failed("nothing was acknowledged")
    except Failed as failed:
        print(f"FAILED: {failed} (logs: {folder})")
        sys.exit(1)
    finally:
        if clients:
            clients.end()
        world.end()
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{options.rounds} rounds, {world.handed_over} times FAILOVER, {sum(clients.answers)} writes acknowledged, none missing")


if __name__ == "__main__":
    main()
