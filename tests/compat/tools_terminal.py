"""Programs on a terminal: keys typed into them, and the screen after each.

The screen understands what line editors and the tools send: ends of lines, the cursor moved, parts erased. Colors are
kept, as what they are, in front of the characters that they are for.
"""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

WIDTH, HEIGHT = 240, 50
PATIENCE = 3
# Without output for so long, the program waits for keys.
QUIET = 0.15
# Time for the first output: the machine may have other work.
FIRST = 1.5


def on_terminal(command, environment, keys, call):
    """Runs the program on a terminal and types `keys`, each once the program has come to rest; a tuple among them is a
    command for the server. Answers the raw bytes where the terminal can do nothing, else the screen after each of them."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    dumb = environment["TERM"] == "dumb"
    screen, shown, ended = Screen(), [], False
    try:
        for key in [None, *keys]:
            if isinstance(key, tuple):
                call(*key)
            elif key is not None and not ended:
                os.write(terminal, key)
            out, ended = until_quiet(terminal)
            screen.feed(out)
            shown.append(out.decode("utf-8", "backslashreplace") if dumb else "-- %r\n%s\n" % (key, screen.text()))
            if ended:
                break
    finally:
        if not ended:
            os.kill(pid, 15)
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return "".join(shown) + "\n-- status %s" % (os.waitstatus_to_exitcode(status) if ended else "none")


def until_quiet(terminal):
    """Returns the output until the program is quiet, and whether it has ended."""
    out, last = b"", time.monotonic()
    while time.monotonic() < last + PATIENCE:
        ready, _, _ = select.select([terminal], [], [], QUIET if out else FIRST)
        if not ready:
            break
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            return out, True
        if not piece:
            return out, True
        out += piece
    return out, False


class Screen:
    def __init__(self):
        self.lines, self.row, self.column, self.color = [[]], 0, 0, ""

    def feed(self, out):
        text = out.decode("utf-8", "backslashreplace")
        for found in re.finditer(r"\x1b\[([\d;?]*)([A-Za-z])|\x1b.|([\r\n\x07\x08])|([^\x1b\r\n\x07\x08])", text):
            numbers, letter, control, character = found.groups()
            if letter:
                self.move(numbers, letter)
            elif control:
                self.control(control)
            elif character:
                if self.column == WIDTH:
                    self.control("\r")
                    self.control("\n")
                line = self.lines[self.row]
                line += [" "] * (self.column + 1 - len(line))
                line[self.column] = self.color + character
                self.column += 1

    def control(self, control):
        if control == "\r":
            self.column = 0
        elif control == "\n":
            self.row += 1
            self.lines += [[] for _ in range(self.row + 1 - len(self.lines))]
        elif control == "\x08":
            self.column = max(self.column - 1, 0)

    def move(self, numbers, letter):
        number = int(numbers) if numbers.isdigit() else 0
        line = self.lines[self.row]
        if letter == "m":
            self.color = "" if numbers in ("", "0") else "<%s>" % numbers
        elif letter == "C":
            self.column += number or 1
        elif letter == "D":
            self.column = max(self.column - (number or 1), 0)
        elif letter == "A":
            self.row = max(self.row - (number or 1), 0)
        elif letter == "B":
            self.row = min(self.row + (number or 1), len(self.lines) - 1)
        elif letter == "G":
            self.column = max(number - 1, 0)
        elif letter == "H":
            self.row, self.column = 0, 0
        elif letter == "K" and number == 0:
            del line[self.column:]
        elif letter == "K":
            line.clear()
        elif letter == "J" and number == 0:
            del line[self.column:]
            del self.lines[self.row + 1:]
        elif letter == "J":
            self.lines = [[] for _ in range(self.row + 1)]

    def text(self):
        lines = ["".join(line).rstrip() for line in self.lines]
        return "\n".join(lines).rstrip("\n") + "\n(cursor %d %d)" % (self.row, self.column)
