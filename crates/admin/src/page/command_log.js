// ---- Slow and large commands ----------------------------------------------------------------------------------------

const LOGS = [
  {
    type: "slow",
    title: "Slow commands",
    value: "Took",
    show: (micros) => duration(micros * 1000),
    limit: "commandlog-execution-slower-than",
  },
  { type: "large-request", title: "Large requests", value: "Size", show: size },
  { type: "large-reply", title: "Large replies", value: "Size", show: size },
];

views.push({
  id: "slow",
  title: "Slow & large",
  build(root) {
    let current = LOGS[0];
    const all = tabs(
      "Logs of commands",
      LOGS.map(({ title }) => title),
      (index, panel) => {
        current = LOGS[index];
        guarded(load)(panel);
      },
    );
    const reset = button("Empty this log", guarded(empty), { class: "danger" });
    root.append(
      el(
        "p",
        { class: "row" },
        button("Refresh", () => guarded(load)(all.panel)),
        reset,
      ),
      all.list,
      all.panel,
    );

    async function load(panel) {
      const log = current;
      const entries = await one("COMMANDLOG", "GET", "200", log.type);
      const found = entries.map(([id, at, value, words, address, name]) => ({ id, at, value, words, address, name }));
      const list = table({
        caption: `${log.title}, the newest first`,
        key: ({ id }) => id,
        sorted: 0,
        columns: [
          { title: "At", of: ({ at }) => new Date(at * 1000).toLocaleString(), sort: ({ id }) => id },
          { title: log.value, number: true, of: ({ value }) => log.show(value), sort: ({ value }) => value },
          { title: "Command", of: ({ words }) => words.map((word) => shown(word, 120)).join(" ") },
          { title: "Client", of: ({ address }) => address },
          { title: "Name", of: ({ name }) => name },
        ],
      });
      if (log !== current) return;
      panel.replaceChildren(sheet(null, found.length ? list.root : el("p", {}, "The log is empty.")));
      list.update(found);
    }

    async function empty() {
      if (!(await ask("Empty the log?", `All entries of “${current.title}” are removed for everybody.`, "Empty")))
        return;
      await one("COMMANDLOG", "RESET", current.type);
      await load(all.panel);
    }

    return {
      show() {
        reset.hidden = !may("commandlog|reset");
        all.select(LOGS.indexOf(current));
      },
    };
  },
});
