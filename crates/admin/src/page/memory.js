// ---- Memory: what takes it up, by type and by prefix, and the biggest keys ------------------------------------------
// The server reports sums by itself. The memory of keys is found by walking through all of them, in small steps that
// leave the server time for others: each is one SCAN, and the step rests as long as it took.

const STEP_KEYS = 100;
const BIGGEST = 50;
const PREFIXES_MAX = 20_000;

views.push({
  id: "memory",
  title: "Memory & big keys",
  build(root) {
    const sums = table({
      caption: "Uses of memory",
      key: ({ title }) => title,
      columns: [
        { title: "Part", of: ({ title }) => title },
        { title: "Size", number: true, of: ({ bytes }) => size(bytes) },
        { title: "Compared", draw: (cell, { part }) => cell.replaceChildren(bar(part)) },
      ],
    });
    const db = el("span");
    const pattern = el("input", { value: "*", size: 12 });
    const separator = el("input", { value: ":", size: 4 });
    const depth = el("select", {}, options([["1"], ["2"], ["3"]], "1"));
    const start = button("Scan all keys", guarded(scan), { class: "main" });
    const pause = button("Pause", () => {
      walk.paused = !walk.paused;
      buttons();
    });
    const stop = button("Stop", () => {
      walk.stopped = true;
      walk.paused = false;
    });
    const progress = el("progress", { max: 1, value: 0, "aria-label": "Keys that were looked at" });
    const state = el("p", {}, "Nothing was scanned yet.");
    const result = el("div");
    let walk = { running: false, paused: false, stopped: false };
    let choice = null;
    root.append(
      sheet(null, sums.root),
      sheet(
        "Keys",
        el(
          "p",
          { class: "row" },
          field("Database", db),
          field("Pattern", pattern),
          field("Separator of prefixes", separator),
          field("Levels of prefixes", depth),
          start,
          pause,
          stop,
        ),
        progress,
        state,
        result,
      ),
    );
    buttons();

    function buttons() {
      start.disabled = walk.running || !may("scan");
      pause.disabled = stop.disabled = !walk.running;
      setText(pause, walk.paused ? "Go on" : "Pause");
    }

    async function scan() {
      const found = { keys: 0, bytes: 0, types: new Map(), prefixes: new Map(), biggest: [] };
      walk = { running: true, paused: false, stopped: false };
      const mine = walk;
      const number = Number(choice.value);
      const tables = scanTables(number);
      result.replaceChildren(...tables.roots);
      buttons();
      try {
        await walkKeys(
          number,
          asBytes(pattern.value),
          mine,
          (keys) => {
            keys.forEach((key) => note(found, key, separator.value, Number(depth.value)));
            tables.update(found);
          },
          (looked, all) => {
            progress.value = Math.min(1, looked / Math.max(1, all));
            const at = mine.paused ? "Paused at" : "Looked at";
            setText(
              state,
              `${at} ${count(looked)} of about ${count(all)} keys; ${count(found.keys)} found with ${size(found.bytes)}.`,
            );
          },
        );
        await lengths(number, found.biggest);
        tables.update(found);
        progress.value = mine.stopped ? progress.value : 1;
        setText(state, `${mine.stopped ? "Stopped" : "Done"}: ${count(found.keys)} keys with ${size(found.bytes)}.`);
        notify(state.textContent);
      } finally {
        mine.running = false;
        buttons();
      }
    }

    return {
      update() {
        const parts = [
          ["All in use", "used_memory"],
          ["Data", "used_memory_dataset"],
          ["Clients", "mem_clients_normal"],
          ["Replicas", "mem_clients_slaves"],
          ["Replication's backlog", "mem_replication_backlog"],
          ["Append-only file", "mem_aof_buffer"],
          ["Scripts", "used_memory_scripts"],
          ["At the start", "used_memory_startup"],
          ["Resident", "used_memory_rss"],
          ["Most so far", "used_memory_peak"],
        ]
          .map(([title, name]) => ({ title, bytes: infoNumber(name) }))
          .filter(({ bytes }) => Number.isFinite(bytes));
        const most = Math.max(1, ...parts.map(({ bytes }) => bytes));
        sums.update(parts.map((part) => ({ ...part, part: part.bytes / most })));
        if (!choice) {
          choice = databaseChoice();
          db.replaceChildren(choice);
          buttons();
        }
      },
    };
  },
});

