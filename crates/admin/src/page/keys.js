// ---- Keys: find them, look into them, and change them where the user may --------------------------------------------

const KEYS_PAGE = 200;

views.push({
  id: "keys",
  title: "Keys",
  build(root) {
    let [cursor, found, choice] = ["0", new Map(), null];
    const db = el("span");
    const pattern = el("input", { value: "*", type: "search", size: 24 });
    const type = el(
      "select",
      {},
      options([["", "any"], ["string"], ["list"], ["hash"], ["set"], ["zset"], ["stream"]], ""),
    );
    const state = el("p", { role: "status" });
    const names = el("ul", { class: "list", "aria-label": "Keys" });
    const more = button("More keys", guarded(next), { hidden: true });
    const detail = sheet(null, el("p", { class: "quiet" }, "Choose a key."));
    const form = el(
      "form",
      {
        class: "row",
        role: "search",
        onsubmit: (event) => {
          event.preventDefault();
          guarded(begin)();
        },
      },
      field("Database", db),
      field("Pattern", pattern),
      field("Type", type),
      el("button", { class: "main" }, "Search"),
    );
    root.append(form, el("div", { class: "split" }, sheet(null, state, names, more), detail));

    async function begin() {
      [cursor, found] = ["0", new Map()];
      names.replaceChildren();
      await next();
    }

    // Until there is something new to show, or there are no more keys, or it takes too many steps.
    async function next() {
      const before = found.size;
      let steps = 0;
      do {
        const words = ["SCAN", cursor, "MATCH", asBytes(pattern.value || "*")];
        if (type.value) words.push("TYPE", type.value);
        const [to, keys] = await pageOf(KEYS_PAGE, (n) => runIn(Number(choice.value), ...words, "COUNT", n));
        cursor = to;
        steps += 1;
        for (const key of keys) {
          if (found.has(key)) continue;
          const item = button(shown(key), () => guarded(open)(key));
          found.set(key, item);
          names.append(el("li", {}, item));
        }
      } while (cursor !== "0" && found.size - before < 50 && steps < 50);
      more.hidden = cursor === "0";
      setText(state, `${count(found.size)} keys${cursor === "0" ? "" : ", and perhaps more"}.`);
    }

    async function open(key) {
      for (const [name, item] of found) {
        if (name === key) item.setAttribute("aria-current", "true");
        else item.removeAttribute("aria-current");
      }
      const number = Number(choice.value);
      const ask = (...words) => runIn(number, ...words);
      const [kind, ttl, encoding, bytes] = await run(
        [
          ["TYPE", key],
          ["PTTL", key],
          ["OBJECT", "ENCODING", key],
          ["MEMORY", "USAGE", key],
        ],
        number,
      );
      if (kind.error) throw new Refusal(kind.error);
      if (plain(kind) === "none") {
        detail.replaceChildren(el("p", {}, "The key is gone."));
        return;
      }
      const change = may("set") && may("get") ? (old, value) => guarded(save)(ask, key, old, value) : null;
      const value =
        plain(kind) === "string" ? await stringValue(ask, key, change) : await elements(plain(kind), ask, key);
      detail.replaceChildren(
        el("h3", { tabindex: "-1" }, shown(key)),
        el(
          "p",
          { class: "quiet" },
          [
            plain(kind),
            encoding?.error ? null : plain(encoding),
            bytes?.error ? null : size(Number(bytes)),
            lifetime(ttl),
          ]
            .filter(Boolean)
            .join(" · "),
        ),
        actions(ask, key, ttl),
        value,
      );
      detail.querySelector("h3").focus();
    }

    // A value that was changed by others meanwhile is not overwritten.
    async function save(ask, key, old, value) {
      const done = await ask("SET", key, value, "IFEQ", old, "KEEPTTL");
      if (done === null) {
        notify("Others have changed the value meanwhile: it was not saved. Read it again to see theirs.");
        return;
      }
      notify("Saved.");
      await open(key);
    }

    function actions(ask, key, ttl) {
      const row = el(
        "p",
        { class: "row" },
        button("Read again", () => guarded(open)(key)),
      );
      if (may("expire")) {
        const seconds = el("input", {
          type: "number",
          min: "1",
          size: 8,
          value: ttl > 0 ? String(Math.ceil(ttl / 1000)) : "",
        });
        row.append(
          field("Seconds to live", seconds),
          button(
            "Set",
            guarded(async () => {
              await ask("EXPIRE", key, seconds.value);
              await open(key);
            }),
          ),
        );
      }
      if (may("persist") && ttl >= 0) {
        row.append(
          button(
            "Keep for ever",
            guarded(async () => {
              await ask("PERSIST", key);
              await open(key);
            }),
          ),
        );
      }
      const remover = ["unlink", "del"].find(may);
      if (remover) {
        row.append(
          button(
            "Delete",
            guarded(async () => {
              if (!(await isCertain(key))) return;
              const gone = await ask(remover.toUpperCase(), key);
              notify(gone === 1 ? "The key was deleted." : "The key was gone already.");
              found.get(key)?.parentElement.remove();
              found.delete(key);
              detail.replaceChildren(el("p", { class: "quiet" }, "Choose a key."));
            }),
            { class: "danger" },
          ),
        );
      }
      if (row.children.length === 1) row.append(el("span", { class: "quiet" }, "The user may only read."));
      return row;
    }

    const isCertain = (key) => ask("Delete the key?", `${shown(key)} is removed with its value.`, "Delete");

    return {
      // `place`: of an address like #keys/0/name, a database and a key in it.
      show(place) {
        const [, number, key] = /^(\d+)\/(.*)$/s.exec(place ?? "") ?? [];
        const isFirst = !choice;
        if (isFirst) {
          choice = databaseChoice(guarded(begin));
          db.replaceChildren(choice);
        }
        if (key !== undefined) {
          if (![...choice.options].some(({ value }) => value === number)) choice.append(el("option", {}, number));
          choice.value = number;
          guarded(open)(key);
        }
        if (isFirst && may("scan")) guarded(begin)();
        else if (isFirst) setText(state, "The user may not run SCAN.");
      },
    };
  },
});

function lifetime(ttl) {
  if (!(ttl >= 0)) return "no expiry";
  return `expires in ${ttl < 1000 ? `${ttl} ms` : span(ttl / 1000)}`;
}
