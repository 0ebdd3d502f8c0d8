// ---- Numbers --------------------------------------------------------------------------------------------------------

function count(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1e9) return (number / 1e9).toFixed(2) + " G";
  if (size >= 1e6) return (number / 1e6).toFixed(2) + " M";
  if (size >= 1e4) return (number / 1e3).toFixed(1) + " k";
  return size >= 100 || Number.isInteger(number) ? Math.round(number).toLocaleString("en") : number.toFixed(1);
}

function size(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

function duration(nanos) {
  if (!Number.isFinite(nanos)) return "–";
  for (const [unit, name] of [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
  ]) {
    if (nanos >= unit) return `${nanos / unit >= 100 ? Math.round(nanos / unit) : (nanos / unit).toFixed(1)} ${name}`;
  }
  return `${Math.round(nanos)} ns`;
}

function span(seconds) {
  const [days, hours, minutes] = [
    Math.floor(seconds / 86400),
    Math.floor(seconds / 3600) % 24,
    Math.floor(seconds / 60) % 60,
  ];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

const percent = (part) => (Number.isFinite(part) ? `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %` : "–");

// ---- Bytes ----------------------------------------------------------------------------------------------------------
// Strings from and to the server have a character for each byte. They are decoded here, and only for display.

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// The text of the bytes, or null if they are none.
function asText(bytes) {
  try {
    return utf8.decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)));
  } catch {
    return null;
  }
}

// The bytes of a text that was typed.
function asBytes(text) {
  let bytes = "";
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte);
  return bytes;
}

const ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x07": "\\a", "\b": "\\b", '"': '\\"', "\\": "\\\\" };

// In quotes, as redis-cli prints strings.
function quoted(bytes) {
  let text = '"';
  for (const c of bytes) {
    const hex = () => "\\x" + c.charCodeAt(0).toString(16).padStart(2, "0");
    text += ESCAPES[c] ?? (c >= " " && c <= "~" ? c : hex());
  }
  return text + '"';
}

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;

// Returns one line of text as it is, and other bytes in quotes: an invisible byte must not look like another text.
function shown(bytes, most = 300) {
  const text = asText(bytes);
  const all = text !== null && text !== "" && !CONTROL.test(text) ? text : quoted(bytes);
  return all.length > most ? `${all.slice(0, most)}… (${size(bytes.length)})` : all;
}
