// ---- Latency: how long calls of each command take -------------------------------------------------------------------

views.push({
  id: "latency",
  title: "Latency",
  build(root) {
    let chosen = null;
    const since = el(
      "select",
      { onchange: update },
      options(
        [
          ["1", "the last second"],
          ["10", "the last 10 seconds"],
          ["60", "the last minute"],
          ["", "the start"],
        ],
        "10",
      ),
    );
    const distribution = el("div");
    const all = table({
      caption: "Durations of calls within the server, without the network",
      key: ({ name }) => name,
      sorted: 1,
      columns: [
        {
          title: "Command",
          element: ({ name }) => button(name.replace("|", " ").toUpperCase(), () => choose(name), { class: "plain" }),
        },
        { title: "Calls", number: true, of: ({ calls }) => count(calls), sort: ({ calls }) => calls },
        { title: "Mean", number: true, of: (row) => duration(mean(row)), sort: mean },
        { title: "p50", number: true, of: ({ p50 }) => duration(p50), sort: ({ p50 }) => p50 },
        { title: "p99", number: true, of: ({ p99 }) => duration(p99), sort: ({ p99 }) => p99 },
        { title: "p99.9", number: true, of: ({ p999 }) => duration(p999), sort: ({ p999 }) => p999 },
        { title: "Share of time", number: true, of: ({ share }) => percent(share), sort: ({ share }) => share },
        { title: "Failed", number: true, of: ({ failed }) => count(failed), sort: ({ failed }) => failed },
        { title: "Refused", number: true, of: ({ rejected }) => count(rejected), sort: ({ rejected }) => rejected },
      ],
    });
    const trend = lineChart(
      "Latency of all commands",
      [
        { name: "half within", of: (m) => m.median },
        { name: "99 % within", of: (m) => m.p99 },
      ],
      duration,
    );
    root.append(
      el("p", { class: "row" }, field("Since", since)),
      sheet(
        null,
        all.root,
        el(
          "p",
          { class: "quiet" },
          "Percentiles of a part of the time are worked out of steps that double; those since the start are exact to two digits. Choose a command for its distribution.",
        ),
      ),
      distribution,
      trend.root,
    );

    function mean({ calls, nanos }) {
      return calls > 0 ? nanos / calls : 0;
    }

    function choose(name) {
      chosen = name;
      update();
    }

    function update() {
      const found = latencyRows(since.value === "" ? null : Number(since.value));
      all.update(found);
      trend.update(server.series);
      const row = found.find(({ name }) => name === chosen);
      if (row) {
        const title = `How long ${row.name.replace("|", " ").toUpperCase()} took`;
        distribution.replaceChildren(sheet(title, distributionChart(title, row.steps)));
      }
    }
    return { update };
  },
});

// Commands that were called since so many seconds, or ever, with their percentiles.
function latencyRows(since) {
  const earliest = server.live.now - (since ?? 0) * 1000 - 500;
  const before = since === null ? undefined : server.commands.find(({ now }) => now >= earliest)?.commands;
  const found = differences(before).filter(({ calls, rejected, failed }) => calls + rejected + failed > 0);
  const time = found.reduce((sum, { nanos }) => sum + nanos, 0) || 1;
  return found.map((row) => {
    const of = (part, key) => (since === null ? server.live.commands[row.name][key] : percentile(row.steps, part));
    const known = row.steps.length > 0;
    return {
      ...row,
      share: row.nanos / time,
      p50: known ? of(0.5, "p50") : NaN,
      p99: known ? of(0.99, "p99") : NaN,
      p999: known ? of(0.999, "p999") : NaN,
    };
  });
}
