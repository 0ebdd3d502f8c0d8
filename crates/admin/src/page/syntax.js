// ---- Typed text: words, and the syntax of commands ------------------------------------------------------------------

const UNESCAPED = { n: "\n", r: "\r", t: "\t", b: "\b", a: "\x07" };

// The words of a line as redis-cli reads them, each as bytes: "a\x00b" with escapes, 'a b' without. Null: quotes are open,
// or something stands right behind them.
function words(line) {
  const found = [];
  let at = 0;
  const isBlank = (c) => c === undefined || /\s/.test(c);
  while (true) {
    while (at < line.length && isBlank(line[at])) at += 1;
    if (at >= line.length) return found;
    let word = "";
    while (!isBlank(line[at])) {
      const quote = line[at];
      if (quote !== '"' && quote !== "'") {
        word += asBytes(String.fromCodePoint(line.codePointAt(at)));
        at += line.codePointAt(at) > 0xffff ? 2 : 1;
        continue;
      }
      for (at += 1; line[at] !== quote;) {
        if (at >= line.length) return null;
        const [part, length] =
          quote === '"' ? escaped(line, at) : line.startsWith("\\'", at) ? ["'", 2] : letter(line, at);
        word += part;
        at += length;
      }
      at += 1;
      if (!isBlank(line[at])) return null;
    }
    found.push(word);
  }
}

// The bytes of the character or escape there within double quotes, and how many characters it takes.
function escaped(line, at) {
  const hex = /^\\x([0-9a-fA-F]{2})/.exec(line.slice(at, at + 4));
  if (hex) return [String.fromCharCode(parseInt(hex[1], 16)), 4];
  if (line[at] === "\\" && at + 1 < line.length) {
    const [part, length] = letter(line, at + 1);
    return [UNESCAPED[line[at + 1]] ?? part, length + 1];
  }
  return letter(line, at);
}

function letter(line, at) {
  const c = String.fromCodePoint(line.codePointAt(at));
  return [asBytes(c), c.length];
}

// Documentation of all commands by name in capitals, with those of containers: "CONFIG SET".
const docs = { commands: new Map(), loading: null };

// Asks for it once.
function loadDocs() {
  docs.loading ??= one("COMMAND", "DOCS")
    .then((reply) => readDocs(reply))
    .catch((error) => {
      docs.loading = null;
      throw error;
    });
  return docs.loading;
}

function readDocs(reply) {
  for (const [name, value] of Object.entries(asObject(reply))) {
    const of = asObject(value);
    docs.commands.set(name.replace("|", " ").toUpperCase(), of);
    if (of.subcommands) readDocs(of.subcommands);
  }
}

// The command that a line begins with: of a container's the subcommand, where it is named.
function documented(line) {
  const [first = "", second = ""] = line.trim().toUpperCase().split(/\s+/);
  return [`${first} ${second}`, first].find((name) => docs.commands.has(name)) ?? null;
}

// The arguments of a command as one line.
const syntaxOf = (of) => (of.arguments ?? []).map(argumentText).join(" ");

function argumentText(reply) {
  const of = asObject(reply);
  const flags = plain(of.flags ?? []).map(plain);
  const inner = (separator) => (of.arguments ?? []).map(argumentText).join(separator);
  const kind = plain(of.type);
  const value =
    kind === "oneof"
      ? inner("|")
      : kind === "block"
        ? inner(" ")
        : kind === "pure-token"
          ? ""
          : plain(of.display_text ?? of.name);
  const token = of.token === undefined ? "" : plain(of.token) || '""';
  let text = [token, value].filter(Boolean).join(" ");
  if (flags.includes("multiple")) text += ` [${flags.includes("multiple_token") ? text : value} ...]`;
  const isOpen = kind === "oneof" && !flags.includes("optional");
  return flags.includes("optional") ? `[${text}]` : isOpen ? `<${text}>` : text;
}
