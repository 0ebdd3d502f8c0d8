// ---- Hot keys: which keys take most of the time and of the traffic --------------------------------------------------
// HOTKEYS looks at one command in so many, so that looking costs little.

const HOT_KEYS_EVERY = 1000;

views.push({
  id: "hot",
  title: "Hot keys",
  build(root) {
    let timer = 0;
    const length = el(
      "select",
      {},
      options(
        [
          ["10", "10 seconds"],
          ["60", "a minute"],
          ["600", "10 minutes"],
        ],
        "60",
      ),
    );
    const sample = el(
      "select",
      {},
      options(
        [
          ["1", "every command"],
          ["10", "1 of 10"],
          ["100", "1 of 100"],
          ["1000", "1 of 1000"],
        ],
        "100",
      ),
    );
    const start = button("Start", guarded(begin), { class: "main" });
    const stop = button("Stop", guarded(end));
    const state = el("p", {});
    const found = el("div", { class: "grid" });
    root.append(el("p", { class: "row" }, field("For", length), field("Look at", sample), start, stop), state, found);

    async function begin() {
      const report = await one("HOTKEYS", "GET");
      if (report) {
        await run([["HOTKEYS", "STOP"]]);
        await one("HOTKEYS", "RESET");
      }
      await one(
        "HOTKEYS",
        "START",
        "METRICS",
        "2",
        "CPU",
        "NET",
        "COUNT",
        "32",
        "DURATION",
        length.value,
        "SAMPLE",
        sample.value,
      );
      notify("Hot keys are looked for.");
      await load();
    }

    async function end() {
      await one("HOTKEYS", "STOP");
      await load();
    }

    async function load() {
      const report = await one("HOTKEYS", "GET");
      if (!report) {
        setText(state, "Nothing was looked for yet.");
        return;
      }
      const of = asObject(report[0]);
      const isOn = of["tracking-active"] === 1;
      const lasted = span(of["collection-duration-ms"] / 1000);
      setText(
        state,
        `${isOn ? "Looking" : "Looked"} for ${lasted}, at ${of["sample-ratio"] > 1 ? `1 of ${of["sample-ratio"]} commands` : "every command"}.`,
      );
      stop.disabled = !isOn;
      found.replaceChildren(
        hotKeyList("By processor time", of["by-cpu-time-us"], (micros) => duration(micros * 1000)),
        hotKeyList("By traffic", of["by-net-bytes"], size),
      );
    }

    return {
      show() {
        start.disabled = !may("hotkeys|start");
        const tick = guarded(load);
        if (!may("hotkeys|get")) return setText(state, "The user may not run HOTKEYS.");
        tick();
        timer = setInterval(() => !document.hidden && !isPaused && !stop.disabled && tick(), HOT_KEYS_EVERY);
      },
      hide: () => clearInterval(timer),
    };
  },
});

function hotKeyList(title, keys, show) {
  const pairs = Object.entries(asObject(keys ?? []));
  const all = pairs.reduce((sum, [, weight]) => sum + weight, 0) || 1;
  const shownKeys = table({
    caption: title,
    key: ([key]) => key,
    sorted: 1,
    columns: [
      { title: "Key", of: ([key]) => shown(key) },
      { title: "Seen", number: true, of: ([, weight]) => show(weight), sort: ([, weight]) => weight },
      { title: "Percent", number: true, of: ([, weight]) => percent(weight / all) },
      { title: "Share", draw: (cell, [, weight]) => cell.replaceChildren(bar(weight / all)) },
    ],
  });
  shownKeys.update(pairs);
  return sheet(null, shownKeys.root, pairs.length ? null : el("p", { class: "quiet" }, "No key yet."));
}
