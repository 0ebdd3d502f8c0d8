"""Counters written to a cluster by client libraries: redis-py's cluster client, and ioredis'.

Each is a thread with the fields of `cluster_mixed`'s own writer: `told` (the last reply that the library's caller got for each
key), `count`, `errors` (replies that should not occur) and `ended`. Commands that fail while nodes are killed or cut off are
retried later, as a program would.
"""
import os
import random
import subprocess
import threading
import time

KEYS = 300

# Prints `key value` for each increment that was acknowledged, `! text` for each reply that a cluster must not give.
IOREDIS = """
const { Cluster } = require('ioredis');
const cluster = new Cluster(process.argv[1].split(',').map((port) => ({ host: '127.0.0.1', port: Number(port) })),
  { redisOptions: { commandTimeout: 2000 }, clusterRetryStrategy: () => 100 });
cluster.on('error', () => {});
process.stdin.on('end', () => process.exit(0)).resume();
const transient = /MOVED|ASK|TRYAGAIN|CLUSTERDOWN|LOADING|READONLY|MASTERDOWN|UNBLOCKED|timed out|closed|Failed to refresh|Too many|ECONN/;
(async () => {
  for (;;) {
    const key = 'i' + Math.floor(Math.random() * Number(process.argv[2]));
    try {
      console.log(key + ' ' + await cluster.incr(key));
    } catch (error) {
      if (!transient.test(String(error))) console.log('! ' + error);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
})();
"""


class LibraryWriter(threading.Thread):
    def __init__(self, ports, seed):
        super().__init__(daemon=True)
        self.ports, self.random = ports, random.Random(seed)
        self.told, self.errors, self.ended, self.count = {}, [], False, 0

    def note(self, key, value):
        self.told[key] = max(self.told.get(key, 0), value)
        self.count += 1


class RedisPy(LibraryWriter):
    name = "redis-py"

    def run(self):
        from redis.cluster import ClusterNode, RedisCluster
        from redis.exceptions import (BusyLoadingError, ClusterDownError, ClusterError, ConnectionError, MasterDownError,
                                      RedisClusterException, ResponseError, TimeoutError, TryAgainError)
        transient = (BusyLoadingError, ClusterDownError, ClusterError, ConnectionError, MasterDownError, RedisClusterException,
                     TimeoutError, TryAgainError, OSError)
        client = None
        while not self.ended:
            key = f"p{self.random.randrange(KEYS)}"
            try:
                client = client or RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port) for port in self.ports],
                                                socket_timeout=2)
                self.note(key, int(client.incr(key)))
            except transient:
                time.sleep(0.05)
            except ResponseError as error:
                self.errors.append(str(error))


class IoRedis(LibraryWriter):
    """Runs in a process of its own, in a folder that has the library."""

    name = "ioredis"

    def run(self):
        words = ["node", "-e", IOREDIS, ",".join(map(str, self.ports)), str(KEYS)]
        process = subprocess.Popen(words, cwd=os.environ["IOREDIS_DIR"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if self.ended:
                break
            key, value = line.rstrip().split(" ", 1)
            if key == "!":
                self.errors.append(value)
            else:
                self.note(key, int(value))
        process.kill()
        process.wait()


LIBRARIES = {writer.name: writer for writer in (RedisPy, IoRedis)}
