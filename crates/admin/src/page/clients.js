// ---- Clients: who is connected, and what each does ------------------------------------------------------------------

const CLIENTS_EVERY = 3000;

views.push({
  id: "clients",
  title: "Clients",
  build(root) {
    let [timer, clients] = [0, []];
    const filter = el("input", { type: "search", oninput: show });
    const follows = el("input", { type: "checkbox", checked: true });
    const number = (name) => ({ sort: (row) => Number(row[name]), number: true });
    const all = table({
      caption: "Clients by CLIENT LIST",
      key: ({ id }) => id,
      sorted: 0,
      columns: [
        { title: "Id", of: ({ id }) => id, ...number("id") },
        { title: "Address", of: ({ addr }) => addr, sort: ({ addr }) => addr },
        { title: "Name", of: ({ name }) => (shown(name || "") === '""' ? "" : shown(name)), sort: ({ name }) => name },
        { title: "User", of: ({ user }) => shown(user), sort: ({ user }) => user },
        { title: "Library", of: ({ "lib-name": name, "lib-ver": version }) => `${name} ${version}` },
        { title: "Command", of: ({ cmd }) => cmd.replace("|", " "), sort: ({ cmd }) => cmd },
        { title: "Db", of: ({ db }) => db, ...number("db") },
        { title: "Age", of: ({ age }) => span(Number(age)), ...number("age") },
        { title: "Idle", of: ({ idle }) => span(Number(idle)), ...number("idle") },
        { title: "Memory", of: (row) => size(Number(row["tot-mem"])), ...number("tot-mem") },
        { title: "Flags", of: ({ flags }) => flags },
        {
          title: "Action",
          element: (row) =>
            (may("client|kill") &&
              button("Disconnect", () => kill(row), {
                class: "danger",
                "aria-label": `Disconnect client ${row.id}`,
              })) ||
            "",
        },
      ],
    });
    root.append(
      el(
        "p",
        { class: "row" },
        field("Filter", filter),
        button("Refresh", guarded(load)),
        check("Every 3 seconds", follows),
      ),
      sheet(null, all.root),
    );

    // Names of clients have no spaces in them.
    async function load() {
      const list = plain(await one("CLIENT", "LIST"));
      clients = list
        .split("\n")
        .filter(Boolean)
        .map((line) =>
          Object.fromEntries(
            line.split(" ").map((pair) => {
              const at = pair.indexOf("=");
              return [pair.slice(0, at), pair.slice(at + 1)];
            }),
          ),
        );
      show();
    }

    function show() {
      const wanted = filter.value.toLowerCase();
      all.update(
        clients.filter((client) => Object.values(client).some((value) => value.toLowerCase().includes(wanted))),
      );
    }

    const kill = guarded(async ({ id, addr }) => {
      if (
        !(await ask(
          "Disconnect the client?",
          `Client ${id} at ${addr} is disconnected. It may connect again.`,
          "Disconnect",
        ))
      )
        return;
      const ended = await one("CLIENT", "KILL", "ID", id);
      notify(ended === 1 ? `Client ${id} was disconnected.` : `Client ${id} was gone already.`);
      await load();
    });

    return {
      show() {
        guarded(load)();
        timer = setInterval(() => follows.checked && !document.hidden && !isPaused && guarded(load)(), CLIENTS_EVERY);
      },
      hide: () => clearInterval(timer),
    };
  },
});
