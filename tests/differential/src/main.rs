//! `differential` sends the same random commands to two servers and compares their replies, values and error texts.
//!
//! ```text
//!   differential --peer "valkey-server --port {port} --save ''" \
//!                --subject "target/release/cinnabar-server --port {port}"
//! ```
//!
//! The peer is the server that is right by definition, the subject is the one under test. Commands are sent in rounds:
//! a round begins with empty databases, draws some two thousand commands from the families' tables by its seed, and
//! ends with a look at every key. At the first difference the round's history is made as short as possible and printed
//! with both replies. Exit status: 0 no difference, 1 differences, 2 no comparison was possible.
//!
//! With `--events` the keyspace events of each command are compared as well, with `--effects` its other effects:
//! statistics, monitors' lines, the append-only file, watched and tracked keys. With `--history` no replies are
//! compared, but the subject's data with the data of its log and its replicas (`history.rs`).
//!
//! ```text
//!   words -> grammar -> families/* -> generator -> (hazard) -> replay -> compare -> shrink -> report
//! ```
#![forbid(unsafe_code)]

mod breaking;
mod client;
mod compare;
mod contents;
mod effects;
mod events;
mod families;
mod generator;
mod grammar;
mod group;
mod hazard;
mod history;
mod replay;
mod report;
mod servers;
mod shrink;
mod value;
mod words;

use clap::Parser;
use client::{Client, command};
use families::{Family, Needs, Row};
use generator::Generator;
use group::Group;
use replay::{Look, Pair, Protocol};
use report::Findings;
use servers::Server;
use std::io::{Error, Result};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steps of a round: enough for states to build up, few enough to be shrunk quickly.
const ROUND_STEPS: usize = 2000;

