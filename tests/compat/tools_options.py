"""Every option that the real tools' --help lists, tried on both programs, and words that are none.

No server is at the address, so a program that takes an option fails to connect, and one that does not says so first.
"""
import re
import subprocess

PATIENCE = 30
# A line of the help that begins with an option, and the value that the option takes.
OPTION = re.compile(r"^ {1,4}(-[\w-]+)(?: (<[^>]+>))?")
REFUSED = re.compile(r"Unrecognized option|Invalid option|not supported")
# Values of options that do not take every number.
VALUES = {"--cluster": "help", "--eval": "/dev/null", "--show-pushes": "no", "--rfr": "no", "-u": "redis://127.0.0.1:1",
          "-h": "127.0.0.1", "-s": "/nonexistent", "--sni": "localhost", "-t": "1", "-X": "ping"}
BENCHMARK_VALUES = {"-t": "get", "--fuzz-mode": "malformed-commands", "--fuzz-loglevel": "none"}
# Options of the real tools that ours do not have.
LACKING = {"cli": set(), "benchmark": set()}


def differences(tool, ours, theirs):
    """Returns a line for each option that differs between the programs, and the number of lines that were tried."""
    listed = [found for found in map(OPTION.match, run(theirs, "--help")[1].splitlines()) if found]
    values = {**VALUES, **(BENCHMARK_VALUES if tool == "benchmark" else {})}
    found, tried = [], 0
    for option, value in dict.fromkeys(option.groups() for option in listed):
        command = ["ping"] if option == "-X" else []
        given = [option] + ([values.get(option, "1")] if value or option in ("-X", "--precision") else []) + command
        wrong = option in LACKING[tool]
        tried += 1
        (status, out, err), (their_status, *_) = run(ours, "-p", "1", *given), run(theirs, "-p", "1", *given)
        if bool(REFUSED.search(out + err)) != wrong:
            found.append("%s %s: %s" % (tool, " ".join(given), "is there" if wrong else "is refused: " + err.strip()))
        elif status != their_status and not wrong:
            found.append("%s %s: status %d, theirs %d" % (tool, " ".join(given), status, their_status))
        if value and option not in ("-h", "--rfr", "--cluster") and not wrong:
            tried += 1
            found += wrong_use(tool, ours, theirs, option)
    return found + wrong_use(tool, ours, theirs, "--nosuch"), tried + 1


def wrong_use(tool, ours, theirs, *line):
    """A word that is no option, or an option without its value, is named in one line on standard error."""
    (status, out, err), (their_status, their_out, their_err) = run(ours, *line), run(theirs, *line)
    told = (their_err or their_out).splitlines()[:1]
    # Some options without their value crash valkey-benchmark.
    if their_status < 0 and out == "" and status == 1 and len(err.splitlines()) == 1:
        return []
    if (status, out, err.splitlines()) == (their_status, "", told):
        return []
    return ["%s %s: status %d, %r and %r" % (tool, " ".join(line), status, out[:60], err[:200])]


def run(program, *line):
    done = subprocess.run([program, *line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=PATIENCE, text=True)
    return done.returncode, done.stdout, done.stderr
