//! A server's state equals its log: random commands run on one server, and its replay, its replicas and their replay
//! must hold the same afterwards, whatever the commands replied. Rounds have phases by turns: links that are cut, short
//! memory, migration, none.
//!
//! The subject's command line must have `--appendonly yes --appendfsync no`, so that the file is written before replies
//! are sent. Rounds of an even seed have one client, so that they repeat; others have several at once.

use crate::client::Client;
use crate::generator::{Generator, Step};
use crate::grammar::Command;
use crate::group::{Apart, Group};
use crate::report::Findings;
use crate::shrink::shrink;
use crate::value::quoted;
use fastrand::Rng;
use std::io::{Error, Result};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Commands sent before their replies are read.
const BATCH: usize = 50;
/// Clients of a round that has several.
const CLIENTS: usize = 3;
/// Longest deadline that is not among those for which a second look waits.
const SHORT: Duration = Duration::from_millis(25);
/// Differences of a moment, as a deadline of a second passes.
const MOMENT: Duration = Duration::from_millis(1100);
/// Comparisons after which a difference is one: a deadline may pass within each.
const LOOKS: usize = 4;
const TRIALS_MAX: usize = 400;
const SHRINK_MAX: Duration = Duration::from_secs(120);

/// Compares rounds until so many commands have run, or so many differences were found; prints them.
pub fn compare(
    group: &mut Group,
    generator: &Generator,
    ops: usize,
    first_seed: u64,
    keep_going: usize,
) -> Result<Findings> {
    group.follow()?;
    let began = Instant::now();
    let (mut findings, mut ran, mut apart_rounds) = (Findings::default(), 0, 0);
    for seed in first_seed.. {
        if ran >= ops || apart_rounds >= keep_going {
            break;
        }
        let steps = generator.history(seed, crate::ROUND_STEPS.min(ops - ran));
        ran += steps.iter().map(Vec::len).sum::<usize>();
        let found = round(group, &steps, seed, MOMENT);
        let found = found.map_err(|error| Error::new(error.kind(), format!("seed {seed}: {error}")))?;
        if let Some(apart) = found {
            apart_rounds += 1;
            findings.note_as(apart.place.to_owned());
            report(group, &steps, seed, apart);
        }
    }
    let (names, secs) = (group.names(), began.elapsed().as_secs_f64());
    println!("\n{ran} commands in {secs:.1} s; {names}: {apart_rounds} rounds differ");
    println!("{}", group.phases_shown()?);
    Ok(findings)
}

/// Runs the steps on empty servers and looks at all of them, again if there is a difference.
fn round(group: &mut Group, steps: &[Step], seed: u64, moment: Duration) -> Result<Option<Apart>> {
    group.begin()?;
    run(group, steps, seed)?;
    sleep(SHORT);
    let mut found = group.first_apart()?;
    for _ in 1..LOOKS {
        if found.is_none() {
            break;
        }
        sleep(moment);
        found = group.first_apart()?;
    }
    Ok(found)
}

fn report(group: &mut Group, steps: &[Step], seed: u64, found: Apart) {
    let (began, place) = (Instant::now(), found.place);
    let mut shown = found;
    let mut shows_it = |steps: &[Step]| {
        if began.elapsed() > SHRINK_MAX {
            return false;
        }
        match round(group, steps, seed, MOMENT / 8) {
            Ok(Some(apart)) if apart.place == place => {
                shown = apart;
                true
            }
            _ => false,
        }
    };
    let comes_again = shows_it(steps);
    println!("\nseed {seed}: {place} does not hold what it should");
    let shortest = if comes_again { shrink(steps, TRIALS_MAX, shows_it) } else { Vec::new() };
    if !comes_again {
        println!("  (replayed, it did not come again)");
    }
    for command in shortest.iter().flatten() {
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        println!("    {}", words.join(" "));
    }
    shown.keys.iter().take(4).for_each(|line| println!("  {line}"));
}

/// Runs the steps at the leader, each by one client.
fn run(group: &Group, steps: &[Step], seed: u64) -> Result<()> {
    let addr = group.leader().addr;
    let mut rng = Rng::with_seed(seed);
    let count = if seed.is_multiple_of(2) { 1 } else { CLIENTS };
    let mut clients = (0..count).map(|_| Client::connect(addr)).collect::<Result<Vec<Client>>>()?;
    let mut admin = Client::connect(addr)?;
    for batch in steps.chunks(BATCH) {
        let mut sent: Vec<Vec<&Command>> = vec![Vec::new(); count];
        for step in batch {
            let client = rng.usize(..count);
            let filled_in = step.iter().map(|command| group.filled_in(command, &mut admin));
            clients[client].send(&filled_in.collect::<Result<Vec<_>>>()?);
            sent[client].extend(step);
        }
        for (client, sent) in clients.iter_mut().zip(sent) {
            for command in sent {
                let words = || command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
                client.receive().map_err(|error| Error::new(error.kind(), format!("{}: {error}", words())))?;
            }
        }
    }
    Ok(())
}
