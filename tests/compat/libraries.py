"""Libraries that lean on scripts, blocking commands, messages and tracking, against a running server: redis-py's Lock,
its pub/sub, asyncio and client-side cache, and the job queue rq.

    libraries.py 127.0.0.1:6379

The server is flushed. The first thing that goes wrong ends the program.
"""
import argparse
import asyncio
import os
import threading
import time

import redis
import redis.asyncio
import rq
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection
from redis.exceptions import LockError, LockNotOwnedError


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="HOST:PORT of the server")
    host, port = parser.parse_args().address.rsplit(":", 1)
    passed = 0
    for protocol in (2, 3):
        for check in CHECKS:
            connect = lambda **options: redis.Redis(**{"host": host, "port": int(port), "protocol": protocol,
                                                       "socket_timeout": 20, **options})
            connect().flushall()
            check(connect)
            passed += 1
    print("libraries.py: %d checks passed" % passed)


def equal(found, expected):
    if found != expected:
        raise AssertionError("expected %r, found %r" % (expected, found))


def fails(error, call, *args):
    try:
        found = call(*args)
    except error:
        return
    raise AssertionError("expected %s, found %r" % (error.__name__, found))


def eventually(condition, seconds=10):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("still not so after %d s: %s" % (seconds, condition))
        time.sleep(0.005)


def str_of(mapping, name):
    value = mapping[name] if name in mapping else mapping[name.encode()]
    return value if isinstance(value, str) else value.decode()


