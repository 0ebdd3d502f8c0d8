"""Compares the server's descriptions of its commands with Valkey's: COMMAND DOCS, COMMAND INFO and HELP.

    docs.py 127.0.0.1:6379 127.0.0.1:6380

The first is the server, the second a Valkey. Commands that Valkey does not know are left out. Replies are compared in the form
in which they were sent, in both protocols, except for the order of sets and maps.
"""
import socket
import sys

from wire import request

# HELP lists the subcommands that there are; of these commands Valkey has more.
PARTIAL_HELP = {"debug"}


class Client:
    """One connection. Replies become tuples of the type's byte and the content."""

    def __init__(self, address, protocol):
        host, port = address.rsplit(":", 1)
        self.file = socket.create_connection((host, int(port)), timeout=30).makefile("rwb")
        self.call("HELLO", str(protocol))

    def call(self, *words):
        self.file.write(request(words))
        self.file.flush()
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = chr(line[0]), line[1:-2].decode()
        if kind in "$=" and rest != "-1":
            text = self.file.read(int(rest) + 2)[:-2].decode()
            return (kind, text)
        if kind in "*>~" and rest != "-1":
            items = tuple(self.read() for _ in range(int(rest)))
            return (kind, tuple(sorted(items, key=repr)) if kind == "~" else items)
        if kind == "%":
            pairs = [(self.read(), self.read()) for _ in range(int(rest))]
            return (kind, tuple(sorted(pairs, key=repr)))
        return (kind, rest)


def names(client):
    found = client.call("COMMAND", "LIST")[1]
    return {name for _, name in found}


def pairs(reply):
    """The pairs of a map, whichever protocol sent it."""
    kind, items = reply
    return list(items) if kind == "%" else list(zip(items[::2], items[1::2]))


def docs(client, name):
    """Returns fields of COMMAND DOCS except for the subcommands, which are asked for by name."""
    found = pairs(client.call("COMMAND", "DOCS", name))
    return [(key, value) for key, value in pairs(found[0][1]) if key[1] != "subcommands"] if found else None


def info(client, name):
    """Returns COMMAND INFO without subcommands; sets, which RESP2 sends as arrays, are compared without order."""
    found = client.call("COMMAND", "INFO", name)[1][0][1]
    return tuple(tuple([part[0], sorted(part[1], key=repr)]) if index in (2, 6) else part for index, part in enumerate(found[:9]))


def kind_of_subcommands(client, name):
    """Returns the type of COMMAND INFO's list of subcommands."""
    return client.call("COMMAND", "INFO", name)[1][0][1][9][0]


def help_of(client, name):
    return client.call(name, "HELP")


def without(help_text, name, own):
    """Returns HELP without the subcommands that only one server has: each is a line, with indented lines of description."""
    kind, lines = help_text
    if kind != "*":
        return help_text
    kept, drops = [], False
    for line in lines:
        if not line[1].startswith(" "):
            drops = "%s|%s" % (name, line[1].split(" ")[0].lower()) in own
        if not drops:
            kept.append(line)
    return (kind, tuple(kept))


def main():
    ours, theirs = sys.argv[1:]
    wrong, compared = [], 0
    for protocol in (2, 3):
        subject = Client(ours, protocol)
        peer = Client(theirs, protocol)
        known = names(peer)
        own = names(subject) - known
        containers = {name.split("|")[0] for name in names(subject) if "|" in name} - PARTIAL_HELP
        checks = [("docs", docs, names(subject)), ("info", info, names(subject)),
                  ("subcommands", kind_of_subcommands, names(subject)), ("help", help_of, containers)]
        for what, ask, asked in checks:
            for name in sorted(asked):
                if name not in known:
                    continue
                compared += 1
                found, expected = ask(subject, name), ask(peer, name)
                if what == "help":
                    found = without(found, name, own)
                if found != expected:
                    wrong.append("%s of %s, RESP%d:\n  found    %r\n  expected %r" % (what, name, protocol, found, expected))
    print("\n".join(wrong))
    print("docs.py: %d replies compared, %d differ" % (compared, len(wrong)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
