// ---- Elements -------------------------------------------------------------------------------------------------------
// Only these functions make elements. Text becomes text, whatever its content: no part is read as markup.

const $ = (id) => document.getElementById(id);

// el("button", { class: "main", type: "button", onclick: f }, "Start"): properties that begin with `on` are listeners.
function el(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && ["value", "checked", "selected", "disabled", "hidden", "max"].includes(name))
      element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A text that is the same already is not set again: a user who reads it, or has selected it, is not disturbed.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A button. While its action is under way, it ignores clicks.
function button(text, work, properties = {}) {
  let isAtWork = false;
  const onclick = async (event) => {
    if (isAtWork) return;
    isAtWork = true;
    try {
      await work(event);
    } finally {
      isAtWork = false;
    }
  };
  return el("button", { type: "button", onclick, ...properties }, text);
}

const field = (text, input) => el("label", {}, text, input);
const check = (text, input) => el("label", { class: "inline" }, input, text);
const sheet = (title, ...children) => el("section", { class: "sheet" }, title && el("h3", {}, title), ...children);
const options = (pairs, chosen) =>
  pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text ?? value));

// ---- Messages and questions -----------------------------------------------------------------------------------------

let noticeTimer = 0;

// Shows a message once, on screen and to screen readers.
function notify(text) {
  $("notice").textContent = text;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => {
    $("notice").textContent = "";
  }, 8000);
}

// Returns whether the user confirms. The answer that changes nothing has the focus.
function ask(title, text, yes) {
  const dialog = $("question");
  $("question-title").textContent = title;
  $("question-text").textContent = text;
  $("question-yes").textContent = yes;
  return new Promise((resolve) => {
    const end = (answer) => {
      dialog.close();
      resolve(answer);
    };
    $("question-yes").onclick = () => end(true);
    $("question-no").onclick = () => end(false);
    // Escape closes it by itself.
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
    $("question-no").focus();
  });
}

// Tabs: one of several things in the same place. Arrows go from one to the next.
function tabs(label, names, choose) {
  const buttons = names.map((name, index) =>
    button(name, () => select(index), { role: "tab", "aria-selected": "false", tabindex: "-1" }),
  );
  const panel = el("div", { role: "tabpanel" });
  const list = el("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: move }, buttons);
  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    buttons[next].focus();
    select(next);
  }
  function select(chosen) {
    buttons.forEach((tab, index) => {
      tab.setAttribute("aria-selected", index === chosen);
      tab.tabIndex = index === chosen ? 0 : -1;
    });
    panel.setAttribute("aria-label", names[chosen]);
    choose(chosen, panel);
  }
  return { list, panel, select };
}
