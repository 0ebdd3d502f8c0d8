//! Differences that were found: each once, with the shortest history that shows it.

use crate::compare::{Rule, normalised, rule_of};
use crate::events;
use crate::generator::Step;
use crate::replay::{Counts, Difference, Pair, Protocol};
use crate::shrink::shrink;
use crate::value::{Value, quoted};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Replays that finding the shortest history may take, and their time: one that ends in a hung server takes long.
const TRIALS_MAX: usize = 1500;
const SHRINK_MAX: Duration = Duration::from_secs(30);
/// How much is shown of a history that cannot be shrunk.
const UNSHRUNK_STEPS: usize = 10;

/// Differences by what they have in common, and how often each was seen.
#[derive(Default)]
pub struct Findings {
    seen: BTreeMap<String, usize>,
}

impl Findings {
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Notes a difference; true if none like it was seen before.
    pub fn note(&mut self, difference: &Difference) -> bool {
        let count = self.seen.entry(signature(difference)).or_default();
        *count += 1;
        *count == 1
    }

    /// Notes what has such a signature.
    pub fn note_as(&mut self, signature: String) {
        *self.seen.entry(signature).or_default() += 1;
    }

    /// Shrinks the history, whose last step shows the difference, and prints it. `origin` is the round's seed and
    /// protocol.
    pub fn report(&self, pair: &mut Pair, history: &[Step], found: Difference, origin: (u64, Protocol)) {
        let (seed, protocol) = origin;
        let sought = signature(&found);
        let is_other = |difference: &Difference| {
            let signature = signature(difference);
            signature != sought && self.seen.contains_key(&signature)
        };
        let mut shown = found;
        let began = Instant::now();
        let mut shows_it = |steps: &[Step]| {
            if began.elapsed() > SHRINK_MAX {
                return false;
            }
            match pair.replay(steps, protocol, is_other) {
                Ok(Some(difference)) if difference.step + 1 == steps.len() && signature(&difference) == sought => {
                    shown = difference;
                    true
                }
                _ => false,
            }
        };
        let comes_again = shows_it(history);
        let shortest = if comes_again {
            shrink(history, TRIALS_MAX, shows_it)
        } else {
            history[history.len().saturating_sub(UNSHRUNK_STEPS)..].to_vec()
        };
        println!(
            "\ndifference {}: {protocol:?}, seed {seed}, step {} of its round, {} commands {}",
            self.seen.len(),
            history.len(),
            shortest.iter().map(Vec::len).sum::<usize>(),
            if comes_again { "suffice" } else { "before it (replayed, it did not come again)" }
        );
        for command in shortest.iter().flatten() {
            let args: Vec<String> = command.iter().map(|arg| quoted(arg)).collect();
            println!("    {}", args.join(" "));
        }
        let what = shown.effect.as_ref().map_or("reply to".to_owned(), |effect| format!("{effect} of"));
        println!("  {what}  {}", quoted(&shown.command.join(&b' ')));
        println!("  peer      {}", cut(&shown.peer));
        println!("  subject   {}", cut(&shown.subject));
        let rule = if shown.effect.is_none() { rule_of(&shown.command) } else { Rule::Exact };
        let inner = innermost(&normalised(rule, &shown.peer), &normalised(rule, &shown.subject));
        if let Some((peer, subject)) = inner {
            println!("  and in it {}\n  against   {}", cut(&peer), cut(&subject));
        }
    }

    pub fn summarise(&self, compared: usize, counts: &Counts, took: Duration) {
        println!(
            "\n{compared} commands compared in {:.1} s, {} % of the replies errors",
            took.as_secs_f64(),
            counts.errors * 100 / counts.commands.max(1)
        );
        match self.seen.len() {
            0 => println!("no difference"),
            n => println!("{n} differences:"),
        }
        for (signature, times) in &self.seen {
            println!("{times:6} x {signature}");
        }
    }
}

/// Two differences with the same signature probably have the same cause.
fn signature(difference: &Difference) -> String {
    const CONTAINERS: [&[u8]; 3] = [b"CLIENT", b"COMMAND", b"OBJECT"];
    let command = &difference.command;
    let is_container = command.first().is_some_and(|n| CONTAINERS.contains(&n.to_ascii_uppercase().as_slice()));
    let name = command[..command.len().min(1 + usize::from(is_container))].join(&b' ').to_ascii_uppercase();
    let (peer, subject) = (&difference.peer, &difference.subject);
    match &difference.effect {
        Some(effect) => format!("{}: {effect}: {}", name.escape_ascii(), effect_outline(peer, subject)),
        None => format!("{}: {} / {}", name.escape_ascii(), outline(peer), outline(subject)),
    }
}

