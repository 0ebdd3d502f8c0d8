"""Client libraries over TLS and as a restricted user, against a running server: redis-py, asyncio too, valkey-glide, and
ioredis where node has it.

    secure_clients.py --certificates FOLDER       writes ca.crt, server.crt, server.key, client.crt and client.key there
    secure_clients.py HOST:PORT FOLDER [NODE_MODULES]

PORT is a `tls-port` that takes the certificate of the folder from its clients, and serves others too (`optional`). The
server is flushed. Each library logs in as a user who may use keys and channels that begin with `mine`; what that is
denied must be an error of its own kind, and have no effect. The first thing that goes wrong ends the program.
"""
import asyncio
import os
import subprocess
import sys

USER, PASSWORD = "restricted", "p@ss word"


def make_certificates(folder):
    os.makedirs(folder, exist_ok=True)

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *new_key, "-days", "9", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    for name in "server", "client":
        openssl("req", *new_key, "-subj", "/CN=" + name, "-keyout", name + ".key", "-out", name + ".csr")
        with open(os.path.join(folder, "extensions"), "w") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("x509", "-req", "-days", "9", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-extfile", "extensions", "-out", name + ".crt")


def equal(found, expected):
    if found != expected:
        raise AssertionError("expected %r, found %r" % (expected, found))


def fails(error, text, call, *args):
    try:
        found = call(*args)
    except error as raised:
        if text.lower() not in str(raised).lower():
            raise AssertionError("expected %r in %r" % (text, raised))
        return
    raise AssertionError("expected %s, found %r" % (error.__name__, found))


def redis_py(host, port, folder, protocol, certificate):
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
    options = {"host": host, "port": port, "protocol": protocol, "socket_timeout": 20, "ssl": True,
               "ssl_ca_certs": folder + "/ca.crt", "ssl_check_hostname": True}
    if certificate:
        options.update(ssl_certfile=folder + "/client.crt", ssl_keyfile=folder + "/client.key")
    admin = redis.Redis(**options)
    admin.flushall()
    admin.acl_setuser(USER, enabled=True, reset=True, passwords=["+" + PASSWORD], keys=["mine*"], channels=["mine*"],
                      categories=["+@all", "-@dangerous"], commands=["+info"])
    admin.set("other", "v")
    wrong = redis.Redis(**options, username=USER, password="wrong", retry=Retry(NoBackoff(), 0))
    fails(redis.AuthenticationError, "", wrong.ping)
    client = redis.Redis(**options, username=USER, password=PASSWORD)
    equal(USER in str(client.acl_whoami()), True)
    equal(client.set("mine", "x" * 100_000), True)
    equal(len(client.get("mine")), 100_000)
    with client.pipeline(transaction=True) as pipe:
        for number in range(1000):
            pipe.rpush("mine:list", number)
        equal(pipe.execute()[-1], 1000)
    for denied in (("GET", "other"), ("SET", "another", "v"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("PUBLISH", "other", "v")):
        fails(redis.exceptions.NoPermissionError, "permissions", client.execute_command, *denied)
    fails(redis.ResponseError, "permissions", client.eval, "return redis.call('get', 'other')", 0)
    messages = client.pubsub()
    messages.subscribe("mine:news")
    equal(messages.get_message(timeout=10)["type"], "subscribe")
    equal(client.publish("mine:news", "hello"), 1)
    equal(messages.get_message(timeout=10)["data"], b"hello")
    messages.close()
    equal((admin.get("other"), admin.exists("another")), (b"v", 0))

    async def in_asyncio():
        import redis.asyncio
        async with redis.asyncio.Redis(**options, username=USER, password=PASSWORD) as own:
            equal(sorted(await asyncio.gather(*(own.incr("mine:n") for _ in range(50)))), list(range(1, 51)))

    asyncio.run(in_asyncio())
    client.close()
    admin.close()


def valkey_glide(host, port, folder):
    import glide_sync as glide
    with open(folder + "/ca.crt", "rb") as file:
        tls = glide.TlsAdvancedConfiguration(root_pem_cacerts=file.read())
    config = glide.GlideClientConfiguration(
        [glide.NodeAddress(host, port)], use_tls=True, credentials=glide.ServerCredentials(PASSWORD, USER), request_timeout=20_000,
        advanced_config=glide.AdvancedGlideClientConfiguration(tls_config=tls))
    client = glide.GlideClient.create(config)
    equal(client.custom_command(["ACL", "WHOAMI"]), USER.encode())
    equal(client.set("mine", "x" * 100_000), "OK")
    equal(len(client.get("mine")), 100_000)
    fails(glide.RequestError, "permissions", client.get, "other")
    fails(glide.RequestError, "permissions", client.custom_command, ["FLUSHALL"])
    batch = glide.Batch(is_atomic=True)
    batch.incr("mine:m")
    batch.incr("mine:m")
    equal(client.exec(batch, raise_on_error=True), [1, 2])
    client.close()


IOREDIS = r"""
const [host, port, folder, user, password] = process.argv.slice(1);
const { Redis } = require("ioredis");
const { readFileSync } = require("fs");
const { deepStrictEqual: equal, rejects } = require("assert");
(async () => {
    const tls = { ca: readFileSync(folder + "/ca.crt"), servername: "localhost" };
    const client = new Redis({ host, port, username: user, password, tls, maxRetriesPerRequest: 1 });
    equal(await client.call("ACL", "WHOAMI"), user);
    equal(await client.set("mine", "x".repeat(100000)), "OK");
    equal((await client.get("mine")).length, 100000);
    await rejects(client.get("other"), /NOPERM/);
    await rejects(client.flushall(), /NOPERM/);
    equal(await client.multi().incr("mine:k").incr("mine:k").exec(), [[null, 1], [null, 2]]);
    await client.quit();
})().catch((error) => { console.error(error); process.exit(1); });
"""


def ioredis(host, port, folder, modules):
    words = ["node", "-e", IOREDIS, host, str(port), folder, USER, PASSWORD]
    subprocess.run(words, check=True, timeout=60, env={**os.environ, "NODE_PATH": modules})


def main():
    if sys.argv[1:2] == ["--certificates"]:
        return make_certificates(sys.argv[2])
    (host, port), folder = sys.argv[1].rsplit(":", 1), sys.argv[2]
    port = int(port)
    for protocol in 2, 3:
        for certificate in False, True:
            redis_py(host, port, folder, protocol, certificate)
    valkey_glide(host, port, folder)
    ran = "redis-py, valkey-glide"
    if len(sys.argv) > 3:
        ioredis(host, port, folder, sys.argv[3])
        ran += ", ioredis"
    print("secure_clients.py: passed with " + ran)


if __name__ == "__main__":
    main()
