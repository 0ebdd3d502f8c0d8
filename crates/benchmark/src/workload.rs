//! `--workload get=80,set=15,incr=5`: several commands at once, each as often as its weight says.
//!
//! A name is one of the tests' (`-t`) that consists of one command; a part with a blank is a command of its own:
//! `"hgetall h:__rand_int__=3,get=7"`. The last `=` of a part stands before its weight.

use crate::batch::{CommandSequence, Operation};
use crate::known_commands::{command_named, names_of_commands, tagged};

/// One part, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub weight: u64,
    /// The command, if it was written out instead of named.
    pub command: Option<Vec<Vec<u8>>>,
}

/// A sum of weights stays far below what numbers hold.
const WEIGHT_MAX: u64 = 1_000_000_000;

/// Reads the option's value; the error is a text for the user.
pub fn parse(text: &str) -> Result<Vec<Part>, String> {
    let parts: Vec<Part> = text.split(',').map(part).collect::<Result<_, _>>()?;
    if parts.len() < 2 {
        return Err(format!("--workload mixes two commands or more, \"{text}\" is one: name it with -t instead."));
    }
    if let Some(part) = parts.iter().enumerate().find(|(at, part)| parts[..*at].iter().any(|p| p.name == part.name)) {
        return Err(format!("--workload has {} twice.", part.1.name));
    }
    Ok(parts)
}

fn part(text: &str) -> Result<Part, String> {
    let malformed = || format!("--workload takes name=weight, separated by commas, not \"{text}\".");
    let (name, weight) = text.rsplit_once('=').ok_or_else(malformed)?;
    let weight = weight.trim().parse().map_err(|_| malformed())?;
    if !(1..=WEIGHT_MAX).contains(&weight) {
        return Err(format!("--workload: the weight of {name} is not between 1 and {WEIGHT_MAX}."));
    }
    let name = name.trim();
    if !name.contains(' ') {
        let known = name.to_ascii_lowercase();
        command_named(&known, false).ok_or_else(|| unknown(name))?;
        return Ok(Part { name: name.to_ascii_uppercase(), weight, command: None });
    }
    let command = resp::words::split(name.as_bytes()).filter(|words| !words.is_empty()).ok_or_else(malformed)?;
    Ok(Part { name: name.to_owned(), weight, command: Some(command) })
}

fn unknown(name: &str) -> String {
    format!(
        "--workload: there is no \"{name}\"; there are {}, and commands written out, with a blank in them.",
        names_of_commands().join(", ")
    )
}

/// Returns the name of the mix in reports.
pub fn title(parts: &[Part]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| format!("{}={}", part.name, part.weight)).collect();
    parts.join(",")
}

/// Returns the parts ready to be sent.
pub fn operations(parts: &[Part], data: &[u8], ranged: bool, tags: bool) -> Vec<Operation> {
    let operation = |part: &Part| {
        let mut sequence = CommandSequence::default();
        let named = || {
            let command = command_named(&part.name.to_ascii_lowercase(), ranged).unwrap_or_default();
            if tags { command.iter().map(|word| tagged(word)).collect() } else { command }
        };
        sequence.push(&part.command.clone().unwrap_or_else(named), 1, data, ranged);
        Operation { name: part.name.clone(), weight: part.weight, sequence }
    };
    parts.iter().map(operation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_commands_have_weights() {
        let parts = parse("get=80, SET=15,hset \"a b\" f=1 v=5").unwrap();
        let told: Vec<_> = parts.iter().map(|part| (part.name.as_str(), part.weight, part.command.is_some())).collect();
        assert_eq!(told, [("GET", 80, false), ("SET", 15, false), ("hset \"a b\" f=1 v", 5, true)]);
        assert_eq!(title(&parts[..2]), "GET=80,SET=15");
        assert_eq!(parts[2].command.as_ref().unwrap()[1], b"a b");
    }

    #[test]
    fn malformed_mixes_are_refused() {
        for (text, expected) in [
            ("get=80", "--workload mixes two commands or more, \"get=80\" is one: name it with -t instead."),
            ("get=1,get=2", "--workload has GET twice."),
            ("get,set=1", "--workload takes name=weight, separated by commas, not \"get\"."),
            ("get=x,set=1", "--workload takes name=weight, separated by commas, not \"get=x\"."),
            ("get=0,set=1", "--workload: the weight of get is not between 1 and 1000000000."),
            ("hget \"a=1,set=1", "--workload takes name=weight, separated by commas, not \"hget \"a=1\"."),
        ] {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
        assert!(
            parse("nope=1,set=1").unwrap_err().starts_with("--workload: there is no \"nope\"; there are ping, set")
        );
        // Tests of several commands, or of inline ones, are no part of a mix.
        for name in ["lrange", "fcall", "function_load", "ping_inline"] {
            assert!(parse(&format!("{name}=1,set=1")).is_err(), "{name}");
        }
    }

    #[test]
    fn every_name_that_is_told_is_known() {
        let mix: Vec<_> = names_of_commands().iter().map(|name| format!("{name}=1")).collect();
        let parts = parse(&mix.join(",")).unwrap();
        assert!(operations(&parts, b"xxx", true, false).iter().all(|operation| operation.sequence.commands() == 1));
    }
}
