"""Directives that the configuration's entries mark as unsupported: the server may differ from real ones in them.

`UNSUPPORTED` has the names, aliases too, of those whose other values are not in force: {name: reason}. Standard library only.
"""
import glob
import os
import re

ENTRIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "engine", "src", "config", "directives", "*.rs")
ENTRY = re.compile(r'^    \w+ = \w+\("([^"]+)".*\.unsupported\((?:"([^"]*)"|(\w+))\)(.*)$')
NAME = re.compile(r'^    \w+ = \w+\("([^"]+)"')
CONSTANT = re.compile(r'const (\w+): &str = "([^"]*)";')
ALIAS = re.compile(r'\.alias\("([^"]+)"\)')


def unsupported(with_shown=False):
    """Returns the unsupported directives, including those whose other values are accepted and shown without effect."""
    found = {}
    for path in glob.glob(ENTRIES):
        with open(path) as file:
            lines = file.read().split("\n")
        constants = dict(match.groups() for line in lines if (match := CONSTANT.search(line)))
        for line in lines:
            entry = ENTRY.match(line)
            if entry and (with_shown or "Unmet::Shown" not in entry[4]):
                for name in (entry[1], *ALIAS.findall(line)):
                    found[name] = entry[2] or constants[entry[3]]
    return found


def aliases():
    """{another name: the directive}"""
    found = {}
    for path in glob.glob(ENTRIES):
        with open(path) as file:
            for line in file:
                name = NAME.match(line)
                found.update({alias: name[1] for alias in ALIAS.findall(line) if name})
    return found


UNSUPPORTED = unsupported()


def refusal(name):
    """Returns the answer to CONFIG SET."""
    return "CONFIG SET failed (possibly related to argument '%s') - %s" % (name, UNSUPPORTED[name])
