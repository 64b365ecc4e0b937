// node-redlock with one server: the protocol of bench/peers, see ../README.md, and the only peer in JavaScript. A "thread" is a
// loop of its own in the one thread that there is. It asks every millisecond; its own default is 200 ms, 10 times.
import readline from "node:readline";
import { Redis } from "ioredis";
import redlock from "redlock";

const Redlock = redlock.default ?? redlock;
const PAIRS_LEASE_MS = 10000;
const address = process.argv[2];

function open() {
    const [host, port] = address.split(":");
    const raw = new Redis({ host, port: Number(port) });
    const lib = new Redlock([raw], { retryCount: -1, retryDelay: 1, retryJitter: 0, driftFactor: 0, automaticExtensionThreshold: 0 });
    lib.on("error", () => {});
    return { raw, lib };
}

const now = () => process.hrtime.bigint(); // CLOCK_MONOTONIC
const acquire = (client, name, leaseMs) => client.lib.acquire(["redlock:" + name], leaseMs);

async function pairsOf(client, name, until) {
    const samples = [];
    let start = now();
    do {
        const lock = await acquire(client, name, PAIRS_LEASE_MS);
        await lock.release();
        const end = now();
        samples.push(Number(end - start));
        start = end;
    } while (start < until);
    return samples;
}

async function pairs(client, threads, ms) {
    const began = now();
    const until = began + BigInt(ms) * 1000000n;
    const loops = Array.from({ length: threads }, (_, i) => pairsOf(client, `pairs-${process.pid}-${i}`, until));
    const all = (await Promise.all(loops)).flat().sort((a, b) => a - b);
    const elapsed = now() - began;
    return `pairs ${all.length} ${elapsed} ${all[all.length >> 1]} ${all[Math.floor(all.length * 0.99)]}`;
}

async function grantsOf(client, name, until) {
    const stamps = [];
    while (now() < until) {
        const lock = await acquire(client, name, PAIRS_LEASE_MS);
        stamps.push(now());
        await lock.release();
    }
    return stamps;
}

async function fight(name, clients, ms) {
    const opened = Array.from({ length: clients }, open);
    const until = now() + BigInt(ms) * 1000000n;
    const all = await Promise.all(opened.map((client) => grantsOf(client, name, until)));
    opened.forEach((client) => client.raw.disconnect());
    return "fight " + all.map((stamps) => stamps.join(",") || "-").join(" ");
}

async function obey(client, [command, ...words]) {
    if (command === "pairs")
        return pairs(client, Number(words[0]), Number(words[1]));
    if (command === "fight")
        return fight(words[0], Number(words[1]), Number(words[2]));
    const lock = await acquire(client, words[0], Number(words[1]));
    const stamp = now();
    if (command === "hold")
        return `held ${stamp}`;
    await lock.release();
    return `got ${stamp}`;
}

try {
    const client = open();
    await client.raw.ping();
    console.log("ready");
    for await (const line of readline.createInterface({ input: process.stdin }))
        console.log(await obey(client, line.split(" ")));
} catch (error) {
    console.log("error " + String(error).replaceAll("\n", " "));
    process.exit(1);
}
process.exit(0);
