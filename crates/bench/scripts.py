#!/usr/bin/env python3
"""Scripts and functions: two servers side by side, server CPU per call; and what a long script keeps others waiting.

usage: scripts.py [--only WORD] [--rounds N] [--port PORT] BENCHMARK NAME=COMMAND NAME=COMMAND...
BENCHMARK is valkey-benchmark or cinnabar-benchmark; {port} in a COMMAND is replaced. Each server runs on processor 0 and
the load on processor 1. What counts is user and system time of the server by /proc, as a ratio to the first server's.
Then a script of 200,000 GETs: the processor time that it takes, and, with all processors, the round trips of clients of
every worker that want other keys meanwhile, while some want the script's own.
"""
import os, socket, statistics, time
from families import commands, encode, measure, options_of, show

GET = "return redis.call('GET', KEYS[1])"
SET = "return redis.call('SET', KEYS[1], ARGV[1])"
MANY = "for i = 1, 200000 do redis.call('GET', KEYS[1]) end return 1"
LIBRARY = """#!lua name=lib
redis.register_function('get', function(keys, args) return redis.call('GET', keys[1]) end)
redis.register_function('set', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
"""
KEY, VALUE = "key:__rand_int__", "v" * 64
CALLS = 600_000
# Name, how many, the command.
CASES = [
    ("EVAL of a GET", CALLS, ["EVAL", GET, "1", KEY]),
    ("EVAL of a SET", CALLS, ["EVAL", SET, "1", KEY, VALUE]),
    ("FCALL of a GET", CALLS, ["FCALL", "get", "1", KEY]),
    ("FCALL of a SET", CALLS, ["FCALL", "set", "1", KEY, VALUE]),
]
CLIENTS = 8
ROUNDS = 20


def fill(server):
    server.load(encode("SET", f"key:{n:012}", VALUE) for n in range(0, 1_000_000, 10))
    with server.connect() as connection:
        connection.sendall(encode("FUNCTION", "LOAD", "REPLACE", LIBRARY))
        connection.recv(100)


def run_long(connection):
    connection.sendall(encode("EVAL", MANY, "1", "own"))
    if connection.recv(100) != b":1\r\n":
        raise SystemExit("the script failed")


def long_script(server):
    with server.connect() as connection:
        run_long(connection)
        before = server.cpu()
        for _ in range(ROUNDS):
            run_long(connection)
        return (server.cpu() - before) / ROUNDS * 1e6


def probe(connections, seconds, waits):
    """Each asks for a key of its own, one after the other."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for n, connection in enumerate(connections):
            began = time.perf_counter()
            connection.sendall(encode("GET", f"other:{n}"))
            connection.recv(200)
            waits[n].append((time.perf_counter() - began) * 1e3)


def others(server):
    """Milliseconds of the round trips of clients of all workers, without and with a long script: the median client's 99th
    percentile and longest. A key may lie in the script's shard, so not all clients count."""
    os.system(f"taskset -acp 0-{os.cpu_count() - 1} {server.process.pid} >/dev/null")
    os.sched_setaffinity(0, range(os.cpu_count()))
    script, wanting = server.connect(), [server.connect() for _ in range(CLIENTS)]
    connections = [server.connect() for _ in range(CLIENTS)]
    [connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) for connection in connections]
    figures = []
    for with_script in False, True:
        waits = [[] for _ in connections]
        for _ in range(ROUNDS):
            if with_script:
                script.sendall(encode("EVAL", MANY, "1", "own") * 5)
                [connection.sendall(encode("GET", "own")) for connection in wanting]
            probe(connections, 0.1, waits)
            if with_script:
                received = b""
                while len(received) < len(b":1\r\n") * 5:
                    received += script.recv(100)
                [connection.recv(100) for connection in wanting]
        waits = [sorted(own) for own in waits]
        figures += [statistics.median(own[len(own) * 99 // 100] for own in waits), statistics.median(own[-1] for own in waits)]
    os.sched_setaffinity(0, {1})
    return figures


def main():
    options = options_of(__doc__)
    os.sched_setaffinity(0, {1})
    cases = [*commands(options, CASES), ("a script of 200,000 GETs", long_script), ("others", others)]
    took = measure(options, fill, cases)
    waited = took.pop("others", {})
    show(took)
    for name, rounds in waited.items():
        for quiet, quiet_max, busy, busy_max in rounds:
            print(f"{name}, ms for others, 99 of 100 (all): {quiet:.2f} ({quiet_max:.2f}), with a long script {busy:.2f} ({busy_max:.2f})")


if __name__ == "__main__":
    main()
