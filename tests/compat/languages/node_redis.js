// node-redis: one server in RESP2 and RESP3, with TLS, and a cluster.
const { deepStrictEqual: equal, rejects } = require("assert");
const { readFileSync } = require("fs");
const { createClient, createCluster } = require("redis");
const { PORT, TLS_PORT, CA, CLUSTER_PORT } = process.env;

async function one(socket, RESP) {
    const client = createClient({ socket, RESP });
    client.on("error", () => {});
    await client.connect();
    await client.flushAll();
    equal(await client.set("text", "x".repeat(100000)), "OK");
    equal((await client.get("text")).length, 100000);
    equal(await Promise.all(Array.from({ length: 100 }, () => client.incr("n"))), Array.from({ length: 100 }, (_, n) => n + 1));
    equal(await client.multi().incr("n").incr("n").exec(), [101, 102]);
    await client.hSet("h", { a: "1", b: "2" });
    equal({ ...(await client.hGetAll("h")) }, { a: "1", b: "2" });
    await client.zAdd("z", [{ value: "one", score: 1 }, { value: "half", score: 0.5 }]);
    equal((await client.zRangeWithScores("z", 0, -1)).map(({ value, score }) => [value, score]), [["half", 0.5], ["one", 1]]);
    equal(await client.eval("return {KEYS[1], ARGV[1]}", { keys: ["k"], arguments: ["v"] }), ["k", "v"]);
    await rejects(client.lPush("h", "1"), /WRONGTYPE/);
    const listener = client.duplicate();
    listener.on("error", () => {});
    await listener.connect();
    let heard;
    const message = new Promise((resolve) => { heard = resolve; });
    await listener.subscribe("news", heard);
    equal(await client.publish("news", "hello"), 1);
    equal(await message, "hello");
    client.destroy();
    listener.destroy();
}

async function cluster() {
    const client = createCluster({ rootNodes: [{ socket: { host: "127.0.0.1", port: Number(CLUSTER_PORT) } }] });
    client.on("error", () => {});
    await client.connect();
    for (let n = 0; n < 200; n++) await client.set(`key:${n}`, `${n}`);
    for (let n = 0; n < 200; n++) equal(await client.get(`key:${n}`), `${n}`);
    client.destroy();
}

(async () => {
    await one({ host: "127.0.0.1", port: Number(PORT) }, 2);
    await one({ host: "127.0.0.1", port: Number(PORT) }, 3);
    await one({ host: "127.0.0.1", port: Number(TLS_PORT), tls: true, ca: readFileSync(CA), servername: "localhost" }, 3);
    await cluster();
})().catch((error) => { console.error(error); process.exit(1); });
