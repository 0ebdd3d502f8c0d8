"""Parts that the compat tests share: requests as bytes, a client over one socket, a free port, a server.

The tests need no client library because of them; `clients.py` and `libraries.py` use real ones.
"""
import random
import socket
import subprocess
import time

PATIENCE = 30


def request(words):
    """Returns a command as clients send it; words are bytes, or values with a text."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


# Ports that were found free: a second search may run before the first user has opened its port.
given_ports = set()


def free_port():
    """Returns a port without a listener that was not returned before, and that the system does not give to clients."""
    while True:
        port = random.randrange(12_000, 32_000)
        if port in given_ports:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        given_ports.add(port)
        return port


class Client:
    """Speaks RESP2. Strings become bytes or None, lines bytes with the type's sign, arrays lists."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        self.socket.sendall(request(words))
        return self.read()

    def read(self):
        line = self.file.readline()[:-2]
        if not line:
            raise EOFError("the server closed the connection")
        if line in (b"$-1", b"*-1"):
            return None
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return self.text(self.file.read(int(rest) + 2)[:-2]) if kind == b"$" else self.line(kind, rest)

    def text(self, text):
        return text

    def line(self, kind, rest):
        return kind + rest


class AnyClient(Client):
    """Speaks RESP3, too: maps are lists with their sign before them."""

    def read(self):
        line = self.file.readline()[:-2]
        if not line:
            raise EOFError("the server closed the connection")
        kind, rest = line[:1], line[1:]
        if line in (b"$-1", b"*-1", b"_"):
            return line
        if kind in b"*%~>":
            return [kind, *(self.read() for _ in range(int(rest) * (2 if kind == b"%" else 1)))]
        return kind + self.file.read(int(rest) + 2)[:-2] if kind in b"$=" else line


class TextClient(Client):
    """A client with texts in place of bytes, one character a byte."""

    def text(self, text):
        return text.decode("latin-1")

    def line(self, kind, rest):
        return (kind + rest).decode("latin-1")


def start(binary, scratch, options=()):
    """Starts a server that does not save by itself, in this folder; returns it and a client of it."""
    port = free_port()
    process = subprocess.Popen([binary, "--port", str(port), "--save", "", "--enable-debug-command", "yes", *options],
                               cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            return process, Client(port)
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{binary} does not accept connections")
