"""What the rows of the configuration say is unsupported: the directives in which the server may differ from real ones.

`UNSUPPORTED` has the names, aliases too, of those whose other values are not in force: {name: reason}. Standard library only.
"""
import glob
import os
import re

ROWS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "engine", "src", "config", "rows", "*.rs")
ROW = re.compile(r'^    \w+\(\w+, "([^"]+)".*\.unsupported\((?:"([^"]*)"|(\w+))\)(.*)$')
CONSTANT = re.compile(r'const (\w+): &str = "([^"]*)";')
ALIAS = re.compile(r'\.alias\("([^"]+)"\)')


def unsupported():
    found = {}
    for path in glob.glob(ROWS):
        with open(path) as file:
            lines = file.read().split("\n")
        constants = dict(match.groups() for line in lines if (match := CONSTANT.search(line)))
        for line in lines:
            row = ROW.match(line)
            if row and "Unmet::Shown" not in row[4]:
                for name in (row[1], *ALIAS.findall(line)):
                    found[name] = row[2] or constants[row[3]]
    return found


UNSUPPORTED = unsupported()


def refusal(name):
    """The answer to CONFIG SET."""
    return "CONFIG SET failed (possibly related to argument '%s') - %s" % (name, UNSUPPORTED[name])