/// Compare two servers by the same random commands.
#[derive(Parser)]
struct Options {
    /// Command line of the server that is right by definition; {port} stands for its port
    #[arg(long, required_unless_present_any = ["peer_addr", "history"], conflicts_with = "peer_addr")]
    peer: Option<String>,
    /// Command line of the server under test
    #[arg(long, required_unless_present = "subject_addr", conflicts_with = "subject_addr")]
    subject: Option<String>,
    /// Address of a running peer; its keys are flushed
    #[arg(long)]
    peer_addr: Option<SocketAddr>,
    /// Address of a running subject; its keys are flushed
    #[arg(long)]
    subject_addr: Option<SocketAddr>,
    /// Commands to compare
    #[arg(long, default_value_t = 200_000)]
    ops: usize,
    /// Seed of the first round; each further round adds one. By default, the time
    #[arg(long)]
    seed: Option<u64>,
    /// Families to draw commands from, separated by commas; by default all but users and their rights
    #[arg(long, value_delimiter = ',', default_values_t = families::by_default())]
    families: Vec<String>,
    /// Protocol: 2, 3, or both (rounds of an odd seed speak RESP3)
    #[arg(long, default_value = "both", value_parser = ["2", "3", "both"])]
    resp: String,
    /// Go on until so many different differences were found
    #[arg(long, default_value_t = 1, value_name = "N")]
    keep_going: usize,
    /// Draw the newest commands too, as far as the peer knows them
    #[arg(long)]
    newest: bool,
    /// Compare the keyspace events of every command too, in their order. Both servers must allow DEBUG
    #[arg(long)]
    events: bool,
    /// Compare what commands do besides replying. Both servers must allow DEBUG; with `--appendonly yes --appendfsync
    /// always` their files are compared as well
    #[arg(long, conflicts_with = "events")]
    effects: bool,
    /// Compare what the subject holds with its replay, its replica and its replica's replay, and with the peer as its
    /// replica, if there is one. Both must allow DEBUG; the subject needs `--appendonly yes --appendfsync no`
    #[arg(long, conflicts_with_all = ["events", "effects", "subject_addr", "peer_addr"])]
    history: bool,
    /// The peer leads a history, and the subject is its replica
    #[arg(long, requires = "history", requires = "peer")]
    peer_leads: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match if options.history { compare_histories(&options) } else { compare_servers(&options) } {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare_servers(options: &Options) -> Result<Findings> {
    let mut families = chosen_families(&options.families)?;
    if options.events || options.effects {
        families.push(&families::EVENTS);
    }
    let mut pair =
        Pair::new(server(&options.peer, options.peer_addr)?, server(&options.subject, options.subject_addr)?);
    pair.compares_events = options.events;
    let generator = generator(&families, options.newest, &pair.peer, &pair.subject)?;
    let first_seed = options.seed.unwrap_or_else(time_as_seed);
    println!("first seed {first_seed}, {} commands", options.ops);

    let began = Instant::now();
    let mut findings = Findings::default();
    let mut compared = 0;
    for seed in first_seed.. {
        if compared >= options.ops || findings.len() >= options.keep_going {
            break;
        }
        let steps = generator.round(seed, ROUND_STEPS.min(options.ops - compared));
        let protocol = protocol(&options.resp, seed);
        pair.compares_effects = options.effects.then_some(if seed & 2 == 0 { Look::Afar } else { Look::Close });
        let before = pair.counts.commands;
        let mut is_new = false;
        let difference = pair.replay(&steps, protocol, |difference| {
            is_new = findings.note(difference);
            // A command that only one of them refused makes their states differ from here on.
            !is_new && difference.peer.is_error() == difference.subject.is_error()
        })?;
        compared += pair.counts.commands - before;
        if let Some(difference) = difference
            && is_new
        {
            let history = &steps[..=difference.step];
            findings.report(&mut pair, history, difference, (seed, protocol));
        }
    }
    findings.summarise(compared, &pair.counts, began.elapsed());
    Ok(findings)
}

fn compare_histories(options: &Options) -> Result<Findings> {
    let mut families = chosen_families(&options.families)?;
    // Commands that set connections' state would end or silence them.
    families.retain(|family| !matches!(family.name, "connection" | "acl"));
    families.extend([&families::EVENTS, &families::HISTORY]);
    let subject = options.subject.as_deref().unwrap_or_default();
    let mut group = Group::start(subject, options.peer.as_deref(), options.peer_leads)?;
    let mut generator = generator(&families, true, group.judge(), group.subject())?;
    generator.peer_leads = options.peer_leads;
    let first_seed = options.seed.unwrap_or_else(time_as_seed);
    println!("first seed {first_seed}, {} commands", options.ops);
    history::compare(&mut group, &generator, options.ops, first_seed, options.keep_going)
}

fn chosen_families(names: &[String]) -> Result<Vec<&'static Family>> {
    let mut chosen = vec![&families::SEASONING];
    for name in names {
        let found = families::ALL.iter().find(|family| family.name == name);
        chosen.push(found.ok_or_else(|| Error::other(format!("no family is named {name}")))?);
    }
    Ok(chosen)
}

fn server(command_line: &Option<String>, addr: Option<SocketAddr>) -> Result<Server> {
    match (command_line, addr) {
        (_, Some(addr)) => Ok(Server::running(addr)),
        (Some(command_line), None) => Server::start(command_line),
        (None, None) => Err(Error::other("neither a command line nor an address")),
    }
}

fn generator(families: &[&'static Family], newest: bool, peer: &Server, subject: &Server) -> Result<Generator> {
    let mut peer = Client::connect(peer.addr)?;
    let mut subject = Client::connect(subject.addr)?;
    let knows = |client: &mut Client, probe: &str| {
        let reply = client.call(&command(probe));
        reply.is_ok_and(|reply| {
            let text = reply.to_string();
            !text.contains("ERR unknown command") && !text.contains("ERR syntax error")
        })
    };
    let is_usable = |row: &Row| match row.needs {
        Needs::Nothing => true,
        Needs::Both(probe) => knows(&mut peer, probe) && knows(&mut subject, probe),
        Needs::Newest(_) if !newest => false,
        Needs::Newest(probe) => {
            let known = knows(&mut peer, probe);
            if !known {
                println!("left out, since the peer does not know it: {}", row.grammar);
            }
            known
        }
    };
    Generator::new(families, is_usable).map_err(Error::other)
}

fn protocol(choice: &str, seed: u64) -> Protocol {
    match choice {
        "2" => Protocol::Resp2,
        "3" => Protocol::Resp3,
        _ if seed.is_multiple_of(2) => Protocol::Resp2,
        _ => Protocol::Resp3,
    }
}

fn time_as_seed() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a seed")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1000
}
