// ioredis and iovalkey, whose interface is the same: one server, with TLS, and a cluster. The argument names it.
const { deepStrictEqual: equal, rejects } = require("assert");
const { readFileSync } = require("fs");
const module_ = require(process.argv[2]);
const Client = module_.default || module_;
const { PORT, TLS_PORT, CA, CLUSTER_PORT } = process.env;

async function one(options) {
    const client = new Client({ host: "127.0.0.1", maxRetriesPerRequest: 1, ...options });
    await client.flushall();
    const value = Buffer.from(Array.from({ length: 100000 }, (_, index) => index % 256));
    equal(await client.set("bytes", value), "OK");
    equal(await client.getBuffer("bytes"), value);
    const pipe = client.pipeline();
    for (let n = 0; n < 1000; n++) pipe.incr("n");
    equal((await pipe.exec())[999], [null, 1000]);
    equal(await client.multi().incr("n").incr("n").exec(), [[null, 1001], [null, 1002]]);
    await client.hset("h", { a: 1, b: 2 });
    equal(await client.hgetall("h"), { a: "1", b: "2" });
    equal(await client.zadd("z", 1, "one", 0.5, "half"), 2);
    equal(await client.zrange("z", 0, -1, "WITHSCORES"), ["half", "0.5", "one", "1"]);
    equal(await client.eval("return {KEYS[1], ARGV[1]}", 1, "k", "v"), ["k", "v"]);
    await rejects(client.lpush("h", 1), /WRONGTYPE/);
    const listener = client.duplicate();
    const message = new Promise((resolve) => listener.on("message", (channel, text) => resolve([channel, text])));
    await listener.subscribe("news");
    equal(await client.publish("news", "hello"), 1);
    equal(await message, ["news", "hello"]);
    const keys = [];
    for await (const some of client.scanStream()) keys.push(...some);
    equal(keys.sort(), ["bytes", "h", "n", "z"]);
    await Promise.all([client.quit(), listener.quit()]);
}

async function cluster() {
    const client = new Client.Cluster([{ host: "127.0.0.1", port: CLUSTER_PORT }]);
    for (let n = 0; n < 200; n++) await client.set(`key:${n}`, n);
    for (let n = 0; n < 200; n++) equal(await client.get(`key:${n}`), `${n}`);
    equal(client.nodes("master").length, 3);
    await client.quit();
}

(async () => {
    await one({ port: PORT });
    await one({ port: TLS_PORT, tls: { ca: readFileSync(CA), servername: "localhost" } });
    await cluster();
})().catch((error) => { console.error(error); process.exit(1); });
