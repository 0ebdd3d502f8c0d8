// ---- Replication and cluster, as pictures with their tables ---------------------------------------------------------

views.push({
  id: "topology",
  title: "Replication & cluster",
  build(root) {
    const replication = el("div");
    const cluster = el("div");
    let timer = 0;
    let drawn = "";
    root.append(sheet("Replication", replication), cluster);

    async function loadCluster() {
      cluster.replaceChildren(clusterSheet(parseNodes(plain(await one("CLUSTER", "NODES")))));
    }

    return {
      update() {
        const servers = replicationServers();
        const text = JSON.stringify(servers);
        if (text === drawn) return;
        drawn = text;
        replication.replaceChildren(replicationPicture(servers), replicationTable(servers));
      },
      show() {
        if (!isCluster()) {
          cluster.replaceChildren(el("p", { class: "quiet" }, "The server is no node of a cluster."));
          return;
        }
        guarded(loadCluster)();
        timer = setInterval(() => !document.hidden && !isPaused && guarded(loadCluster)(), 5000);
      },
      hide: () => clearInterval(timer),
    };
  },
});

// This server, its primary, and its replicas.
function replicationServers() {
  const offset = infoNumber("master_repl_offset");
  const self = {
    name: `this server, port ${info("tcp_port")}`,
    role: info("role") === "master" ? "primary" : "replica",
    detail: `offset ${offset}`,
  };
  const above = info("master_host") && {
    name: `${info("master_host")}:${info("master_port")}`,
    role: "primary",
    isUp: info("master_link_status") === "up",
    detail:
      info("master_link_status") === "up" ? `heard of ${info("master_last_io_seconds_ago")} s ago` : "the link is down",
  };
  const below = [];
  for (let number = 0; info(`slave${number}`); number += 1) {
    const of = Object.fromEntries(
      info(`slave${number}`)
        .split(",")
        .map((pair) => pair.split("=")),
    );
    below.push({
      name: `${of.ip}:${of.port}`,
      role: "replica",
      isUp: of.state === "online",
      detail:
        of.state === "online"
          ? `${size(Math.max(0, offset - Number(of.offset)))} behind, heard of ${of.lag} s ago`
          : of.state,
    });
  }
  return { self, above, below };
}

function serverBox({ name, role, detail }, x, y, width, isSelf) {
  return [
    svg("rect", { x, y, width, height: 58, rx: 6, class: isSelf ? "box self" : "box" }),
    svg("text", { x: x + 10, y: y + 19 }, name),
    svg("text", { x: x + 10, y: y + 35, class: "quiet" }, role),
    svg("text", { x: x + 10, y: y + 50, class: "quiet" }, detail),
  ];
}

