// ---- Tables ---------------------------------------------------------------------------------------------------------
// Rows live from one update to the next, so that a focused element keeps the focus. While an element of the table has
// it, the order stays, too.

// columns: [{ title, number, sort: (row) => what to compare,
//             of: (row) => text | element: (row) => what is made once | draw: (cell, row) => at each update }]
// `sorted`: the index of the column by which rows are sorted at first, the largest first.
function table({ caption, columns, key, sorted, most = 200 }) {
  const body = el("tbody");
  const head = columns.map((column, index) => heading(column, index));
  const heads = el("tr", {}, head);
  const text = el("caption", {}, caption);
  const root = el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, text, el("thead", {}, heads), body),
  );
  let [order, isDown, rows, lines] = [sorted, true, [], new Map()];

  function heading({ title, number, sort }, index) {
    const cell = el("th", { scope: "col", class: number && "number" });
    cell.append(
      sort
        ? button(title, () => {
            isDown = order === index ? !isDown : true;
            order = index;
            show();
          })
        : title,
    );
    return cell;
  }

  function line(row) {
    const cells = columns.map(({ number, element }, index) => {
      const cell = el(index === 0 && !element ? "th" : "td", { class: number && "number" });
      if (index === 0 && !element) cell.scope = "row";
      if (element) cell.append(element(row));
      return cell;
    });
    return { root: el("tr", {}, cells), cells };
  }

  function show() {
    head.forEach((cell, index) => {
      if (order === index) cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const chosen = [...rows];
    if (order !== undefined) {
      const of = columns[order].sort;
      const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
      chosen.sort((a, b) => compare(of(a), of(b)) * (isDown ? -1 : 1));
    }
    const seen = new Map();
    for (const row of chosen.slice(0, most)) {
      const name = key(row);
      const known = lines.get(name) ?? line(row);
      seen.set(name, known);
      columns.forEach(({ of, draw }, index) => {
        if (of) setText(known.cells[index], String(of(row)));
        if (draw) draw(known.cells[index], row);
      });
    }
    for (const [name, known] of lines) if (!seen.has(name)) known.root.remove();
    const isHeld = body.contains(document.activeElement);
    let next = body.firstChild;
    for (const { root } of seen.values()) {
      if (root === next) next = next.nextSibling;
      else if (!root.isConnected || !isHeld) body.insertBefore(root, next);
    }
    lines = seen;
    const left = chosen.length - seen.size;
    setText(text, left > 0 ? `${caption} (${left} more are not shown)` : caption);
  }

  return {
    root,
    update(all) {
      rows = all;
      show();
    },
  };
}
