// ---- Replies as text, in the form of redis-cli ----------------------------------------------------------------------

// A reply with its line ends. Lines after the first begin with `indent`.
function replyText(reply, indent = "") {
  if (reply === null) return "(nil)\n";
  if (reply === true) return "(true)\n";
  if (reply === false) return "(false)\n";
  if (typeof reply === "number") return `(integer) ${reply}\n`;
  if (typeof reply === "string") return `${quoted(reply)}\n`;
  if (Array.isArray(reply)) return itemsText(reply, ")", "(empty array)", indent);
  const [kind] = Object.keys(reply);
  switch (kind) {
    case "integer":
      return `(integer) ${reply.integer}\n`;
    case "status":
      return `${reply.status}\n`;
    case "error":
      return `(error) ${asText(reply.error) ?? quoted(reply.error)}\n`;
    case "double":
      return `(double) ${reply.double}\n`;
    case "big":
      return `(big number) ${reply.big}\n`;
    case "verbatim":
      return `${asText(reply.verbatim) ?? quoted(reply.verbatim)}\n`;
    case "set":
      return itemsText(reply.set, "~", "(empty set)", indent);
    case "push":
      return itemsText(reply.push, ")", "(empty push)", indent);
    case "map":
      return mapText(reply.map, indent);
    default:
      return replyText(reply.value, indent);
  }
}

// The first number has no indent of its own: it stands behind that of its aggregate.
function itemsText(items, mark, empty, indent) {
  if (items.length === 0) return `${empty}\n`;
  const width = String(items.length).length;
  const nested = indent + " ".repeat(width + 2);
  return items
    .map(
      (item, index) =>
        `${index === 0 ? "" : indent}${String(index + 1).padStart(width)}${mark} ${replyText(item, nested)}`,
    )
    .join("");
}

function mapText(pairs, indent) {
  if (pairs.length === 0) return "(empty hash)\n";
  const width = String(pairs.length).length;
  const nested = indent + " ".repeat(width + 2);
  return pairs
    .map(([key, value], index) => {
      const text = replyText(value, nested);
      const isLong = text.indexOf("\n") < text.length - 1;
      return `${index === 0 ? "" : indent}${String(index + 1).padStart(width)}# ${replyText(key, nested).slice(0, -1)} => ${isLong ? `\n${nested}` : ""}${text}`;
    })
    .join("");
}