/// Returns the counts that differ, or the first word that only one of the servers has.
fn effect_outline(peer: &Value, subject: &Value) -> String {
    if let (Value::Map(a), Value::Map(b)) = (peer, subject) {
        let only = |a: &[(Value, Value)], b: &[(Value, Value)]| -> Vec<String> {
            let missing = a.iter().filter(|pair| !b.contains(pair));
            missing.map(|(name, count)| format!("{}={count}", text_of(name))).collect()
        };
        return format!("{} / {}", only(a, b).join(" "), only(b, a).join(" "));
    }
    let first = |value: &Value, at: usize| {
        let element = value.elements().and_then(|all| all.get(at));
        element.map_or("nothing".into(), |e| e.elements().and_then(|words| words.first()).map_or(text_of(e), text_of))
    };
    let (Some(a), Some(b)) = (peer.elements(), subject.elements()) else {
        return format!("{} / {}", peer.kind(), subject.kind());
    };
    let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    format!("{} / {}", first(peer, at), first(subject, at))
}

fn text_of(value: &Value) -> String {
    String::from_utf8_lossy(value.text().unwrap_or_default()).split('"').take(2).collect::<Vec<_>>().join("\"")
}

/// An error's text without what it quotes, any other reply's kind.
fn outline(value: &Value) -> String {
    match value {
        Value::Error(text) => {
            let text = String::from_utf8_lossy(text);
            let unquoted: Vec<&str> = text.split('\'').step_by(2).collect();
            unquoted.join("'...'")
        }
        Value::Push(heard) => format!("events {}", events::names(heard)),
        other => other.kind().to_string(),
    }
}

/// A reply as text, its end left out if it is very long.
fn cut(value: &Value) -> String {
    const WHOLE_MAX: usize = 1000;
    let text = value.to_string();
    if text.len() <= WHOLE_MAX {
        return text;
    }
    let head: String = text.chars().take(WHOLE_MAX).collect();
    format!("{head} ...")
}

/// The first elements in which long replies differ: of an aggregate the innermost, of a text what follows the common
/// beginning. None of short replies, in which it is seen at once.
fn innermost(peer: &Value, subject: &Value) -> Option<(Value, Value)> {
    const SHORT_MAX: usize = 100;
    if peer.to_string().len().max(subject.to_string().len()) <= SHORT_MAX {
        return None;
    }
    let narrowed = match (peer, subject) {
        (Value::Map(a), Value::Map(b)) => {
            let values = a.iter().zip(b).find(|(a, b)| a != b);
            values.map(|((_, a), (_, b))| (a.clone(), b.clone()))
        }
        (Value::Bulk(a), Value::Bulk(b)) => {
            let at = a.iter().zip(b).take_while(|(a, b)| a == b).count();
            return Some((Value::Bulk(a[at..].to_vec()), Value::Bulk(b[at..].to_vec())));
        }
        _ => {
            let elements = peer.elements()?.iter().zip(subject.elements()?);
            elements.into_iter().find(|(a, b)| a != b).map(|(a, b)| (a.clone(), b.clone()))
        }
    };
    let (peer, subject) = narrowed?;
    innermost(&peer, &subject).or(Some((peer, subject)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(command: &str, peer: Value, subject: Value) -> Difference {
        let command = crate::client::command(command);
        Difference { step: 0, command, peer, subject, effect: None }
    }

    #[test]
    fn alike_differences_are_found_once() {
        let error = |text: &str| Value::Error(text.into());
        let mut findings = Findings::default();
        assert!(findings.note(&difference("GET a", Value::NullBulk, Value::Integer(1))));
        assert!(!findings.note(&difference("get b", Value::NullBulk, Value::Integer(2))));
        assert!(findings.note(&difference("GET a", Value::NullBulk, error("ERR no 'a' here"))));
        assert!(!findings.note(&difference("GET a", Value::NullBulk, error("ERR no 'b' here"))));
        assert!(findings.note(&difference("GET a", Value::NullBulk, error("ERR syntax error"))));
        assert!(findings.note(&difference("OBJECT FREQ a", Value::NullBulk, Value::Integer(1))));
        assert!(findings.note(&difference("OBJECT HELP", Value::NullBulk, Value::Integer(1))));
        assert_eq!(findings.len(), 5);
    }

    #[test]
    fn long_replies_are_narrowed_to_what_differs() {
        let long = |end: u8| Value::Bulk([vec![b'x'; 200], vec![end]].concat());
        let ends = (Value::Bulk(vec![1]), Value::Bulk(vec![2]));
        assert_eq!(innermost(&long(1), &long(2)), Some(ends.clone()));
        let nested = |end| Value::Array(vec![Value::Integer(1), Value::Array(vec![long(0), long(end)])]);
        assert_eq!(innermost(&nested(1), &nested(2)), Some(ends));
        assert_eq!(innermost(&Value::Integer(1), &Value::Integer(2)), None);
        assert_eq!(innermost(&nested(1), &Value::Integer(2)), None);
    }
}
