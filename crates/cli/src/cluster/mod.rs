//! `--cluster`: operations on a whole cluster, with valkey-cli's messages, which scripts read.
//!
//! ```text
//!   decisions without connections      planning/
//!                 |
//!   a cluster to talk to               console  ask_user  node  cluster_view  join
//!                 |
//!   operations on slots                slot_move  key_conflict  atomic_move  fix_orders  fix_*  check_cluster
//!                 |
//!   subcommands                        create  reshard  node_membership  every_node  import  backup
//!   reports for programs               cluster_report
//! ```
//!
//! A subcommand reads the cluster from one of its nodes, decides on plain data, and sends orders to one node after the
//! other. An error is printed where it happens; only the fact is returned. After failed moves valkey-cli ends with
//! success, this program with status 1.

mod ask_user;
mod atomic_move;
mod backup;
mod check_cluster;
mod cluster_report;
mod cluster_view;
mod console;
mod create;
mod every_node;
mod fix_coverage;
mod fix_open_slot;
mod fix_orders;
mod fix_owners;
mod import;
mod join;
mod key_conflict;
mod move_progress;
mod node;
mod node_membership;
mod planning;
mod reshard;
mod slot_move;

use std::process::ExitCode;

use self::check_cluster::Extent;
use self::cluster_view::{ClusterView, Include, address_of};
use self::console::{Console, Outcome, Reported};
use crate::options::{Mode, Options};

/// Number of words that a subcommand takes.
enum Arity {
    Exactly(usize),
    AtLeast(usize),
    Any,
}

/// A subcommand; the texts are for `help`.
struct Subcommand {
    name: &'static str,
    run: fn(&Options, Console) -> Outcome,
    arity: Arity,
    arguments: &'static str,
    options: &'static [&'static str],
}

const ANY_NODE: &str = "<host:port> or <host> <port> - separated by either colon or space";

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "create",
        run: create::run,
        arity: Arity::AtLeast(1),
        arguments: "host1:port1 ... hostN:portN",
        options: &["replicas <arg>"],
    },
    Subcommand {
        name: "check",
        run: |options, console| check(options, console, Extent::Full),
        arity: Arity::AtLeast(1),
        arguments: ANY_NODE,
        options: &["search-multiple-owners"],
    },
    Subcommand { name: "info", run: info, arity: Arity::AtLeast(1), arguments: ANY_NODE, options: &[] },
    Subcommand {
        name: "fix",
        run: |options, console| check(options, console, Extent::Fix),
        arity: Arity::AtLeast(1),
        arguments: ANY_NODE,
        options: &["search-multiple-owners", "fix-with-unreachable-primaries"],
    },
    Subcommand {
        name: "reshard",
        run: reshard::reshard,
        arity: Arity::AtLeast(1),
        arguments: ANY_NODE,
        options: &["from <arg>", "to <arg>", "slots <arg>", "yes", "timeout <arg>", "pipeline <arg>", "replace"],
    },
    Subcommand {
        name: "rebalance",
        run: reshard::rebalance,
        arity: Arity::AtLeast(1),
        arguments: ANY_NODE,
        options: &[
            "weight <node1=w1...nodeN=wN>",
            "use-empty-primaries",
            "timeout <arg>",
            "simulate",
            "pipeline <arg>",
            "threshold <arg>",
            "replace",
        ],
    },
    Subcommand {
        name: "add-node",
        run: node_membership::add_node,
        arity: Arity::Exactly(2),
        arguments: "new_host:new_port existing_host:existing_port",
        options: &["replica", "primaries-id <arg>"],
    },
    Subcommand {
        name: "del-node",
        run: node_membership::del_node,
        arity: Arity::Exactly(2),
        arguments: "host:port node_id",
        options: &[],
    },
    Subcommand {
        name: "call",
        run: every_node::call,
        arity: Arity::AtLeast(2),
        arguments: "host:port command arg arg .. arg",
        options: &["only-primaries", "only-replicas"],
    },
    Subcommand {
        name: "set-timeout",
        run: every_node::set_timeout,
        arity: Arity::Exactly(2),
        arguments: "host:port milliseconds",
        options: &[],
    },
    Subcommand {
        name: "import",
        run: import::run,
        arity: Arity::Exactly(1),
        arguments: "host:port",
        options: &["from <arg>", "from-user <arg>", "from-pass <arg>", "from-askpass", "copy", "replace"],
    },
    Subcommand {
        name: "backup",
        run: backup::run,
        arity: Arity::Exactly(2),
        arguments: "host:port backup_directory",
        options: &[],
    },
    Subcommand { name: "help", run: help, arity: Arity::Any, arguments: "", options: &[] },
];

