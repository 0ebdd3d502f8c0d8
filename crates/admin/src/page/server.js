// ---- The server -----------------------------------------------------------------------------------------------------
// Numbers come by themselves once a second. Commands are run for views, one request after the other.

const HISTORY = 300;
const WINDOW = 61;

const server = {
  // The last answer of /live, and the one before.
  live: null,
  before: null,
  // The charts' data: numbers of the last minutes, the oldest first.
  series: [],
  // Commands of the last minute, for percentiles of a part of it.
  commands: [],
};

const info = (field) => server.live?.info[field] ?? "";
const infoNumber = (field) => Number(info(field) || NaN);
const may = (command) => server.live?.may.includes(command) ?? false;
const isCluster = () => info("cluster_enabled") === "1";

// How often something happened a second, by a counter in INFO. None before the second answer, and after a restart.
function rate(field) {
  if (!server.before) return NaN;
  const [now, then] = [server.live, server.before].map((live) => Number(live.info[field]));
  return now < then ? NaN : (now - then) / seconds();
}

const seconds = () => (server.live.now - server.before.now) / 1000;

// The reason that the server refused or could not be reached.
class Refusal extends Error {}

async function refresh() {
  const response = await fetch(new URL("/live", location.origin), { signal: AbortSignal.timeout(5000) }).catch(
    () => null,
  );
  if (!response) throw new Refusal("no answer");
  if (!response.ok) throw new Refusal(`refused (${response.status})`);
  const live = await response.json();
  const isSame = server.live?.info.run_id === live.info.run_id && live.now > server.live.now;
  server.before = isSame ? server.live : null;
  server.live = live;
  server.commands = [...(isSame ? server.commands : []), { now: live.now, commands: live.commands }].slice(-WINDOW);
  server.series = [...server.series, numbers()].slice(-HISTORY);
}

// One moment of the charts.
function numbers() {
  const [hits, misses] = [rate("keyspace_hits"), rate("keyspace_misses")];
  const merged = mergedSteps(differences(server.before?.commands));
  return {
    now: server.live.now,
    operations: rate("total_commands_processed"),
    input: rate("total_net_input_bytes"),
    output: rate("total_net_output_bytes"),
    memory: infoNumber("used_memory"),
    resident: infoNumber("used_memory_rss"),
    clients: infoNumber("connected_clients"),
    hitRatio: hits / (hits + misses),
    cpu: rate("used_cpu_user") + rate("used_cpu_sys"),
    median: percentile(merged, 0.5),
    p99: percentile(merged, 0.99),
    errors: rate("total_error_replies"),
  };
}

// ---- Distributions --------------------------------------------------------------------------------------------------
// Steps are [nanoseconds at most, how many]; each begins where half of its limit lies.

function minusSteps(steps, before = []) {
  const earlier = new Map(before);
  return steps.map(([limit, n]) => [limit, n - (earlier.get(limit) ?? 0)]).filter(([, n]) => n > 0);
}

function mergedSteps(commands) {
  const sum = new Map();
  for (const { steps } of commands) for (const [limit, n] of steps) sum.set(limit, (sum.get(limit) ?? 0) + n);
  return [...sum].sort((a, b) => a[0] - b[0]);
}

// The duration that this part of all does not exceed, about: within a step all are taken to lie evenly.
function percentile(steps, part) {
  const all = steps.reduce((sum, [, n]) => sum + n, 0);
  let wanted = part * all;
  for (const [limit, n] of steps) {
    if (wanted <= n) return limit * (0.5 + (0.5 * wanted) / n);
    wanted -= n;
  }
  return NaN;
}

// Counts of each command since `before`, an earlier answer's commands; counts of all time without one.
function differences(before) {
  return Object.entries(server.live.commands).map(([name, now]) => {
    const then = before?.[name];
    const isReset = then && then.calls > now.calls;
    const minus = (key) => now[key] - (isReset ? 0 : (then?.[key] ?? 0));
    return {
      name,
      calls: minus("calls"),
      nanos: minus("nanos"),
      failed: minus("failed"),
      rejected: minus("rejected"),
      steps: minusSteps(now.steps, isReset ? [] : then?.steps),
    };
  });
}

// ---- Commands -------------------------------------------------------------------------------------------------------

// Limits of one request: commands, and their bytes, both below the server's limits.
const COMMANDS_AT_ONCE = 250;
const BYTES_AT_ONCE = 1_000_000;
let queue = Promise.resolve();

// Runs commands, one request at a time, and answers their replies. Words are bytes: see asBytes.
function run(commands, db = 0) {
  const answer = queue.then(() => send(commands, db));
  queue = answer.catch(() => {});
  return answer;
}

async function send(commands, db) {
  const replies = [];
  for (const part of parts(commands)) {
    const response = await fetch(new URL("/command", location.origin), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: `{"db":${db},"commands":[${part.join(",")}]}`,
    }).catch(() => {
      throw new Refusal("The server does not answer.");
    });
    const said = await response.json().catch(() => ({ error: `refused (${response.status})` }));
    if (said.error) throw new Refusal(said.error);
    replies.push(...said.replies);
  }
  return replies;
}

// The commands as JSON, in as many requests as they need.
function parts(commands) {
  const all = [];
  let room = 0;
  for (const command of commands) {
    const text = JSON.stringify(command.map(String));
    const bytes = new TextEncoder().encode(text).length + 1;
    if (bytes > room || all.at(-1).length === COMMANDS_AT_ONCE) {
      all.push([]);
      room = BYTES_AT_ONCE;
    }
    all.at(-1).push(text);
    room -= bytes;
  }
  return all;
}

// The reply of one command; an error is thrown.
async function one(...words) {
  return runIn(0, ...words);
}

async function runIn(db, ...words) {
  const [reply] = await run([words], db);
  if (reply?.error !== undefined) throw new Refusal(reply.error);
  return reply;
}

// Turns the forms that differ between RESP3 and RESP2 into plain lists and texts.
function plain(reply) {
  if (reply === null || typeof reply !== "object" || Array.isArray(reply)) return reply;
  if (reply.map) return reply.map.flat();
  return reply.set ?? reply.status ?? reply.verbatim ?? reply.double ?? reply.integer ?? reply.big ?? reply.error;
}

// Returns the pairs of a map, or of names and values one after the other.
function asObject(reply) {
  const list = plain(reply) ?? [];
  const pairs = [];
  for (let at = 0; at + 1 < list.length; at += 2) pairs.push([plain(list[at]), list[at + 1]]);
  return Object.fromEntries(pairs);
}

// Runs an action for a button: a failure is shown, and nothing else happens.
const guarded =
  (work) =>
  async (...args) => {
    try {
      return await work(...args);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      notify(error.message);
      return undefined;
    }
  };

// A choice of database. A node of a cluster may have one alone, and then there is no choice.
function databaseChoice(onchange) {
  const known = Object.keys(server.live?.info ?? {})
    .filter((name) => /^db\d+$/.test(name))
    .map((name) => Number(name.slice(2)));
  const all = [...new Set([0, ...known])].sort((a, b) => a - b);
  return el(
    "select",
    { onchange },
    options(
      all.map((db) => [String(db)]),
      "0",
    ),
  );
}