def in_threads(count, work):
    """Runs work(0) ... work(count - 1) at once; the first exception is raised here."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except Exception as error:  # whatever it is, it is raised below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# ---- Lock ------------------------------------------------------------------------------------------------------------


def lock_alone(connect):
    client = connect()
    lock = client.lock("lock", timeout=10)
    equal(lock.acquire(blocking=False), True)
    equal((lock.locked(), lock.owned()), (True, True))
    other = connect().lock("lock", timeout=10)
    equal(other.acquire(blocking=False), False)
    fails(LockError, other.release)
    lock.release()
    equal((lock.locked(), client.exists("lock")), (False, 0))
    fails(LockError, lock.release)


def lock_extend(connect):
    client = connect()
    lock = client.lock("lock", timeout=10)
    lock.acquire()
    equal(lock.extend(10), True)
    equal(client.pttl("lock") in range(15000, 20001), True)
    equal(lock.extend(10, replace_ttl=True), True)
    equal(client.pttl("lock") in range(5000, 10001), True)
    client.pexpire("lock", 500)
    equal(lock.reacquire(), True)
    equal(client.pttl("lock") in range(5000, 10001), True)
    client.set("lock", "another's")
    fails(LockNotOwnedError, lock.extend, 10)
    fails(LockNotOwnedError, lock.reacquire)
    fails(LockNotOwnedError, lock.release)
    equal(client.get("lock"), b"another's")


def lock_timeouts(connect):
    holder = connect().lock("lock", timeout=0.15)
    holder.acquire()
    waiting = connect().lock("lock", timeout=10, sleep=0.01)
    # No client releases it: the waiting client gets it because it expires, and the holder learns that it lost it.
    equal(waiting.acquire(blocking_timeout=10), True)
    fails(LockNotOwnedError, holder.release)
    started = time.monotonic()
    equal(connect().lock("lock", sleep=0.01).acquire(blocking_timeout=0.1), False)
    equal(time.monotonic() - started >= 0.05, True)
    waiting.release()


def lock_contention(connect):
    """A client that adds one by reading and writing needs the lock."""
    client = connect()
    client.set("n", 0)

    def work(_):
        own = connect()
        for _ in range(25):
            with own.lock("lock", timeout=30, sleep=0.001):
                own.set("n", int(own.get("n")) + 1)

    in_threads(8, work)
    equal(client.get("n"), b"200")
    equal(client.exists("lock"), 0)


# ---- pub/sub ---------------------------------------------------------------------------------------------------------


def messages(connect):
    client = connect()
    listener = client.pubsub()
    heard = []
    listener.subscribe("plain", **{"handled": heard.append})
    listener.psubscribe("p*")
    equal([(it["type"], it["data"]) for it in (listener.get_message(timeout=5) for _ in range(3))],
          [("subscribe", 1), ("subscribe", 2), ("psubscribe", 3)])
    equal(client.publish("plain", "one"), 2)
    equal(client.publish("handled", bytes(range(256))), 1)
    got = [listener.get_message(timeout=5) for _ in range(3)]
    equal([it and (it["type"], it["pattern"], it["channel"], it["data"]) for it in got],
          [("message", None, b"plain", b"one"), ("pmessage", b"p*", b"plain", b"one"), None])
    equal([it["data"] for it in heard], [bytes(range(256))])
    equal(client.pubsub_numsub("plain", "nothing"), [(b"plain", 1), (b"nothing", 0)])
    equal(client.pubsub_numpat(), 1)
    equal(sorted(client.pubsub_channels()), [b"handled", b"plain"])
    listener.ping()
    equal(listener.get_message(timeout=5)["type"], "pong")
    listener.unsubscribe("plain", "handled")
    listener.punsubscribe()
    equal([it["data"] for it in (listener.get_message(timeout=5) for _ in range(3))], [2, 1, 0])
    equal(client.publish("plain", "nobody"), 0)
    listener.close()


def shard_messages(connect):
    client = connect()
    listener = client.pubsub()
    listener.ssubscribe("s")
    equal(listener.get_message(timeout=5)["type"], "ssubscribe")
    equal((client.spublish("s", "x"), client.publish("s", "y")), (1, 0))
    message = listener.get_message(timeout=5)
    equal((message["type"], message["data"]), ("smessage", b"x"))
    listener.close()


def messages_in_threads(connect):
    """Each of several listeners gets every message of several publishers, those of one publisher in order."""
    publishers, count = 4, 100
    heard = [[] for _ in range(4)]
    listeners = [connect().pubsub() for _ in heard]
    for listener, got in zip(listeners, heard):
        listener.subscribe(news=lambda message, got=got: got.append(message["data"]))
    eventually(lambda: connect().pubsub_numsub("news") == [(b"news", len(heard))])
    threads = [listener.run_in_thread(sleep_time=0.01) for listener in listeners]

    def work(publisher):
        own = connect()
        for number in range(count):
            own.publish("news", "%d:%d" % (publisher, number))

    in_threads(publishers, work)
    eventually(lambda: all(len(got) == publishers * count for got in heard))
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join()
    for got in heard:
        for publisher in range(publishers):
            prefix = b"%d:" % publisher
            equal([it for it in got if it.startswith(prefix)], [prefix + b"%d" % number for number in range(count)])


# ---- asyncio ---------------------------------------------------------------------------------------------------------


def asynchronous(connect):
    """redis-py's other half: tasks at once on one pool, pipelines, a lock, messages, and health checks between them."""
    options = connect().connection_pool.connection_kwargs
    options = {name: options[name] for name in ("host", "port", "protocol")}

    async def work():
        client = redis.asyncio.Redis(health_check_interval=1, **options)
        await asyncio.gather(*(client.incr("n") for _ in range(50)))
        equal(await client.get("n"), b"50")
        async with client.pipeline(transaction=True) as pipeline:
            equal(await pipeline.set("k", "1").incr("k").execute(), [True, 2])
        async with client.lock("lock", timeout=10):
            equal(await client.exists("lock"), 1)
        equal(await client.blpop(["nothing"], timeout=0.05), None)
        listener = client.pubsub()
        await listener.subscribe("news")
        equal((await listener.get_message(timeout=5))["type"], "subscribe")
        await asyncio.sleep(1.1)
        await client.publish("news", "x")
        # The answer to the health check precedes it.
        heard = [await listener.get_message(timeout=0.5) for _ in range(3)]
        equal([it["data"] for it in heard if it and it["type"] == "message"], [b"x"])
        await listener.aclose()
        await client.aclose()

    asyncio.run(work())


# ---- client-side cache -----------------------------------------------------------------------------------------------


