// ---- Views ----------------------------------------------------------------------------------------------------------
// A view has a name in the address, a title, and a function that builds it within an element when it is first shown.
// The function returns update() for new numbers, show() for each time it comes into sight, hide() for when it goes.

const views = [];

// Numbers with their names, as a list.
function tiles(entries) {
  const shownTiles = entries.map(({ title, of, also }) => ({ of, also, value: el("dd"), more: el("dd"), title }));
  const root = el(
    "dl",
    { class: "tiles" },
    shownTiles.map(({ title, value, more }) => el("div", {}, el("dt", {}, title), value, more)),
  );
  const update = () =>
    shownTiles.forEach(({ of, also, value, more }) => {
      setText(value, of());
      setText(more, also?.() ?? "");
    });
  return { root, update };
}

// ---- Overview: what goes on at the moment ---------------------------------------------------------------------------

views.push({
  id: "overview",
  title: "Overview",
  build(root) {
    const last = () => server.series.at(-1) ?? {};
    const keys = () =>
      Object.entries(server.live.info)
        .filter(([name]) => /^db\d+$/.test(name))
        .reduce((sum, [, value]) => sum + Number(/keys=(\d+)/.exec(value)?.[1] ?? 0), 0);
    const memoryLimit = () => (infoNumber("maxmemory") > 0 ? `of ${size(infoNumber("maxmemory"))}` : "no limit");
    const numbersNow = tiles([
      {
        title: "Operations / s",
        of: () => count(last().operations),
        also: () => `${count(infoNumber("total_commands_processed"))} in all`,
      },
      { title: "99 % within", of: () => duration(last().p99), also: () => `half within ${duration(last().median)}` },
      { title: "Memory", of: () => size(last().memory), also: memoryLimit },
      {
        title: "Keys",
        of: () => count(keys()),
        also: () => `${count(rate("expired_keys"))} expired, ${count(rate("evicted_keys"))} evicted / s`,
      },
      {
        title: "Clients",
        of: () => count(last().clients),
        also: () => `of ${count(infoNumber("maxclients"))}, ${info("blocked_clients")} wait`,
      },
      { title: "Hits", of: () => percent(last().hitRatio), also: () => `${count(rate("keyspace_misses"))} misses / s` },
      { title: "Traffic in / s", of: () => size(last().input), also: () => `out ${size(last().output)}` },
      { title: "Processor", of: () => `${count(last().cpu * 100)} %`, also: () => "of one core" },
      { title: "Errors / s", of: () => count(last().errors), also: errorsSeen },
      {
        title: "Last save",
        of: lastSave,
        also: () => `${count(infoNumber("rdb_changes_since_last_save"))} changes since`,
      },
    ]);
    const charts = [
      lineChart("Operations / s", [{ name: "all", of: (moment) => moment.operations }], count),
      lineChart(
        "Latency",
        [
          { name: "half within", of: (m) => m.median },
          { name: "99 % within", of: (m) => m.p99 },
        ],
        duration,
      ),
      lineChart(
        "Memory",
        [
          { name: "used", of: (m) => m.memory },
          { name: "resident", of: (m) => m.resident },
        ],
        size,
      ),
      lineChart(
        "Traffic / s",
        [
          { name: "in", of: (m) => m.input },
          { name: "out", of: (m) => m.output },
        ],
        size,
      ),
    ];
    const top = table({
      caption: "Commands called most in the last second",
      key: ({ name }) => name,
      sorted: 1,
      most: 10,
      columns: [
        { title: "Command", of: ({ name }) => name.replace("|", " ").toUpperCase() },
        { title: "Calls / s", number: true, of: ({ calls }) => count(calls / seconds()), sort: ({ calls }) => calls },
        {
          title: "Mean",
          number: true,
          of: ({ calls, nanos }) => duration(nanos / calls),
          sort: ({ calls, nanos }) => nanos / calls,
        },
      ],
    });
    root.append(
      numbersNow.root,
      el(
        "div",
        { class: "grid" },
        charts.map((chart) => chart.root),
      ),
      sheet(null, top.root),
    );
    return {
      update() {
        numbersNow.update();
        charts.forEach((chart) => chart.update(server.series));
        if (server.before) top.update(differences(server.before.commands).filter(({ calls }) => calls > 0));
      },
    };
  },
});

function errorsSeen() {
  const all = Object.entries(server.live.errors).sort((a, b) => b[1] - a[1]);
  return (
    all
      .slice(0, 3)
      .map(([word, n]) => `${word} ${count(n)}`)
      .join(", ") || "none yet"
  );
}

function lastSave() {
  if (info("rdb_bgsave_in_progress") === "1") return "now";
  return `${span(server.live.now / 1000 - infoNumber("rdb_last_save_time"))} ago`;
}
