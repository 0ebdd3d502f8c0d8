#!/usr/bin/env python3
"""Transactions and messages: two servers side by side, server CPU per transaction and per delivered message.

usage: sessions.py [--only WORD] [--rounds N] [--port PORT] NAME=COMMAND NAME=COMMAND...
{port} in a COMMAND is replaced. Each server runs on processor 0 and the load on processor 1. User and system time of
the server by /proc counts, as a ratio to the first server's. Then, for each server that has several workers, how
their processor time is shared while messages go out; for that the server may use both processors.
"""
import argparse, os, selectors, statistics
from families import PIPELINE, TICK, Server, encode

CONNECTIONS = 50
TRANSACTIONS = 100_000
SUBSCRIBERS = 100
MESSAGES = 8_000
KEYS = 100_000
VALUE = b"v" * 64


def exchange(connections, requests, answer_bytes):
    """Sends each connection's requests one after the other, the next when so many bytes have come back."""
    selector = selectors.DefaultSelector()
    for connection in connections:
        connection.setblocking(True)
        selector.register(connection, selectors.EVENT_READ, [answer_bytes])
    left = {connection: iter(own) for connection, own in zip(connections, requests)}
    waiting = 0
    for connection in connections:
        if request := next(left[connection], None):
            connection.sendall(request)
            waiting += 1
    while waiting:
        for key, _ in selector.select():
            key.data[0] -= len(key.fileobj.recv(1 << 18))
            if key.data[0] == 0:
                key.data[0] = answer_bytes
                if request := next(left[key.fileobj], None):
                    key.fileobj.sendall(request)
                else:
                    waiting -= 1
    selector.close()


def transactions(server):
    """MULTI, five SET, EXEC: sixteen transactions a pipeline, keys all over."""
    connections = [server.connect() for _ in range(CONNECTIONS)]
    key = iter(range(0, 1 << 60, 7919))
    group = lambda: (encode("MULTI") + b"".join(encode("SET", f"key:{next(key) % KEYS:012}", VALUE) for _ in range(5))
                     + encode("EXEC"))
    batches = [b"".join(group() for _ in range(PIPELINE)) for _ in range(500)]
    rounds = TRANSACTIONS // PIPELINE // CONNECTIONS
    requests = [[batches[(at * 37 + n) % len(batches)] for n in range(rounds)] for at in range(CONNECTIONS)]
    answer = b"+OK\r\n" + b"+QUEUED\r\n" * 5 + b"*5\r\n" + b"+OK\r\n" * 5
    exchange(connections, [own[:2] for own in requests], len(answer) * PIPELINE)
    before = server.cpu()
    exchange(connections, requests, len(answer) * PIPELINE)
    took = server.cpu() - before
    close(connections)
    return took / (rounds * CONNECTIONS * PIPELINE) * 1e6


def subscribe(server):
    listeners = [server.connect() for _ in range(SUBSCRIBERS)]
    for listener in listeners:
        listener.sendall(encode("SUBSCRIBE", "news"))
        while not listener.recv(1 << 16).endswith(b":1\r\n"):
            pass
    return listeners


def deliver(server, listeners, messages):
    """One client publishes, sixteen messages a pipeline; every subscriber has read them before the next sixteen."""
    publisher = server.connect()
    batch = encode("PUBLISH", "news", VALUE) * PIPELINE
    message = len(b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$64\r\n") + len(VALUE) + 2
    selector = selectors.DefaultSelector()
    for listener in listeners:
        selector.register(listener, selectors.EVENT_READ, [0])
    for _ in range(messages // PIPELINE):
        publisher.sendall(batch)
        left = SUBSCRIBERS * PIPELINE * message + len(b":%d\r\n" % SUBSCRIBERS) * PIPELINE
        selector.register(publisher, selectors.EVENT_READ)
        while left:
            for key, _ in selector.select():
                left -= len(key.fileobj.recv(1 << 16))
        selector.unregister(publisher)
    publisher.close()


def messages(server):
    listeners = subscribe(server)
    deliver(server, listeners, MESSAGES // 10)
    before = server.cpu()
    deliver(server, listeners, MESSAGES)
    took = server.cpu() - before
    close(listeners)
    return took / (MESSAGES // PIPELINE * PIPELINE * SUBSCRIBERS) * 1e6


def close(connections):
    for connection in connections:
        connection.close()


def by_thread(pid):
    """{thread: processor seconds}"""
    took = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        name, fields = open(f"/proc/{pid}/task/{thread}/stat").read().split("(", 1)[1].rsplit(")", 1)
        took[f"{name} {thread}"] = sum(map(int, fields.split()[11:13])) / TICK
    return took


def shares(server):
    os.system(f"taskset -acp 0,1 {server.process.pid} >/dev/null")
    listeners = subscribe(server)
    before = by_thread(server.process.pid)
    deliver(server, listeners, MESSAGES)
    after = by_thread(server.process.pid)
    close(listeners)
    took = sorted((round(after[name] - before.get(name, 0), 2), name.split()[0]) for name in after)
    return [f"{name} {seconds} s" for seconds, name in reversed(took) if seconds > 0]


CASES = [("MULTI, 5 SET, EXEC", transactions), ("PUBLISH to 100, each delivery", messages)]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=26000)
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    servers = [spec.split("=", 1) for spec in options.servers]
    took, shared = {}, {}
    for round in range(options.rounds):
        for at, (name, command) in enumerate(servers):
            server = Server(command, options.port + round * len(servers) + at)
            try:
                for case, run in CASES:
                    if options.only in case:
                        took.setdefault(case, {}).setdefault(name, []).append(run(server))
                if "--threads" in command and "--threads 1" not in command:
                    shared[name] = shares(server)
            finally:
                server.stop()
    names = [name for name, _ in servers]
    print("| us of server CPU | " + " | ".join(names) + " | ratio |\n|---|" + "---:|" * (len(names) + 1))
    for case, of in took.items():
        medians = [statistics.median(of[name]) for name in names]
        print(f"| {case} | " + " | ".join(f"{us:.2f}" for us in medians) + f" | {medians[-1] / medians[0]:.2f} |")
    for name, threads in shared.items():
        print(f"{name}, threads while messages go out: " + ", ".join(threads))


if __name__ == "__main__":
    main()
