"""Experiments of directive_effects.py with the nodes of a cluster."""
import contextlib
import os
import signal
import time

from directive_experiments import BRIEFLY, Scene, until
from wire import request

# Time in milliseconds until a node is taken for failed, where that matters, and where none may be.
SOON, NEVER = ("--cluster-node-timeout", "1000"), ("--cluster-node-timeout", "60000")
PATIENCE = 20


def my_id(node):
    return node("CLUSTER", "MYID")



def meet(nodes):
    """Joins the nodes, and waits until each knows all others by their names."""
    for node in nodes[1:]:
        node("CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port))
    names = [my_id(node) for node in nodes]
    until(lambda: all(name in node("CLUSTER", "NODES") for node in nodes for name in names), PATIENCE)
    until(lambda: all("handshake" not in node("CLUSTER", "NODES") for node in nodes), PATIENCE)


def role(node):
    return node("ROLE")[0]


def is_linked(replica):
    return replica.info("master_link_status") == "up"


def follow(primary, *replicas):
    for replica in replicas:
        until(lambda: replica("CLUSTER", "REPLICATE", my_id(primary)) == "+OK", PATIENCE)
    until(lambda: all(is_linked(replica) for replica in replicas), PATIENCE)


@contextlib.contextmanager
def cluster(start, count, *options):
    """So many nodes that know each other."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(start("--cluster-enabled", "yes", *options)) for _ in range(count)]
        meet(nodes)
        yield nodes


def is_up(nodes):
    return all("cluster_state:ok" in node("CLUSTER", "INFO") for node in nodes)


def has_name_in_file(start, option):
    """Whether another node writes the name into its file."""
    with start("--cluster-enabled", "yes") as other, start("--cluster-enabled", "yes", *option) as node:
        meet([other, node])
        path = os.path.join(other.folder.name, "nodes.conf")
        return until(lambda: "nodename=some-name" in open(path).read(), BRIEFLY)


def comes_back(start, option):
    """Whether a node that was forgotten is known again soon, and stays so: others tell of it now and then."""
    with cluster(start, 3, *SOON, *option) as (one, _, third):
        name = my_id(third)
        one("CLUSTER", "FORGET", name)
        seen = []

        def stays():
            seen.append(name in one("CLUSTER", "NODES"))
            time.sleep(0.1)
            return len(seen) > 20 and all(seen[-20:])
        return until(stays, 4 * BRIEFLY)


def closes_full_link(start, option):
    """Whether the link to a node that stands still is closed once it holds a lot."""
    with cluster(start, 2, *NEVER, *option) as (one, other):
        other.process.send_signal(signal.SIGSTOP)
        # A server may hold publishers back instead: the messages need no answer.
        publisher = one.another().socket
        publisher.settimeout(BRIEFLY)
        with contextlib.suppress(TimeoutError):
            for _ in range(40):
                publisher.sendall(request(["PUBLISH", "c", "m" * 1_000_000]))
        closed = until(lambda: "total_cluster_links_buffer_limit_exceeded:0" not in one("CLUSTER", "INFO"), BRIEFLY)
        other.process.send_signal(signal.SIGCONT)
        return closed


def fails_over_late(start, option):
    """Whether a replica takes over once its primary, which stood still for some seconds, goes on."""
    with cluster(start, 2, *NEVER, *option) as (primary, replica):
        primary("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        follow(primary, replica)
        until(lambda: is_up([primary, replica]))
        primary.process.send_signal(signal.SIGSTOP)
        replica("CLUSTER", "FAILOVER")
        time.sleep(BRIEFLY)
        primary.process.send_signal(signal.SIGCONT)
        return until(lambda: role(replica) == "master", 2 * BRIEFLY)


def spare_replica_moves(start, option):
    """Whether a primary that lost its only replica gets one of another primary's two."""
    with cluster(start, 5, *SOON, *option) as (one, other, first, second, only):
        one("CLUSTER", "ADDSLOTSRANGE", "0", "8000")
        other("CLUSTER", "ADDSLOTSRANGE", "8001", "16383")
        follow(one, first, second)
        follow(other, only)
        until(lambda: is_up([one, other, first, second]), PATIENCE)
        until(lambda: one.info("connected_slaves") == "2" and other.info("connected_slaves") == "1", PATIENCE)
        only.process.kill()
        return until(lambda: str(other.port) in (first.info("master_port"), second.info("master_port")), PATIENCE)


def takes_over_with_old_data(start, option):
    """Whether a replica that had no link for some seconds takes over when its primary ends."""
    with cluster(start, 4, *SOON, "--repl-ping-replica-period", "1", *option) as (one, other, third, replica):
        for node, first, last in ((one, "0", "5000"), (other, "5001", "10000"), (third, "10001", "16383")):
            node("CLUSTER", "ADDSLOTSRANGE", first, last)
        follow(one, replica)
        until(lambda: is_up([one, other, third, replica]), PATIENCE)
        one("CONFIG", "SET", "requirepass", "secret")
        one("CLIENT", "KILL", "TYPE", "replica")
        until(lambda: not is_linked(replica))
        time.sleep(3 * BRIEFLY)
        one.process.kill()
        return until(lambda: role(replica) == "master", 4 * BRIEFLY)


def move_slot(source, target, slot):
    """Moves a slot with all that is in it; returns whether that succeeded."""
    source("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", my_id(target))
    return until(lambda: any(state in str(source("CLUSTER", "GETSLOTMIGRATIONS")[0]) for state in ("success", "failed")))


def pauses_with_unsent_writes(start, option):
    """Whether a slot's clients are paused while writes wait for its new node, which takes nothing."""
    with cluster(start, 2, *NEVER, *option) as (source, target):
        source("CLUSTER", "ADDSLOTSRANGE", "0", "8000")
        target("CLUSTER", "ADDSLOTSRANGE", "8001", "16383")
        until(lambda: is_up([source, target]), PATIENCE)
        source("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", "1")
        slot = source("CLUSTER", "KEYSLOT", SLOT_NAME).lstrip(":")
        source("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", my_id(target))
        state = lambda: str(source("CLUSTER", "GETSLOTMIGRATIONS")[0])
        until(lambda: "waiting-to-pause" in state())
        target.process.send_signal(signal.SIGSTOP)
        for _ in range(40):
            source("SET", "{%s}" % SLOT_NAME, "v" * 1_000_000)
        source("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", "0")
        return until(lambda: "paused" in state(), BRIEFLY)


def log_of_moves(start, option):
    """The number of migrations that a node tells of after four."""
    with cluster(start, 2, *option) as (source, target):
        source("CLUSTER", "ADDSLOTSRANGE", "0", "8000")
        target("CLUSTER", "ADDSLOTSRANGE", "8001", "16383")
        until(lambda: is_up([source, target]), PATIENCE)
        for slot in "1234":
            move_slot(source, target, slot)
        told = lambda: len(source("CLUSTER", "GETSLOTMIGRATIONS"))
        return until(lambda: told() == 1, BRIEFLY) or told()


# A key in a slot of the first node.
SLOT_NAME = "b"

EXPERIMENTS = {
    "cluster-announce-human-nodename": Scene(("", "some-name"), has_name_in_file),
    "cluster-blacklist-ttl": Scene(("1", "60"), comes_back),
    "cluster-link-sendbuf-limit": Scene(("0", "5mb"), closes_full_link),
    "cluster-manual-failover-timeout": Scene(("500", "20000"), fails_over_late),
    "cluster-migration-barrier": Scene(("1", "2"), spare_replica_moves),
    "cluster-replica-validity-factor": Scene(("0", "1"), takes_over_with_old_data),
    "cluster-slot-migration-log-max-len": Scene(("1", "100"), log_of_moves),
    "slot-migration-max-failover-repl-bytes": Scene(("0", "-1"), pauses_with_unsent_writes),
}
