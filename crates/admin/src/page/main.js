// ---- The page: which view is shown, new numbers once a second, the theme --------------------------------------------

const EVERY = 1000;

let isPaused = false;
let current = null;
const built = new Map();

// The view that the address names, and its argument: #keys/0/name.
function fromAddress() {
  const [id, ...rest] = location.hash.slice(1).split("/");
  const view = views.find((known) => known.id === id) ?? views[0];
  let what = "";
  try {
    what = decodeURIComponent(rest.join("/"));
  } catch {
    // An address that was made by hand.
  }
  return [view, what];
}

function route() {
  // The link past the views is no view.
  if (location.hash === "#view" && current) {
    $("view").focus();
    return;
  }
  const [view, what] = fromAddress();
  if (!built.has(view)) {
    const root = el(
      "section",
      { id: `view-${view.id}`, "aria-labelledby": `title-${view.id}` },
      el("h2", { id: `title-${view.id}`, tabindex: "-1" }, view.title),
    );
    built.set(view, { root, ...view.build(root) });
    $("view").append(root);
  }
  const next = built.get(view);
  const isFirst = current === null;
  if (current !== next) {
    current?.hide?.();
    for (const { root } of built.values()) root.hidden = root !== next.root;
  }
  for (const link of $("views").querySelectorAll("a")) {
    if (link.hash === `#${view.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} – Cinnabar`;
  // A user who went to another view continues reading there.
  if (!isFirst && current !== next) next.root.querySelector("h2").focus();
  const isNew = current !== next;
  current = next;
  if (server.live) {
    next.update?.();
    if (isNew || what) next.show?.(what);
  }
}

function showState() {
  const { reasons } = server.live;
  const state = $("state");
  setText(state, reasons.length ? `not ready: ${reasons.join(", ")}` : "ready");
  state.className = reasons.length ? "state bad" : "state good";
  // No password was asked for if the default user needs none.
  $("sign-in").hidden = server.live.user !== null && server.live.user !== "default";
  const role = info("role") === "master" ? "primary" : "replica";
  setText(
    $("identity"),
    `${info("cinnabar_version") || info("valkey_version")} · port ${info("tcp_port")} · ${role} · up ${span(infoNumber("uptime_in_seconds"))} · ${server.live.user ? `as ${shown(asBytes(server.live.user))}` : "as nobody"}`,
  );
}

async function tick() {
  const isFirst = server.live === null;
  try {
    await refresh();
    showState();
    current.update?.();
    if (isFirst) current.show?.(fromAddress()[1]);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    $("state").className = "state bad";
    setText($("state"), error.message);
  }
}

// The next answer is requested when the last one has come. A page in the background requests none.
async function keepUp() {
  while (true) {
    if (!isPaused && !document.hidden) await tick().catch((error) => console.error(error));
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

// Browsers may store nothing.
const kept = {
  get(name) {
    try {
      return localStorage.getItem(name) ?? "";
    } catch {
      return "";
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      /* Then it is asked for again. */
    }
  },
};

$("theme").value = kept.get("theme");
setTheme($("theme").value);
$("theme").onchange = () => {
  kept.set("theme", $("theme").value);
  setTheme($("theme").value);
};
$("pause").onclick = () => {
  isPaused = !isPaused;
  $("pause").setAttribute("aria-pressed", isPaused);
};
$("views").append(...views.map(({ id, title }) => el("li", {}, el("a", { href: `#${id}` }, title))));
addEventListener("hashchange", route);
route();
keepUp();
