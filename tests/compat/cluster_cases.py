"""The cases of cluster_tools.py: command lines, and the shapes of their clusters.

`{n0}` is the address of node 0, `{p0}` its port, `{i0}` its name. Left out, because cinnabar-cli does better there: numbers
that are none, questions at the end of the input, words that are ignored, moves that fail and a status that says the
opposite.
"""
import dataclasses
import re
import time
from typing import Callable, Optional

# Nodes of a fleet.
NODES = 6
EMPTY = [None] * NODES
THREE = [[(0, 5460)], [(5461, 10922)], [(10923, 16383)]]
# No two nodes have as many slots, so that plans do not depend on the order of nodes.
UNEVEN = [[(0, 5599)], [(5600, 10899)], [(10900, 16383)]]


def shape(*parts):
    return [*parts, *[None] * (NODES - len(parts))]


@dataclasses.dataclass
class Case:
    name: str
    arguments: list
    shape: list = dataclasses.field(default_factory=lambda: EMPTY)
    # Called with the fleet and the standalone server.
    setup: Optional[Callable] = None
    stdin: bytes = b""
    # Standard input is a terminal, where that is typed.
    is_typed: bool = False
    # Each program has a cluster of its own.
    changes: bool = True
    view: Callable = lambda text: text
    # Called with the fleet when the program has ended.
    settle: Optional[Callable] = None
    terminal: str = "dumb"
    environment: dict = dataclasses.field(default_factory=dict)
    # About how long it takes.
    seconds: int = 5


def cluster(name, line, shape=EMPTY, **more):
    return Case(name, ["--cluster", *line.split()], shape, **more)


def same(name, line, shape=EMPTY, **more):
    """A case that changes nothing."""
    return cluster(name, line, shape, changes=False, seconds=2, **more)


def single(name, line, shape=EMPTY, **more):
    """A case of commands for single nodes, which changes no state of the next case."""
    return Case(name, line.split(), shape, changes=False, seconds=2, **more)


def any_replicas(text):
    """Removes the primaries of replicas from a text: on one host any replica may follow any primary."""
    text = re.sub(r"replicates <id \d>", "replicates <id>", text)
    return re.sub(r"(\d): slave of <id \d>", r"\1: slave", text)


def any_importer(text):
    """Sorts nodes in one line, which have no order either."""
    return any_order(re.sub("(Set as importing in: )(.*)", lambda found: found[1] + str(sorted(found[2].split(","))), text))


def any_order(text):
    return "\n".join(sorted(text.split("\n")))


def any_primary(text):
    """Removes the chosen node from a text: the choice is random."""
    text = re.sub(r"(Covering slot \d+ with ).*", r"\1some node", text.replace("accept): ", "accept):\n"))
    return any_order(re.sub(r": master of -, .*", ": master", text))


def joined(count):
    """Waits until each of the first nodes knows that many."""
    def settle(fleet):
        fleet.wait(lambda: all(len(fleet[at].lines()) == count for at in range(count)), "they do not all know each other")
        fleet.wait(lambda: all("cluster_state:ok" in fleet[at].call("CLUSTER", "INFO") for at in range(count)), "not ok")
    return settle


def some_keys(fleet, _=None, tag="", count=40, database=0):
    """Writes keys of all slots, or of one tag's, at their owners."""
    for at in range(NODES):
        if fleet[at].keys(database) is None:
            continue
        fleet[at].client("SELECT", database)
        for number in range(count):
            fleet[at].client("SET", "%skey:%d" % (tag, number), "v" * number)
        fleet[at].client("SELECT", 0)


# A tag whose slot is 0, and one whose slot is 5600.
ZERO = "{3560}"


def two_databases(fleet, standalone):
    some_keys(fleet, tag=ZERO)
    some_keys(fleet, tag=ZERO, database=1)


def password(fleet, _):
    for node in fleet.nodes:
        node.call("CONFIG", "SET", "requirepass", "secret", "masterauth", "secret")
        node.call("AUTH", "secret")


def no_password(fleet):
    for node in fleet.nodes:
        node.call("CONFIG", "SET", "requirepass", "", "masterauth", "")


def user(fleet, standalone):
    two_databases(fleet, standalone)
    for node in fleet.nodes:
        node.call("ACL", "SETUSER", "u", "on", ">p", "+@all", "~*", "&*")