/// Runs the subcommand that the options name.
pub fn run(options: &Options) -> ExitCode {
    let Mode::Cluster(name) = &options.mode else { return ExitCode::FAILURE };
    let Some(subcommand) = SUBCOMMANDS.iter().find(|subcommand| subcommand.name == name) else {
        eprintln!("Unknown --cluster subcommand");
        return ExitCode::FAILURE;
    };
    let count = options.cluster.arguments.len();
    let fits = match subcommand.arity {
        Arity::Exactly(wanted) => count == wanted,
        Arity::AtLeast(wanted) => count >= wanted,
        Arity::Any => true,
    };
    if !fits {
        eprintln!("[ERR] Wrong number of arguments for specified --cluster sub command");
        return ExitCode::FAILURE;
    }
    let console = if options.output.is_json() { Console::silent() } else { Console::new(options.for_people) };
    match (subcommand.run)(options, console) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Reported) => ExitCode::FAILURE,
    }
}

fn info(options: &Options, console: Console) -> Outcome {
    let address = address_of(&options.cluster.arguments)?;
    let mut view = ClusterView::load(options, console, address, Include::Reachable)?;
    if options.output.is_json() {
        return cluster_report::print_cluster(&mut view, None);
    }
    check_cluster::show_info(&mut view);
    Ok(())
}

fn check(options: &Options, console: Console, extent: Extent) -> Outcome {
    let address = address_of(&options.cluster.arguments)?;
    let mut view = ClusterView::load(options, console, address, Include::Reachable)?;
    if !options.output.is_json() {
        check_cluster::show_info(&mut view);
    }
    let is_well = check_cluster::check(&mut view, extent)?;
    if options.output.is_json() {
        cluster_report::print_cluster(&mut view, Some(is_well))?;
    }
    if is_well { Ok(()) } else { Err(Reported) }
}

/// Prints the subcommands. The status is that of a command that failed, as with valkey-cli.
fn help(_: &Options, console: Console) -> Outcome {
    console.plain(&help_text());
    Err(Reported)
}

/// Returns the subcommands, each with its options.
pub fn help_text() -> String {
    let mut text = String::from("Cluster Manager Commands:\n");
    for subcommand in SUBCOMMANDS {
        text.push_str(&format!("  {:<15}{}\n", subcommand.name, subcommand.arguments));
        for option in subcommand.options {
            text.push_str(&format!("{:15}  --cluster-{option}\n", ""));
        }
    }
    text.push_str(
        "\nFor check, fix, reshard, del-node, set-timeout, info, rebalance, call, import, backup you can specify the \
         host and port of any working node in the cluster.\n\nCluster Manager Options:\n",
    );
    text.push_str(&format!("  {:<15}Automatic yes to cluster commands prompts\n\n", "--cluster-yes"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_each_subcommand() {
        let text = help_text();
        for subcommand in SUBCOMMANDS {
            assert!(text.contains(&format!("\n  {:<15}", subcommand.name)), "{}", subcommand.name);
        }
        assert!(text.contains("\n                 --cluster-replicas <arg>\n  check          <host:port>"));
    }
}