def client_cache(connect):
    if connect().connection_pool.connection_kwargs["protocol"] == 2:
        return  # the library's cache speaks RESP3 only
    # The library takes no server but Redis 7.4 and later, by name: Valkey would be refused as well.
    hello = connect().execute_command("HELLO", 3)
    CacheProxyConnection.DEFAULT_SERVER_NAME = str_of(hello, "server")
    CacheProxyConnection.MIN_ALLOWED_VERSION = str_of(hello, "version")
    reader, writer = connect(cache_config=CacheConfig(max_size=100)), connect()

    def reads_of_server():
        return writer.info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]

    def read(key, expected, asks):
        """Checks the value that is read, and whether the server was asked for it."""
        # The reader's invalidation may arrive after the writer's reply: another worker sends it.
        time.sleep(0.05)
        before = reads_of_server()
        equal(reader.get(key), expected)
        equal((key, reads_of_server() - before), (key, asks))

    writer.mset({"a": "1", "b": "1"})
    read("a", b"1", 1)
    read("b", b"1", 1)
    read("a", b"1", 0)
    writer.set("a", "2")
    read("b", b"1", 0)
    read("a", b"2", 1)
    read("a", b"2", 0)
    for forget in (lambda: writer.delete("a"), writer.flushall, writer.flushdb):
        writer.set("a", "again")
        read("a", b"again", 1)
        read("a", b"again", 0)
        forget()
        read("a", None, 1)
    # A key that expires is forgotten as well; no client reads it meanwhile.
    writer.set("a", "short", px=1000)
    read("a", b"short", 1)
    time.sleep(1.3)
    read("a", None, 1)
    reader.close()


# ---- rq --------------------------------------------------------------------------------------------------------------

CALLS = "calls"


def square(number):
    return number * number


def note(address, name):
    """Leaves its name behind."""
    connection_to(address).rpush(CALLS, name)


def fail_until(address, times):
    """Fails so many times, then succeeds."""
    client = connection_to(address)
    if client.incr("tries") <= times:
        raise ValueError("not yet")
    return "at last"


def connection_to(address):
    return redis.Redis(host=address[0], port=address[1], socket_timeout=20)


def address_of(client):
    kwargs = client.connection_pool.connection_kwargs
    return kwargs["host"], kwargs["port"]


def work_off(client, *queues, **options):
    worker = rq.Worker(list(queues), connection=client)
    equal(worker.work(burst=True, logging_level="CRITICAL", **options), True)


def queue_of_jobs(connect):
    client = connect()
    queue = rq.Queue("smoke", connection=client)
    jobs = [queue.enqueue("libraries.square", number) for number in range(5)]
    equal((queue.count, jobs[0].get_status()), (5, "queued"))
    work_off(client, queue)
    equal([job.return_value(refresh=True) for job in jobs], [0, 1, 4, 9, 16])
    equal((queue.count, jobs[0].get_status(refresh=True)), (0, "finished"))
    equal(len(queue.finished_job_registry), 5)


def jobs_that_depend(connect):
    client = connect()
    address = address_of(client)
    low, high = rq.Queue("low", connection=client), rq.Queue("high", connection=client)
    first = low.enqueue("libraries.note", address, "first")
    low.enqueue("libraries.note", address, "third", depends_on=low.enqueue("libraries.note", address, "second", depends_on=first))
    high.enqueue("libraries.note", address, "before all")
    work_off(client, high, low)
    equal(client.lrange(CALLS, 0, -1), [b"before all", b"first", b"second", b"third"])


def jobs_that_fail(connect):
    client = connect()
    address = address_of(client)
    queue = rq.Queue("smoke", connection=client)
    retried = queue.enqueue("libraries.fail_until", address, 2, retry=rq.Retry(max=3))
    work_off(client, queue)
    equal((retried.get_status(refresh=True), retried.return_value(refresh=True)), ("finished", "at last"))
    equal(client.get("tries"), b"3")
    client.delete("tries")
    given_up = queue.enqueue("libraries.fail_until", address, 10, retry=rq.Retry(max=2))
    work_off(client, queue)
    equal(given_up.get_status(refresh=True), "failed")
    equal((client.get("tries"), given_up.id in queue.failed_job_registry), (b"3", True))
    equal("not yet" in given_up.latest_result().exc_string, True)


def worker_that_waits(connect):
    """A worker that blocks on its queue is woken by a job, runs it and ends."""
    client = connect()
    queue = rq.Queue("smoke", connection=client)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            rq.Worker([queue], connection=connect()).work(logging_level="CRITICAL", max_jobs=2)
            status = 0
        finally:
            os._exit(status)
    eventually(lambda: client.info("clients")["blocked_clients"] == 1)
    jobs = [queue.enqueue("libraries.square", number) for number in (6, 7)]
    _, status = os.waitpid(child, 0)
    equal(status, 0)
    equal([job.return_value(refresh=True) for job in jobs], [36, 49])


CHECKS = [lock_alone, lock_extend, lock_timeouts, lock_contention, messages, shard_messages, messages_in_threads,
          asynchronous, client_cache, queue_of_jobs, jobs_that_depend, jobs_that_fail, worker_that_waits]

if __name__ == "__main__":
    main()
