// ---- Values, a page at a time ---------------------------------------------------------------------------------------
// No value is requested as a whole. Each type has a way to its next page: `page(from, count)` returns rows, and the
// beginning of the page after; null if there is none.

const PAGE = 100;
const STRING_PAGE = 8192;
const EDIT_MAX = 65_536;

const pairsOf = (list) =>
  plain(list).reduce((rows, item, at, all) => (at % 2 ? rows : [...rows, [item, all[at + 1]]]), []);
const counted = (from, rows, n) => (rows.length < n ? null : from + rows.length);

const VALUES = {
  list: {
    columns: ["Index", "Element"],
    begin: 0,
    async page(ask, key, from, n) {
      const items = await ask("LRANGE", key, from, from + n - 1);
      return [items.map((item, index) => [String(from + index), item]), counted(from, items, n)];
    },
  },
  hash: {
    columns: ["Field", "Value"],
    begin: "0",
    async page(ask, key, from, n) {
      const [next, list] = await ask("HSCAN", key, from, "COUNT", n);
      return [pairsOf(list), next === "0" ? null : next];
    },
  },
  set: {
    columns: ["Member"],
    begin: "0",
    async page(ask, key, from, n) {
      const [next, members] = await ask("SSCAN", key, from, "COUNT", n);
      return [plain(members).map((member) => [member]), next === "0" ? null : next];
    },
  },
  zset: {
    columns: ["Score", "Member"],
    begin: 0,
    async page(ask, key, from, n) {
      const members = await ask("ZRANGE", key, from, from + n - 1, "WITHSCORES");
      return [members.map(([member, score]) => [plain(score), member]), counted(from, members, n)];
    },
  },
  stream: {
    columns: ["Id", "Fields"],
    begin: "-",
    async page(ask, key, from, n) {
      const entries = await ask("XRANGE", key, from, "+", "COUNT", n);
      const rows = entries.map(([id, fields]) => [
        id,
        pairsOf(fields)
          .map((pair) => pair.map((word) => shown(word)).join(" = "))
          .join("\n"),
      ]);
      return [rows, entries.length < n ? null : `(${entries.at(-1)[0]}`];
    },
  },
};

// A page of `most` at most, with fewer where they are so large that the server's answer would be too large.
async function pageOf(most, page) {
  for (let n = most; ; n = Math.ceil(n / 10)) {
    try {
      return await page(n);
    } catch (error) {
      if (n === 1 || !error.message.includes("too large")) throw error;
    }
  }
}

// Elements of a key, with a way to more of them.
async function elements(type, ask, key) {
  const kind = VALUES[type];
  if (!kind) return el("p", {}, `Values of type ${type} are not shown.`);
  const body = el("tbody");
  let from = kind.begin;
  const more = button(
    "More",
    guarded(async () => {
      const [rows, next] = await pageOf(PAGE, (n) => kind.page(ask, key, from, n));
      body.append(
        ...rows.map((row) =>
          el(
            "tr",
            {},
            row.map((cell) => el("td", { class: "code" }, shown(cell, 1000))),
          ),
        ),
      );
      from = next;
      more.hidden = next === null;
    }),
  );
  const head = el(
    "tr",
    {},
    kind.columns.map((title) => el("th", { scope: "col" }, title)),
  );
  const root = el(
    "div",
    { class: "scroll value", tabindex: "0", role: "region", "aria-label": "Elements" },
    el("table", {}, el("caption", {}, "Elements"), el("thead", {}, head), body),
    more,
  );
  more.click();
  return root;
}

// A string: its first bytes, or a form to change it where it is short text.
async function stringValue(ask, key, change) {
  const length = await ask("STRLEN", key);
  const all = length <= EDIT_MAX ? await ask("GETRANGE", key, 0, EDIT_MAX - 1) : null;
  const text = all === null ? null : asText(all);
  if (change && text !== null && !/[\u0000-\u0008\u000b\u000c\u000e-\u001f\r]/.test(text)) {
    const input = el("textarea", { "aria-label": "Value" });
    input.value = text;
    return el(
      "div",
      {},
      input,
      el(
        "p",
        {},
        button("Save", () => change(all, asBytes(input.value)), { class: "main" }),
      ),
    );
  }
  let from = 0;
  const value = el("pre", { class: "value", tabindex: "0", role: "region", "aria-label": "Value" });
  const more = button(
    "More",
    guarded(async () => {
      const part = await ask("GETRANGE", key, from, from + STRING_PAGE - 1);
      value.append(
        asText(part) !== null && from === 0 && length <= STRING_PAGE ? asText(part) : quoted(part).slice(1, -1),
      );
      from += STRING_PAGE;
      more.hidden = from >= length;
    }),
  );
  more.click();
  return el("div", {}, value, more);
}