function replicationPicture({ self, above, below }) {
  const boxWidth = 250;
  const columns = Math.max(1, Math.min(4, below.length));
  const width = Math.max(560, columns * (boxWidth + 20));
  const middle = width / 2;
  const top = above ? 100 : 10;
  const rowsOf = Math.ceil(below.length / 4);
  const edge = (x, from, to, isUp) =>
    svg("path", { d: `M${middle} ${from}V${(from + to) / 2}H${x}V${to}`, class: isUp ? "edge" : "edge broken" });
  const parts = [];
  if (above) parts.push(edge(middle, 68, top, above.isUp), serverBox(above, middle - boxWidth / 2, 10, boxWidth));
  below.forEach((replica, index) => {
    const x = (index % 4) * (boxWidth + 20) + (width - columns * (boxWidth + 20)) / 2 + 10;
    const y = top + 100 + Math.floor(index / 4) * 80;
    parts.push(edge(x + boxWidth / 2, top + 58, y, replica.isUp), serverBox(replica, x, y, boxWidth));
  });
  parts.push(serverBox(self, middle - boxWidth / 2, top, boxWidth, true));
  const follows = above ? `follows ${above.name}, ${above.detail}` : "follows no server";
  const label = `This server is a ${self.role}, ${follows}, and has ${below.length} replicas`;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${top + 70 + rowsOf * 90}`, role: "img", "aria-label": label },
    parts.flat(),
  );
  picture.style.maxWidth = `${width}px`;
  return picture;
}

function replicationTable({ self, above, below }) {
  const rows = [
    above && { place: "primary of this server", ...above },
    { place: "this server", ...self },
    ...below.map((replica) => ({ place: "replica of this server", ...replica })),
  ];
  const all = table({
    caption: "Servers of the replication",
    key: ({ name }) => name,
    columns: [
      { title: "Server", of: ({ name }) => name },
      { title: "Is", of: ({ place, role }) => (place === "this server" ? `this server, a ${role}` : place) },
      { title: "State", of: ({ detail }) => detail },
    ],
  });
  all.update(rows.filter(Boolean));
  return all.root;
}

// ---- Cluster --------------------------------------------------------------------------------------------------------

const SLOTS = 16384;

// Lines of CLUSTER NODES: id, address, flags, primary, two times, epoch, link, slots.
function parseNodes(text) {
  const nodes = text
    .split("\n")
    .filter(Boolean)
    .map((line) => {
      const [id, address, flags, primary, , , , link, ...slots] = line.split(" ");
      const ranges = slots
        .filter((range) => !range.startsWith("["))
        .map((range) => {
          const [first, last] = range.split("-").map(Number);
          return [first, last ?? first];
        });
      const has = (flag) => flags.split(",").includes(flag);
      return {
        id,
        name: address.split("@")[0],
        primary: primary === "-" ? null : primary,
        ranges,
        isSelf: has("myself"),
        isWell: !has("fail") && !has("fail?") && (link === "connected" || has("myself")),
        moving: slots.filter((range) => range.startsWith("[")).length,
        slots: ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0),
      };
    });
  const primaries = nodes
    .filter(({ primary }) => !primary)
    .sort((a, b) => (a.ranges[0]?.[0] ?? SLOTS) - (b.ranges[0]?.[0] ?? SLOTS));
  return primaries.map((node, index) => ({
    ...node,
    index,
    replicas: nodes.filter(({ primary }) => primary === node.id),
  }));
}

function clusterSheet(primaries) {
  const all = table({
    caption: "Nodes of the cluster",
    key: ({ id }) => id,
    columns: [
      { title: "Node", of: ({ name, isSelf }) => name + (isSelf ? " (this server)" : "") },
      { title: "Role", of: ({ primary }) => (primary ? "replica" : "primary") },
      {
        title: "State",
        of: ({ isWell, moving }) =>
          (isWell ? "connected" : "not reached") + (moving ? `, ${moving} slots are moved` : ""),
      },
      { title: "Slots", number: true, of: ({ slots, primary }) => (primary ? "" : count(slots)) },
      {
        title: "Ranges",
        of: ({ ranges }) => ranges.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", "),
      },
    ],
  });
  all.update(primaries.flatMap((node) => [node, ...node.replicas]));
  return sheet("Cluster", clusterPicture(primaries), all.root);
}

function clusterPicture(primaries) {
  const [width, boxWidth, gap] = [1160, 270, 20];
  const most = Math.max(0, ...primaries.map(({ replicas }) => replicas.length));
  const tall = 58 + most * 66 + 20;
  const map = primaries.flatMap(({ ranges, index, name }) =>
    ranges.map(([first, last]) =>
      svg(
        "rect",
        {
          x: (first / SLOTS) * width,
          y: 4,
          width: Math.max(1, ((last - first + 1) / SLOTS) * width),
          height: 26,
          fill: color(index),
        },
        svg("title", {}, `${name}: ${first}–${last}`),
      ),
    ),
  );
  const boxes = primaries.flatMap((node) => {
    const x = (node.index % 4) * (boxWidth + gap) + 6;
    const y = 64 + Math.floor(node.index / 4) * tall;
    const of = (it, detail) => ({ name: it.name, role: it.primary ? "replica" : "primary", detail });
    const own = serverBox(
      of(node, `${count(node.slots)} slots${node.isWell ? "" : ", not reached"}`),
      x,
      y,
      boxWidth,
      node.isSelf,
    );
    const patch = svg("rect", {
      x: x + boxWidth - 24,
      y: y + 8,
      width: 16,
      height: 16,
      rx: 3,
      fill: color(node.index),
    });
    const under = node.replicas.flatMap((replica, at) => {
      const below = y + 66 * (at + 1);
      return [
        svg("path", {
          d: `M${x + 12} ${y + 58}V${below + 29}H${x + 28}`,
          class: replica.isWell ? "edge" : "edge broken",
        }),
        ...serverBox(
          of(replica, replica.isWell ? "follows" : "not reached"),
          x + 28,
          below,
          boxWidth - 28,
          replica.isSelf,
        ),
      ];
    });
    return [...under, ...own, patch];
  });
  const covered = primaries.reduce((sum, { slots }) => sum + slots, 0);
  const told = primaries
    .map(({ name, slots, replicas }) => `${name} with ${slots} slots and ${replicas.length} replicas`)
    .join("; ");
  const height = 64 + Math.ceil(primaries.length / 4) * tall;
  return svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${primaries.length} primaries: ${told}. ${covered} of ${SLOTS} slots are served.`,
    },
    svg("rect", { x: 0, y: 4, width, height: 26, class: "box" }),
    map,
    svg("text", { x: 0, y: 46, class: "quiet" }, "slot 0"),
    svg("text", { x: width, y: 46, "text-anchor": "end", class: "quiet" }, "16383"),
    boxes,
  );
}
