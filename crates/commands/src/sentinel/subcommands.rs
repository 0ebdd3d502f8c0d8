//! The subcommands of SENTINEL. Their work is in the Sentinel's own crate.

use super::run;
use crate::core::command::{ADMIN, Command, Group};
use crate::core::help::HELP;

const SUB: Command = Command {
    group: Group::Sentinel,
    since: "2.8.4",
    arity: 2,
    flags: ADMIN,
    takes_no_lock: true,
    run,
    ..Command::DEFAULT
};

pub(super) const SUBCOMMANDS: &[Command] = &[
    Command { name: "ckquorum", arity: 3, syntax: "primary-name", summary: "Checks for a Sentinel quorum.", ..SUB },
    Command {
        name: "config",
        since: "6.2.0",
        arity: -4,
        syntax: "(action: (SET set: parameter value)... | GET parameter...)",
        summary: "Configures Sentinel.",
        complexity: "O(N) when N is the number of configuration parameters provided",
        history: &[("7.2.0", "Added the ability to set and get multiple parameters in one call.")],
        ..SUB
    },
    Command {
        name: "debug",
        since: "7.0.0",
        arity: -2,
        syntax: "[data: parameter value]...",
        summary: "Lists or updates the current configurable parameters of Sentinel.",
        complexity: "O(N) where N is the number of configurable parameters",
        ..SUB
    },
    Command {
        name: "failover",
        arity: -3,
        syntax: "primary-name [COORDINATED]@9.0.0",
        summary: "Forces a Sentinel failover.",
        history: &[("9.0.0", "`COORDINATED` option.")],
        ..SUB
    },
    Command { name: "flushconfig", summary: "Rewrites the Sentinel configuration file.", complexity: "O(1)", ..SUB },
    Command {
        name: "get-master-addr-by-name",
        arity: 3,
        syntax: "primary-name",
        summary: "Returns the port and address of a primary instance.",
        complexity: "O(1)",
        deprecated: Some(("8.0.0", "`SENTINEL GET-PRIMARY-ADDR-BY-NAME`")),
        ..SUB
    },
    Command {
        name: "get-primary-addr-by-name",
        since: "8.0.0",
        arity: 3,
        syntax: "primary-name",
        summary: "Returns the port and address of a primary instance.",
        complexity: "O(1)",
        ..SUB
    },
    Command { group: Group::Sentinel, since: "6.2.0", ..HELP },
    Command {
        name: "info-cache",
        since: "3.2.0",
        arity: -3,
        syntax: "nodename...",
        summary: "Returns the cached `INFO` replies from the deployment's instances.",
        complexity: "O(N) where N is the number of instances",
        ..SUB
    },
    Command {
        name: "is-master-down-by-addr",
        arity: 6,
        syntax: "ip port:int current-epoch:int runid",
        summary: "Determines whether a primary instance is down.",
        complexity: "O(1)",
        deprecated: Some(("8.0.0", "`SENTINEL IS-PRIMARY-DOWN-BY-ADDR`")),
        ..SUB
    },
    Command {
        name: "is-primary-down-by-addr",
        since: "8.0.0",
        arity: 6,
        syntax: "ip port:int current-epoch:int runid",
        summary: "Determines whether a primary instance is down.",
        complexity: "O(1)",
        ..SUB
    },
    Command {
        name: "master",
        arity: 3,
        syntax: "primary-name",
        summary: "Returns the state of a primary instance.",
        complexity: "O(1)",
        deprecated: Some(("8.0.0", "`SENTINEL PRIMARY`")),
        ..SUB
    },
    Command {
        name: "masters",
        summary: "Returns a list of monitored primaries.",
        complexity: "O(N) where N is the number of primaries",
        deprecated: Some(("8.0.0", "`SENTINEL PRIMARIES`")),
        ..SUB
    },
    Command {
        name: "monitor",
        arity: 6,
        syntax: "name ip port:int quorum:int",
        summary: "Starts monitoring.",
        complexity: "O(1)",
        ..SUB
    },
    Command { name: "myid", since: "6.2.0", summary: "Returns the Sentinel instance ID.", complexity: "O(1)", ..SUB },
    Command { name: "pending-scripts", summary: "Returns information about pending scripts for Sentinel.", ..SUB },
    Command {
        name: "primaries",
        since: "8.0.0",
        summary: "Returns a list of monitored primaries.",
        complexity: "O(N) where N is the number of primaries",
        ..SUB
    },
    Command {
        name: "primary",
        since: "8.0.0",
        arity: 3,
        syntax: "primary-name",
        summary: "Returns the state of a primary instance.",
        complexity: "O(1)",
        ..SUB
    },
    Command {
        name: "remove",
        arity: 3,
        syntax: "primary-name",
        summary: "Stops monitoring.",
        complexity: "O(1)",
        ..SUB
    },
    Command {
        name: "replicas",
        since: "5.0.0",
        arity: 3,
        syntax: "primary-name",
        summary: "Returns a list of the monitored replicas.",
        complexity: "O(N) where N is the number of replicas",
        ..SUB
    },
    Command {
        name: "reset",
        arity: 3,
        syntax: "pattern:pattern",
        summary: "Resets primaries by name matching a pattern.",
        complexity: "O(N) where N is the number of monitored primaries",
        ..SUB
    },
    Command {
        name: "sentinels",
        arity: 3,
        syntax: "primary-name",
        summary: "Returns a list of Sentinel instances.",
        complexity: "O(N) where N is the number of Sentinels",
        ..SUB
    },
    Command {
        name: "set",
        arity: -5,
        syntax: "primary-name (data: option value)...",
        summary: "Changes the configuration of a monitored primary.",
        complexity: "O(1)",
        ..SUB
    },
    Command {
        name: "simulate-failure",
        since: "3.2.0",
        arity: -3,
        syntax: "[mode: CRASH-AFTER-ELECTION | CRASH-AFTER-PROMOTION | HELP]...",
        summary: "Simulates failover scenarios.",
        ..SUB
    },
    Command {
        name: "slaves",
        since: "2.8.0",
        arity: 3,
        syntax: "primary-name",
        summary: "Returns a list of the monitored replicas.",
        complexity: "O(N) where N is the number of replicas.",
        deprecated: Some(("5.0.0", "`SENTINEL REPLICAS`")),
        ..SUB
    },
];
