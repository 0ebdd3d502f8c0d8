// ---- Charts ---------------------------------------------------------------------------------------------------------
// Drawings say in their labels what is to be seen in them, and tables beside them have the numbers.

const color = (index) => `var(--c${index % 8})`;

// Curves over the last minutes. `curves`: [{ name, of: (moment) => number }].
function lineChart(title, curves, format) {
  const [width, height, left, bottom] = [600, 180, 70, 18];
  const paths = curves.map((_, index) => svg("path", { class: "curve", stroke: color(index) }));
  const marks = [0, 0.5, 1].map((part) => {
    const y = 8 + (1 - part) * (height - bottom - 8);
    return {
      part,
      text: svg("text", { x: left - 6, y: y + 4, "text-anchor": "end", class: "quiet" }),
      line: svg("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }),
    };
  });
  const ago = svg("text", { x: left, y: height - 2, class: "quiet" });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img" },
    marks.flatMap(({ line, text }) => [line, text]),
    ago,
    svg("text", { x: width, y: height - 2, "text-anchor": "end", class: "quiet" }, "now"),
    paths,
  );
  const latest = curves.map(({ name }, index) => {
    const number = el("span");
    const patch = svg(
      "svg",
      { viewBox: "0 0 2 2", width: 11, height: 11, "aria-hidden": "true" },
      svg("circle", { cx: 1, cy: 1, r: 1, fill: color(index) }),
    );
    patch.style.cssText = "display:inline;width:.8rem;margin-right:.35rem";
    return { number, item: el("li", {}, patch, `${name} `, number) };
  });
  picture.style.maxWidth = "46rem";
  const root = sheet(
    title,
    picture,
    el(
      "ul",
      { class: "legend" },
      latest.map(({ item }) => item),
    ),
  );

  function update(moments) {
    const most = Math.max(1e-9, ...curves.flatMap(({ of }) => moments.map(of).filter(Number.isFinite)));
    const top = niceLimit(most, format === size ? 1024 : 1000);
    const end = moments.at(-1)?.now ?? 0;
    const length = Math.max(60_000, end - (moments[0]?.now ?? 0));
    const x = (now) => left + (1 - (end - now) / length) * (width - left);
    const y = (number) => 8 + (1 - number / top) * (height - bottom - 8);
    curves.forEach(({ of }, index) => {
      let [path, pen] = ["", "M"];
      for (const moment of moments) {
        const number = of(moment);
        if (!Number.isFinite(number)) {
          pen = "M";
          continue;
        }
        path += `${pen}${x(moment.now).toFixed(1)} ${y(number).toFixed(1)}`;
        pen = "L";
      }
      paths[index].setAttribute("d", path);
      setText(latest[index].number, format(of(moments.at(-1) ?? {})));
    });
    marks.forEach(({ part, text }) => setText(text, format(part * top)));
    setText(ago, `${Math.round(length / 1000)} s`);
    const told = curves.map(({ name }, index) => `${name} ${latest[index].number.textContent}`);
    picture.setAttribute(
      "aria-label",
      `${title}, last ${span(length / 1000)}: now ${told.join(", ")}; scale to ${format(top)}`,
    );
  }
  return { root, update };
}

// The next 1, 2 or 5 times a power of ten, of the largest unit that is not larger; units are so many times as large as
// the one before.
function niceLimit(number, units) {
  const unit = units ** Math.max(0, Math.floor(Math.log(number) / Math.log(units)));
  const power = unit * 10 ** Math.floor(Math.log10(number / unit));
  return [1, 2, 5, 10].map((step) => step * power).find((limit) => limit >= number) ?? number;
}

// How many calls took how long, as columns.
function distributionChart(title, steps) {
  const [width, height, bottom] = [600, 150, 32];
  const most = Math.max(1, ...steps.map(([, n]) => n));
  const step = width / Math.max(8, steps.length);
  const columns = steps.map(([limit, n], index) => {
    const tall = (n / most) * (height - bottom - 16);
    const middle = index * step + step / 2;
    return [
      svg(
        "rect",
        { x: index * step + 3, y: height - bottom - tall, width: step - 6, height: tall, fill: color(0) },
        svg("title", {}, `${count(n)} up to ${duration(limit)}`),
      ),
      svg("text", { x: middle, y: height - bottom - tall - 3, "text-anchor": "middle" }, count(n)),
      svg("text", { x: middle, y: height - bottom + 14, "text-anchor": "middle", class: "quiet" }, duration(limit)),
    ];
  });
  const told = steps.map(([limit, n]) => `${count(n)} up to ${duration(limit)}`).join(", ");
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${told || "none"}` },
    columns,
  );
  picture.style.maxWidth = "46rem";
  return picture;
}

// A bar beside its number.
function bar(part) {
  const element = el("div", { class: "bar", "aria-hidden": "true" });
  element.style.width = `${Math.max(0, Math.min(1, part || 0)) * 100}%`;
  return element;
}