// Walks through all keys of a pattern, step by step: `step` gets them with type and size, `tell` how far it is.
async function walkKeys(db, pattern, walk, step, tell) {
  const sized = may("memory|usage");
  let [cursor, looked] = ["0", 0];
  // SCAN continues from its cursor, and does not report its progress: the end is known, the way estimated by DBSIZE.
  do {
    const [[next, keys], all] = await scanStep(db, cursor, pattern);
    const began = performance.now();
    const asked = keys.flatMap((key) => [["TYPE", key], ...(sized ? [["MEMORY", "USAGE", key]] : [])]);
    const replies = asked.length ? await run(asked, db) : [];
    const each = sized ? 2 : 1;
    step(
      keys
        .map((key, index) => ({
          key,
          type: plain(replies[index * each]),
          bytes: sized ? Number(replies[index * each + 1]) || 0 : 0,
        }))
        .filter(({ type }) => type !== "none"),
    );
    cursor = next;
    looked += pattern === "*" ? keys.length : Math.max(keys.length, STEP_KEYS);
    tell(Math.min(looked, all), all);
    await new Promise((resolve) => setTimeout(resolve, Math.min(200, performance.now() - began)));
    while (walk.paused && !walk.stopped) {
      tell(Math.min(looked, all), all);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  } while (cursor !== "0" && !walk.stopped);
}

async function scanStep(db, cursor, pattern) {
  const scan = (n) => run([["SCAN", cursor, "MATCH", pattern, "COUNT", n], ["DBSIZE"]], db);
  const [page, all] = await pageOf(STEP_KEYS, scan);
  if (page.error) throw new Refusal(page.error);
  return [page, Number(all) || page[1].length];
}

// Adds a key to the findings.
function note(found, { key, type, bytes }, separator, depth) {
  found.keys += 1;
  found.bytes += bytes;
  add(found.types, type, bytes);
  const mark = asBytes(separator);
  if (mark) {
    const parts = key.split(mark);
    const prefix = parts.length > 1 ? parts.slice(0, Math.min(depth, parts.length - 1)).join(mark) + mark : "";
    // A separator that is part of every name must not fill the browser's memory.
    add(found.prefixes, found.prefixes.has(prefix) || found.prefixes.size < PREFIXES_MAX ? prefix : null, bytes);
  }
  if (found.biggest.length < BIGGEST || bytes > found.biggest.at(-1).bytes) {
    found.biggest.push({ key, type, bytes });
    found.biggest.sort((a, b) => b.bytes - a.bytes);
    found.biggest.length = Math.min(found.biggest.length, BIGGEST);
  }
}

function add(sums, name, bytes) {
  const sum = sums.get(name) ?? { keys: 0, bytes: 0 };
  sum.keys += 1;
  sum.bytes += bytes;
  sums.set(name, sum);
}

const LENGTH = { string: "STRLEN", list: "LLEN", hash: "HLEN", set: "SCARD", zset: "ZCARD", stream: "XLEN" };

// How long the biggest keys are: bytes of strings, elements of all others.
async function lengths(db, keys) {
  const known = keys.filter(({ type }) => LENGTH[type]);
  if (known.length === 0) return;
  const replies = await run(
    known.map(({ key, type }) => [LENGTH[type], key]),
    db,
  );
  known.forEach((entry, index) => {
    entry.length = Number(replies[index]);
  });
}

// The tables of a scan's findings.
function scanTables(db) {
  const sums = (caption, title, name) =>
    table({
      caption,
      key: ([of]) => String(of),
      sorted: 2,
      most: 100,
      columns: [
        { title, of: ([of]) => name(of) },
        { title: "Keys", number: true, of: ([, { keys }]) => count(keys), sort: ([, { keys }]) => keys },
        { title: "Memory", number: true, of: ([, { bytes }]) => size(bytes), sort: ([, { bytes }]) => bytes },
        {
          title: "A key",
          number: true,
          of: ([, { keys, bytes }]) => size(bytes / keys),
          sort: ([, { keys, bytes }]) => bytes / keys,
        },
        { title: "Share", draw: (cell, [, { part }]) => cell.replaceChildren(bar(part)) },
      ],
    });
  const types = sums("Memory by type", "Type", (type) => type);
  const prefixes = sums("Memory by prefix", "Prefix", (prefix) =>
    prefix === null ? "(others)" : prefix === "" ? "(none)" : shown(prefix),
  );
  const biggest = table({
    caption: "The biggest keys",
    key: ({ key }) => key,
    sorted: 2,
    columns: [
      { title: "Key", element: ({ key }) => el("a", { href: `#keys/${db}/${encodeURIComponent(key)}` }, shown(key)) },
      { title: "Type", of: ({ type }) => type },
      { title: "Memory", number: true, of: ({ bytes }) => size(bytes), sort: ({ bytes }) => bytes },
      {
        title: "Length",
        number: true,
        of: ({ length }) => (length === undefined ? "" : count(length)),
        sort: ({ length }) => length ?? 0,
      },
    ],
  });
  const roots = [el("div", { class: "grid" }, types.root, prefixes.root), biggest.root];
  const withParts = (map, all) => [...map].map(([name, sum]) => [name, { ...sum, part: sum.bytes / (all || 1) }]);
  return {
    roots,
    update({ types: byType, prefixes: byPrefix, biggest: keys, bytes }) {
      types.update(withParts(byType, bytes));
      prefixes.update(withParts(byPrefix, bytes));
      biggest.update(keys);
    },
  };
}
