#!/usr/bin/env python3
"""Scripts and functions: two servers side by side, server CPU per call; and what a long script keeps others waiting.

usage: scripts.py [--only WORD] [--rounds N] [--port PORT] BENCHMARK NAME=COMMAND NAME=COMMAND...
BENCHMARK is valkey-benchmark or cinnabar-benchmark; {port} in a COMMAND is replaced. Each server runs on processor 0 and
the load on processor 1. User and system time of the server by /proc counts, as a ratio to the first server's.
Then a script of 200,000 GETs: the processor time that it takes, and, with all processors, the round trips of clients of
every worker that want other keys meanwhile, while some want the script's own. In turn with them the same number of clients
ask a second server that has nothing else to do: what these wait is the machine's doing, not the script's.
"""
import os, socket, statistics, time
from families import Server, commands, encode, measure, options_of, show

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
# The idle server's port is so much further on.
IDLE = 100
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
    """Sends a GET over each connection, one after the other, for a key of its own."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for n, connection in enumerate(connections):
            began = time.perf_counter()
            connection.sendall(encode("GET", f"other:{n}"))
            connection.recv(200)
            waits[n].append((time.perf_counter() - began) * 1e3)


def clients(server):
    """Connections to all workers; the server may use all processors."""
    os.system(f"taskset -acp 0-{os.cpu_count() - 1} {server.process.pid} >/dev/null")
    connections = [server.connect() for _ in range(CLIENTS)]
    [connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) for connection in connections]
    return connections


def others(server):
    """Milliseconds of the round trips of clients of all workers and, in turn with them, of an idle server's, without and with a
    long script: the median client's 99th percentile and longest. A key may lie in the script's shard, so not all clients count."""
    idle = Server(server.command, server.port + IDLE)
    os.sched_setaffinity(0, range(os.cpu_count()))
    script, wanting = server.connect(), [server.connect() for _ in range(CLIENTS)]
    connections = [one for pair in zip(clients(server), clients(idle)) for one in pair]
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
        for of in waits[::2], waits[1::2]:
            figures.append((statistics.median(own[len(own) * 99 // 100] for own in of), statistics.median(own[-1] for own in of)))
    os.sched_setaffinity(0, {1})
    idle.stop()
    return figures


def main():
    options = options_of(__doc__)
    os.sched_setaffinity(0, {1})
    cases = [*commands(options, CASES), ("a script of 200,000 GETs", long_script), ("others", others)]
    took = measure(options, fill, cases)
    waited = took.pop("others", {})
    show(took)
    for name, rounds in waited.items():
        for rounded in rounds:
            quiet, quiet_idle, busy, busy_idle = (f"{p99:.2f} ({longest:.2f})" for p99, longest in rounded)
            print(f"{name}, ms for others, 99 of 100 (all): {quiet}, an idle server's {quiet_idle}; with a long script {busy}, an idle server's {busy_idle}")


if __name__ == "__main__":
    main()
