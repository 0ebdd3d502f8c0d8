// ---- Workers: whether the work is spread, and whether anything keeps others waiting ----------------------------------

views.push({
  id: "workers",
  title: "Workers",
  build(root) {
    const of =
      (key) =>
      ({ number }) =>
        Number.isFinite(server.live.workers[number]?.[key]) ? server.live.workers[number][key] : 0;
    const all = table({
      caption: "Workers, each of which is a thread that runs commands",
      key: ({ number }) => number,
      columns: [
        { title: "Worker", of: ({ number }) => number },
        { title: "Busy", number: true, of: ({ busy }) => percent(busy), sort: ({ busy }) => busy },
        { title: "Share of the time", draw: (cell, { busy }) => cell.replaceChildren(bar(busy)) },
        {
          title: "Commands / s",
          number: true,
          of: ({ commands }) => count(commands),
          sort: ({ commands }) => commands,
        },
        { title: "Connections", number: true, of: (row) => count(of("connections")(row)), sort: of("connections") },
        { title: "In / s", number: true, of: ({ input }) => size(input) },
        { title: "Out / s", number: true, of: ({ output }) => size(output) },
        { title: "Turns: 99 % within", number: true, of: ({ p99 }) => duration(p99), sort: ({ p99 }) => p99 },
        {
          title: "Longest turn",
          number: true,
          of: (row) => duration(of("longest_tick_seconds")(row) * 1e9),
          sort: of("longest_tick_seconds"),
        },
        {
          title: "Present turn",
          number: true,
          of: (row) => duration(of("current_tick_seconds")(row) * 1e9),
          sort: of("current_tick_seconds"),
        },
        { title: "Stalls", number: true, of: (row) => count(of("stalls_total")(row)), sort: of("stalls_total") },
      ],
    });
    root.append(
      sheet(
        null,
        all.root,
        el(
          "p",
          { class: "quiet" },
          "A turn reads what has come, runs it and sends the replies. A stall is one of 10 ms and more: other clients of the worker have waited for it.",
        ),
      ),
    );
    return {
      update() {
        if (!server.before) return;
        all.update(
          server.live.workers.map((worker, number) => {
            const then = server.before.workers[number];
            const perSecond = (key) => Math.max(0, worker[key] - (then?.[key] ?? 0)) / seconds();
            return {
              number,
              busy: perSecond("busy_seconds_total"),
              commands: perSecond("commands_total"),
              input: perSecond("input_bytes_total"),
              output: perSecond("output_bytes_total"),
              // Worked out of steps it may be more than was ever seen.
              p99: Math.min(percentile(minusSteps(worker.steps, then?.steps), 0.99), worker.longest_tick_seconds * 1e9),
            };
          }),
        );
      },
    };
  },
});