def hostnames(fleet, _):
    for node in fleet.nodes:
        node.call("CONFIG", "SET", "cluster-announce-hostname", "localhost", "cluster-preferred-endpoint-type", "hostname")
    fleet.wait(lambda: all("localhost" in line[1] for node in fleet.nodes[:3] for line in node.lines()), "it is not told")


def no_hostnames(fleet):
    for node in fleet.nodes:
        node.call("CONFIG", "SET", "cluster-announce-hostname", "", "cluster-preferred-endpoint-type", "ip")


def library(fleet, _):
    fleet[0].call("FUNCTION", "LOAD", "#!lua name=l\nserver.register_function('f', function() return 1 end)")


def both_have(value):
    """Returns a setup with a key of slot 0 that node 1 has already."""
    def setup(fleet, _):
        fleet[0].call("SET", ZERO, "value")
        source, target = fleet[0].id(), fleet[1].id()
        fleet[1].call("CLUSTER", "SETSLOT", 0, "IMPORTING", source)
        fleet[1].call("ASKING")
        fleet[1].call("SET", ZERO, value)
        fleet[1].call("CLUSTER", "SETSLOT", 0, "STABLE")
        assert target
    return setup


def open_slot(*states, keys=()):
    """SETSLOT for slot 0, of node, with state, about node; then keys of it in nodes."""
    def setup(fleet, _):
        for at, state, about in states:
            fleet[at].call("CLUSTER", "SETSLOT", 0, state, fleet[about].id())
        for at, count in keys:
            for number in range(count):
                fleet[at].client("ASKING")
                fleet[at].call("SET", "%skey:%d:%d" % (ZERO, at, number), "v")
    return setup


def uncovered(*slots, keys=()):
    """Makes slots without an owner, with keys of slot 0 left in these nodes."""
    def setup(fleet, standalone):
        for at in keys:
            open_slot((at, "IMPORTING", 0), keys=[(at, at + 1)])(fleet, standalone) if at else \
                fleet[0].call("SET", ZERO + "own", "v")
            if at:
                fleet[at].call("CLUSTER", "SETSLOT", 0, "STABLE")
        for node in fleet.nodes[:3]:
            for slot in slots:
                node.client("CLUSTER", "DELSLOTS", slot)
        # Nodes that learn of the slot late must not take it for owned.
        time.sleep(0.3)
    return setup


def stopped(*nodes):
    def setup(fleet, _):
        ids = [fleet[at].id() for at in nodes]
        for at in nodes:
            fleet[at].last_id = fleet[at].id()
            fleet[at].stop()
        others = [node for node in fleet.nodes if node.is_running() and len(node.lines()) > 1]

        def all_failed():
            return all(any(line[0] == name and "fail" in line[2].split(",") for line in node.lines())
                       for node in others for name in ids)
        fleet.wait(all_failed, "it is not judged to have failed")
    return setup


def standalone_keys(fleet, standalone):
    for number in range(30):
        standalone("SET", "key:%d" % number, "v")
    fleet[0].client("SET", "other", "v")


TYPED = "\n".join(["x", "0", "7", "", "{i1}", "{i1}", "{i0}", "done", "yes", ""]).encode()
COMMANDS = b"set key:1 a\nget key:1\nget key:2\nget {3560}\nmulti\nset key:3 b\nexec\nset key:4 c\nnonsense\n"
FIVE = "{n0} {n1} {n2} {n3} {n4}"
SIX = FIVE + " {n5}"
WITH_REPLICAS = shape(*THREE, 0, 1, 2)
YES = "--cluster-yes"

