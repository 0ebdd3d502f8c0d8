"""Processes of clusters for the compat tests: nodes that can be killed and started again where they were, `valkey-cli --cluster`,
and a folder that is kept where a test has failed.
"""
import contextlib
import os
import subprocess
import tempfile
import time

from wire import AnyClient, Client, free_port

TIMEOUT_MS = 2000


class Node:
    """A process; it keeps its folder when it is started again."""

    def __init__(self, binary, folder, *options):
        self.binary, self.folder, self.options = binary, folder, options
        self.port, self.bus = self.ports()
        os.makedirs(folder)
        self.start()

    @staticmethod
    def ports():
        return free_port(), free_port()

    def words(self):
        return ["--port", self.port, "--cluster-enabled", "yes", "--cluster-port", self.bus, "--cluster-node-timeout", TIMEOUT_MS,
                "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", 0, "--dir", self.folder]

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen([self.binary, *map(str, [*self.words(), *self.options])], stdout=log, stderr=log)
        self.until("an answer", lambda node: node("PING") is not None)

    def client(self):
        return Client(self.port)

    def __call__(self, *words):
        return self.client()(*words)

    def until(self, what, condition, seconds=30):
        end = time.time() + seconds
        while time.time() < end:
            try:
                if condition(self):
                    return
            except (OSError, EOFError):
                pass
            time.sleep(0.1)
        raise SystemExit(f"{self.binary} {self.port}: {what} does not come about\n{self.folder}")

    @staticmethod
    def text(reply):
        return reply

    def id(self):
        return self.text(self("CLUSTER", "MYID")).decode()

    def role(self):
        return self.text(next(word for word in self("ROLE") if word != b"*"))

    def is_up(self):
        return b"cluster_state:ok" in self("CLUSTER", "INFO")

    def is_synced(self):
        return b"master_link_status:up" in self("INFO", "replication")

    def kill(self):
        self.process.kill()
        self.process.wait()


class AnyNode(Node):
    """A node whose replies have their types' signs."""

    def client(self):
        return AnyClient(self.port)

    @staticmethod
    def text(reply):
        return reply[1:]


class ClusterTool:
    """`valkey-cli --cluster`; `options` are those of its connections."""

    def __init__(self, peers, *options):
        self.words = [os.path.join(peers, "newest/bin/valkey-cli"), *options, "--cluster"]

    def __call__(self, *words, may_fail=False):
        done = subprocess.run([*self.words, *map(str, words)], capture_output=True, timeout=120)
        if done.returncode and not may_fail:
            raise SystemExit(f"--cluster {words[0]} failed:\n{done.stdout.decode()[-1500:]}{done.stderr.decode()}")
        return done.stdout

    def create(self, nodes, replicas=1):
        self("create", *(f"127.0.0.1:{node.port}" for node in nodes), "--cluster-replicas", replicas, "--cluster-yes")

    def reshard(self, source, target, slots):
        """Returns how often the move was resumed. If a node is slow or believes for a moment that the cluster is down, on a busy
        machine say, the tool stops and leaves a slot open, which its `fix` repairs."""
        again, at = 0, f"127.0.0.1:{source.port}"
        words = ["--cluster-from", source.id(), "--cluster-to", target.id(), "--cluster-slots", slots, "--cluster-yes"]
        said = self("reshard", at, *words, may_fail=True)
        while any(b"[" in node("CLUSTER", "NODES") for node in (source, target)):
            print("a move of slots stopped:", said.decode()[-200:].strip())
            again += 1
            if again == 10:
                raise SystemExit("a slot stays open")
            said = self("fix", at, "--cluster-yes", may_fail=True)
        return again


@contextlib.contextmanager
def scratch_folder(name):
    """A folder that is removed at the end; after a failure a copy of it stays under this name."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield folder
        except BaseException:
            subprocess.run(["cp", "-r", folder, os.path.join(tempfile.gettempdir(), name)], check=False)
            raise
