// ---- Console --------------------------------------------------------------------------------------------------------
// Each line is a connection of its own, of the page's user: a transaction or a subscription has no place here.

const LINES_MAX = 500;
const TRANSACTIONS = ["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"];
// Commands of the dangerous category that only read, or are refused here anyway.
const HARMLESS =
  /^(info|lastsave|role|sort_ro|monitor|psync|sync|latency\|.*|.*\|(get|list|len|users|getuser|dryrun|log|replicas|slaves|getslotmigrations|count-failure-reports|stop))$/;

views.push({
  id: "console",
  title: "Console",
  build(root) {
    const history = [];
    let [place, db, active] = [0, 0, -1];
    const log = el("div", { class: "log code", role: "log", "aria-label": "Commands and replies", tabindex: "0" });
    const prompt = el("label", { for: "line", class: "code inline" }, "db0>");
    const input = el("input", {
      id: "line",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": "completions",
      "aria-autocomplete": "list",
      "aria-describedby": "hint",
      onkeydown: key,
      oninput: suggest,
    });
    const completions = el("ul", { id: "completions", class: "options", role: "listbox", "aria-label": "Commands" });
    const hint = el("p", { id: "hint", class: "code" });
    const help = el("div", { class: "quiet" });
    const form = el(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          enter();
        },
      },
      el("div", { class: "prompt" }, prompt, input, el("button", { class: "main" }, "Run")),
    );
    root.append(
      sheet(
        null,
        log,
        form,
        completions,
        hint,
        help,
        el(
          "p",
          { class: "quiet" },
          "Quotes as in redis-cli: \"a\\x00b\" with escapes, 'a b' without. Arrow up for earlier lines, Tab for the first suggestion. CLEAR empties what is shown.",
        ),
      ),
    );

    function print(text, kind) {
      log.append(el("div", { class: kind }, text));
      while (log.childElementCount > LINES_MAX) log.firstChild.remove();
      log.scrollTop = log.scrollHeight;
    }

    async function enter() {
      const line = input.value.trim();
      if (!line) return;
      if (history.at(-1) !== line) history.push(line);
      place = history.length;
      input.value = "";
      suggest();
      print(`db${db}> ${line}`, "line");
      try {
        await execute(line);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        print(error.message, "bad");
      }
    }

    async function execute(line) {
      const command = words(line);
      if (command === null) throw new Refusal("Invalid argument(s)");
      const name = command[0].toUpperCase();
      if (name === "CLEAR") return log.replaceChildren();
      if (name === "HELP") return describe(line.slice(4));
      if (TRANSACTIONS.includes(name)) {
        throw new Refusal(`${name} is for connections that last. Here each line has one of its own: use cinnabar-cli.`);
      }
      const doubt = await doubtAbout(command);
      if (doubt && !(await ask("Run it?", `${line.slice(0, 200)} ${doubt}`, "Run"))) {
        return print("Not run.", "line");
      }
      input.focus();
      const [reply] = await run([command], db);
      if (name === "SELECT" && reply?.status === "OK") {
        db = Number(command[1]);
        setText(prompt, `db${db}>`);
      }
      print(replyText(reply).trimEnd());
    }

    // Returns the reason to ask the user before this runs, by the server's data about its commands; nothing if none.
    async function doubtAbout([name, second = ""]) {
      const [reply] = await run([["COMMAND", "INFO", name]]);
      if (reply?.error) return "may do harm: the user may not run COMMAND INFO, which would tell.";
      const of = reply?.[0];
      if (!of) return "";
      const wanted = `${plain(of[0])}|${second}`.toLowerCase();
      const entry = (plain(of[9]) ?? []).find((sub) => plain(sub[0]).toLowerCase() === wanted) ?? of;
      const [full, flags, categories] = [plain(entry[0]), ...[2, 6].map((at) => plain(entry[at]).map(plain))];
      // A command that writes and names no keys may write all of them.
      const isWide = flags.includes("write") && entry[3] === 0 && plain(entry[8]).length === 0;
      const isFlush = full.endsWith("|flush");
      const isDangerous = categories.includes("@dangerous") && !HARMLESS.test(full);
      return isWide || isFlush || isDangerous ? "may remove data, or keep all clients waiting." : "";
    }

    async function describe(line) {
      await loadDocs();
      const name = documented(line);
      if (!name) throw new Refusal("HELP and the name of a command tells of it.");
      const of = docs.commands.get(name);
      print(
        `${name} ${syntaxOf(of)}\n${plain(of.summary)}\nSince ${plain(of.since)}, ${plain(of.group)}. ${plain(of.complexity)}`,
      );
    }

    // Names of commands that begin like the line, while its name is typed; the syntax once it is.
    function suggest() {
      const line = input.value;
      const typed = line.trimStart().toUpperCase();
      const names =
        typed && !documentedWhole(typed)
          ? [...docs.commands.keys()]
              .filter((name) => name.startsWith(typed))
              .sort()
              .slice(0, 12)
          : [];
      active = -1;
      completions.replaceChildren(
        ...names.map((name, index) =>
          el(
            "li",
            {
              id: `completion-${index}`,
              role: "option",
              "aria-selected": "false",
              onmousedown: (event) => {
                event.preventDefault();
                take(name);
              },
            },
            name,
          ),
        ),
      );
      input.setAttribute("aria-expanded", names.length > 0);
      input.removeAttribute("aria-activedescendant");
      const name = documented(line);
      const of = name && docs.commands.get(name);
      setText(hint, of ? `${name} ${syntaxOf(of)}` : "");
      setText(help, of ? `${plain(of.summary)} ${plain(of.complexity ?? "")}` : "");
    }

    // A name and a blank behind it, of a command that has no subcommands.
    function documentedWhole(typed) {
      const name = documented(typed);
      return name !== null && typed.startsWith(`${name} `) && !docs.commands.get(name).subcommands;
    }

    function take(name) {
      input.value = `${name} `;
      input.focus();
      suggest();
    }

    function key(event) {
      const all = [...completions.children];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && all.length && (active >= 0 || step > 0)) {
        active = Math.max(-1, Math.min(all.length - 1, active + step));
        all.forEach((option, index) => option.setAttribute("aria-selected", index === active));
        if (active >= 0) input.setAttribute("aria-activedescendant", all[active].id);
        else input.removeAttribute("aria-activedescendant");
      } else if (step) {
        place = Math.max(0, Math.min(history.length, place + step));
        input.value = history[place] ?? "";
        suggest();
      } else if (event.key === "Tab" && !event.shiftKey && all.length) {
        take(all[Math.max(0, active)].textContent);
      } else if (event.key === "Enter" && active >= 0) {
        take(all[active].textContent);
      } else if (event.key === "Escape") {
        completions.replaceChildren();
        active = -1;
        input.setAttribute("aria-expanded", "false");
        return;
      } else {
        return;
      }
      event.preventDefault();
    }

    return {
      show() {
        guarded(async () => {
          await loadDocs();
          suggest();
        })();
        input.focus();
      },
    };
  },
});