CASES = [
    # -- the command line
    same("help", "help"),
    same("unknown", "nonsense {n0}"),
    same("arity", "create"),
    same("arity of add-node", "add-node {n0}"),
    same("arity of call", "call {n0}"),
    same("arity of import", "import {n0} {n1} --cluster-from {n2}"),
    same("no address", "check nonsense"),
    same("no port", "info 127.0.0.1:x"),
    same("nobody there", "check 127.0.0.1:1"),
    same("not a cluster", "check {standalone}"),
    same("create of no cluster", "create {n0} {n1} {standalone}"),
    same("create of no address", "create {n0} nonsense"),
    same("create of nobody", "create {n0} 127.0.0.1:1"),
    Case("not with a socket", ["-s", "/tmp/x", "--cluster", "info", "{n0}"], changes=False),
    Case("-c not with a socket", ["-c", "-s", "/tmp/x", "ping"], changes=False),
    # -- commands for single nodes
    single("-c", "-c -p {p0} set key:1 v", shape(*THREE)),
    single("-c elsewhere", "-c -p {p0} set key:2 v", shape(*THREE)),
    single("-c not at all", "-p {p0} set key:2 v", shape(*THREE)),
    single("-c and again", "-c -r 3 -p {p1} get counter", shape(*THREE)),
    single("-c with -e", "-c -e -p {p0} get", shape(*THREE)),
    single("-c of many commands", "-c -p {p0}", shape(*THREE), stdin=COMMANDS),
    single("-c to a replica", "-c -p {p3} set key:2 v", WITH_REPLICAS),
    single("-c into a move", "-c -p {p0} get %s" % ZERO, shape(*UNEVEN),
           setup=open_slot((0, "MIGRATING", 1), (1, "IMPORTING", 0))),
    single("-c of a database", "-c -n 1 -p {p0} set key:2 v", shape(*THREE)),
    single("-c as JSON", "-c --json -p {p0} lrange key:2 0 -1", shape(*THREE)),
    single("-c into a hole", "-c -p {p1} get %s" % ZERO, shape([(1, 5460)], *THREE[1:])),
    single("-c to one that is down", "-c -p {p0} get key:2", shape(*THREE),
           setup=lambda fleet, _: [fleet[at].stop() for at in (1, 2)]),
    Case("-c with a password", ["-c", "-a", "secret", "--no-auth-warning", "-p", "{p0}"], shape(*THREE), setup=password,
         stdin=COMMANDS, settle=no_password),
    Case("-c without a name", ["-c", "-p", "{p0}"], shape(*THREE), stdin=COMMANDS,
         setup=lambda fleet, _: fleet[0].call("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint"),
         settle=lambda fleet: fleet[0].call("CONFIG", "SET", "cluster-preferred-endpoint-type", "ip")),
    Case("-c by hostname", ["-c", "-p", "{p0}"], shape(*THREE), setup=hostnames, stdin=COMMANDS, settle=no_hostnames),
    # -- looking
    same("check", "check {n0}", WITH_REPLICAS, setup=some_keys),
    same("check by host and port", "check 127.0.0.1 {p1}", WITH_REPLICAS),
    same("info", "info {n3}", WITH_REPLICAS, setup=some_keys),
    same("owners", "check {n0} --cluster-search-multiple-owners", WITH_REPLICAS, setup=some_keys),
    same("check in color", "check {n0}", shape(*THREE), terminal="xterm-256color"),
    same("check of one without slots", "check {n3}", shape(*THREE)),
    same("uncovered", "check {n0}", shape([(0, 5), (7, 5460)], *THREE[1:])),
    same("open", "check {n0}", shape(*THREE), setup=open_slot((0, "MIGRATING", 1), (1, "IMPORTING", 0))),
    same("disagreement", "check {n1}", shape(*THREE), setup=lambda fleet, _: fleet[0].call("CLUSTER", "DELSLOTS", 5)),
    same("unreachable", "check {n0}", shape(*THREE, 0), setup=stopped(1)),
    same("call", "call {n0} config get maxmemory", WITH_REPLICAS),
    same("call with an error", "call {n0} get", WITH_REPLICAS),
    same("call of primaries", "call {n0} echo x --cluster-only-primaries", WITH_REPLICAS),
    same("call of replicas", "call {n0} echo x --cluster-only-masters --cluster-only-replicas", WITH_REPLICAS),
    Case("call with input", ["-x", "--cluster", "call", "{n0}", "echo"], WITH_REPLICAS, stdin=b"a b", changes=False),
    Case("call with a tag", ["-X", "tag", "--cluster", "call", "{n0}", "echo", "tag"], WITH_REPLICAS, stdin=b"a b", changes=False),
    Case("call without the tag", ["-X", "tag", "--cluster", "call", "{n0}", "echo", "x"], stdin=b"a b", changes=False),
    same("set-timeout too short", "set-timeout {n0} 99", shape(*THREE)),
    same("set-timeout", "set-timeout {n0} 3000", shape(*THREE), view=any_order),
    # -- clients that are admitted
    Case("typed password", ["--askpass", "--cluster", "info", "{n0}"], shape(*THREE), setup=password, stdin=b"secret\n",
         settle=no_password, view=lambda text: text.replace("Please input password: ", "").replace("*", "").strip()),
    Case("a user", ["--user", "u", "--pass", "p", "--no-auth-warning", "--cluster", "reshard", "{n0}", "--cluster-from", "{i0}",
                    "--cluster-to", "{i1}", "--cluster-slots", "1", YES], shape(*UNEVEN), setup=user,
         settle=lambda fleet: [node.call("ACL", "DELUSER", "u") for node in fleet.nodes]),
    Case("password", ["-a", "secret", "--no-auth-warning", "--cluster", "check", "{n0}"], shape(*THREE), setup=password,
         settle=no_password),
    Case("wrong password", ["-a", "wrong", "--cluster", "check", "{n0}"], shape(*THREE), setup=password,
         settle=no_password),
    cluster("no password", "check {n0}", shape(*THREE), setup=password, settle=no_password),
    # -- create
    cluster("create", "create %s --cluster-replicas 1 %s" % (SIX, YES), view=any_replicas, settle=joined(6), seconds=9),
    cluster("create after a question", "create {n0} {n1} {n2}", stdin=b"yes\n", settle=joined(3)),
    Case("create by the environment", ["--cluster", "create", "{n0}", "{n1}", "{n2}"], settle=joined(3),
         environment={"REDISCLI_CLUSTER_YES": "1"}),
    cluster("create, refused", "create {n0} {n1} {n2}", stdin=b"no\n"),
    cluster("create by name", "create localhost:{p0} localhost:{p1} localhost:{p2} %s" % YES, settle=joined(3)),
    cluster("create of two", "create {n0} {n1}", stdin=b"yes\nyes\n", settle=joined(2)),
    cluster("create of two, refused", "create {n0} {n1}", stdin=b"no\n"),
    cluster("create with nodes left over", "create %s --cluster-replicas 3 %s" % (FIVE, YES), view=any_replicas,
            settle=joined(5), seconds=9),
    cluster("create of nodes that know others", "create {n0} {n1} {n2}", shape(*THREE)),
    cluster("create of nodes with keys", "create {n0} {n1} {n2}",
            setup=lambda fleet, _: fleet[0].call("DEBUG", "POPULATE", 1)),
    # -- nodes are added and removed
    cluster("add-node", "add-node {n3} {n0}", shape(*THREE), settle=joined(4)),
    cluster("add-node with functions", "add-node {n3} {n0}", shape(*THREE), setup=library, settle=joined(4)),
    cluster("add-node that has functions", "add-node {n3} {n0}", shape(*THREE),
            setup=lambda fleet, _: library([fleet[3]], _)),
    cluster("add-node as a replica", "add-node {n5} {n0} --cluster-replica", shape(*THREE, 0, 1), settle=joined(6),
            view=any_replicas),
    cluster("add-node as a replica of one", "add-node {n3} {n0} --cluster-slave --cluster-master-id {i1}", shape(*THREE),
            settle=joined(4)),
    cluster("add-node as a replica of nobody", "add-node {n3} {n0} --cluster-replica --cluster-primary-id x", shape(*THREE)),
    cluster("add-node that is in", "add-node {n1} {n0}", shape(*THREE)),
    cluster("add-node that is not there", "add-node 127.0.0.1:1 {n0}", shape(*THREE)),
    cluster("add-node that is no cluster", "add-node {standalone} {n0}", shape(*THREE)),
    cluster("add-node to a broken cluster", "add-node {n3} {n0}", shape(*THREE[:2])),
    cluster("del-node", "del-node {n0} {i3}", shape(*THREE, []), view=any_order),
    cluster("del-node of a replica", "del-node {n0} {i4}", WITH_REPLICAS, view=any_order),
    cluster("del-node with slots", "del-node {n0} {i1}", shape(*THREE)),
    cluster("del-node of nobody", "del-node {n0} abc", shape(*THREE)),
    cluster("del-node that is down", "del-node {n0} {i3}", shape(*THREE, 0), setup=stopped(3), view=any_order),
    # -- slots move
    cluster("reshard", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 3 %s" % YES, shape(*UNEVEN),
            setup=two_databases),
    cluster("reshard in small steps", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 1 "
            "--cluster-pipeline 7 --cluster-timeout 1000 %s" % YES, shape(*UNEVEN), setup=two_databases),
    cluster("reshard of all", "reshard {n2} --cluster-from all --cluster-to {i1} --cluster-slots 20 %s" % YES, shape(*UNEVEN),
            setup=some_keys),
    cluster("reshard of two", "reshard {n2} --cluster-from {i2},{i0} --cluster-to {i1} --cluster-slots 7", shape(*UNEVEN),
            stdin=b"yes\n"),
    cluster("reshard, atomic", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 3 "
            "--cluster-use-atomic-slot-migration %s" % YES, shape(*UNEVEN), setup=two_databases,
            view=lambda text: re.sub(r"migration\.*#", "migration.#", text)),
    cluster("reshard, refused", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 3", shape(*UNEVEN),
            stdin=b"no\n"),
    cluster("reshard with replicas", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 2 %s" % YES,
            shape(*UNEVEN, 0, 1, 2), setup=some_keys),
    same("reshard to nobody", "reshard {n0} --cluster-from {i0} --cluster-to x --cluster-slots 3 %s" % YES, shape(*UNEVEN)),
    same("reshard to a replica", "reshard {n0} --cluster-from {i0} --cluster-to {i3} --cluster-slots 3 %s" % YES,
         shape(*UNEVEN, 0)),
    same("reshard from nobody", "reshard {n0} --cluster-from {i0},x --cluster-to {i1} --cluster-slots 3 %s" % YES,
         shape(*UNEVEN)),
    same("reshard to itself", "reshard {n0} --cluster-from {i1} --cluster-to {i1} --cluster-slots 3 %s" % YES, shape(*UNEVEN)),
    same("reshard of a broken cluster", "reshard {n0} --cluster-from {i1} --cluster-to {i0} --cluster-slots 3 %s" % YES,
         shape(*UNEVEN[:2])),
    cluster("the same key on both", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 1 %s" % YES,
            shape(*UNEVEN), setup=both_have("value")),
    cluster("a key on both, overwritten", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 1 "
            "--cluster-replace %s" % YES, shape(*UNEVEN), setup=both_have("other")),
    cluster("a key on both, kept", "reshard {n0} --cluster-from {i0} --cluster-to {i1} --cluster-slots 1 %s" % YES,
            shape(*UNEVEN), setup=both_have("other"),
            view=lambda text: re.sub("status .|MoveSlot failed: .*", "", text)),
    cluster("reshard as typed", "reshard {n0}", shape(*UNEVEN), stdin=TYPED, is_typed=True, setup=two_databases),
    cluster("reshard as typed, from all", "reshard {n0}", shape(*UNEVEN), stdin=b"4\n{i1}\nall\nyes\n", is_typed=True),
    cluster("reshard as typed, from nobody", "reshard {n0}", shape(*UNEVEN), stdin=b"4\n{i1}\nx\n", is_typed=True),
    # -- rebalance
    cluster("rebalance", "rebalance {n0} --cluster-threshold 1", shape(*UNEVEN), setup=some_keys, seconds=9),
    cluster("rebalance, atomic", "rebalance {n0} --cluster-threshold 1 --cluster-use-atomic-slot-migration", shape(*UNEVEN),
            setup=some_keys),
    cluster("rebalance to an empty node", "rebalance {n0} --cluster-use-empty-masters --cluster-use-atomic-slot-migration",
            shape([(0, 5401)], [(5402, 10802)], [(10803, 16383)], []), seconds=9),
    same("rebalance, simulated", "rebalance {n0} --cluster-threshold 0.5 --cluster-simulate", shape(*UNEVEN)),
    same("rebalance by weight", "rebalance {n0} --cluster-weight {i0}=2.5 {i1}=0.7 --cluster-simulate", shape(*UNEVEN)),
    same("rebalance with an empty node", "rebalance {n0} --cluster-use-empty-primaries --cluster-simulate --verbose",
         shape(*UNEVEN, [])),
    same("rebalance without need", "rebalance {n0}", shape(*THREE)),
    same("rebalance without a threshold", "rebalance {n0} --cluster-threshold 0", shape(*UNEVEN)),
    same("rebalance by a weight of nobody", "rebalance {n0} --cluster-weight x=1", shape(*UNEVEN)),
    same("rebalance of a broken cluster", "rebalance {n0}", shape(*UNEVEN[:2])),
    # -- fix
    cluster("fix nothing", "fix {n0}", WITH_REPLICAS),
    cluster("fix a move", "fix {n0}", shape(*UNEVEN),
            setup=open_slot((0, "MIGRATING", 1), (1, "IMPORTING", 0), keys=[(1, 3)])),
    cluster("fix a move without keys", "fix {n0}", shape(*UNEVEN), setup=open_slot((0, "MIGRATING", 1), (1, "IMPORTING", 0))),
    cluster("fix an importer", "fix {n0}", shape(*UNEVEN), setup=open_slot((1, "IMPORTING", 0))),
    cluster("fix an importer with keys", "fix {n0}", shape(*UNEVEN), setup=open_slot((1, "IMPORTING", 0), keys=[(1, 2)])),
    cluster("fix two importers", "fix {n0}", shape(*UNEVEN),
            setup=open_slot((0, "MIGRATING", 2), (1, "IMPORTING", 0), (2, "IMPORTING", 0)), view=any_importer),
    cluster("fix two importers of a third", "fix {n0}", shape(*UNEVEN, []),
            setup=open_slot((0, "MIGRATING", 3), (1, "IMPORTING", 0), (2, "IMPORTING", 0)), view=any_importer),
    cluster("fix a migration that nobody imports", "fix {n0}", shape(*UNEVEN), setup=open_slot((0, "MIGRATING", 1))),
    cluster("fix uncovered slots", "fix {n0}", shape(*THREE), setup=uncovered(0, 3), stdin=b"yes\n", view=any_primary),
    cluster("fix uncovered slots, refused", "fix {n0} --cluster-yes", shape(*THREE), setup=uncovered(0, 3), stdin=b"no\n"),
    cluster("fix an uncovered slot with keys", "fix {n0}", shape(*THREE), setup=uncovered(0, keys=[1]), stdin=b"yes\n"),
    cluster("fix an uncovered slot with keys twice", "fix {n0}", shape(*THREE), setup=uncovered(0, keys=[1, 2]),
            stdin=b"yes\n"),
    cluster("fix owners", "fix {n0} --cluster-search-multiple-owners", shape(*THREE), setup=lambda fleet, standalone: (
        open_slot((1, "IMPORTING", 0), keys=[(1, 2)])(fleet, standalone), fleet[1].call("CLUSTER", "SETSLOT", 0, "STABLE")),
            seconds=9),
    cluster("fix with a primary down", "fix {n0}", shape(*THREE), setup=stopped(1)),
    cluster("fix with a primary down by force", "fix {n0} --cluster-fix-with-unreachable-masters",
            shape([(0, 8000)], [(8001, 8003)], [(8004, 16383)]), setup=stopped(1), stdin=b"yes\n", view=any_primary),
    # -- keys are added and removed
    cluster("import", "import {n0} --cluster-from {standalone}", shape(*THREE), setup=standalone_keys, view=any_order),
    cluster("import of copies", "import {n0} --cluster-from {standalone} --cluster-copy --cluster-replace", shape(*THREE),
            setup=standalone_keys, view=any_order),
    same("import from nowhere", "import {n0}", shape(*THREE)),
    same("import from no address", "import {n0} --cluster-from nonsense", shape(*THREE)),
    same("import from nobody", "import {n0} --cluster-from 127.0.0.1:1", shape(*THREE)),
    same("import from a cluster", "import {n0} --cluster-from {n1}", shape(*THREE)),
    same("import with a password", "import {n0} --cluster-from {standalone} --cluster-from-pass x", shape(*THREE)),
    same("backup", "backup {n0} {scratch}", WITH_REPLICAS, setup=some_keys, view=any_order),
    same("backup to nowhere", "backup {n0} {scratch}/none", shape(*THREE)),
    same("backup of a broken cluster", "backup {n0} {scratch}/", shape(*THREE[:2]), view=any_order),
]
