//! Finding the keys among a command's arguments, by its entry.

use crate::core::args::Args;
use crate::core::command::{
    Begin, CallKeys, Command, CommandEntry, FindKeys, KeyFlags, KeyPlan, KeySpec, NO_MANDATORY_KEYS,
};
use smallvec::SmallVec;

/// Indices of key arguments, ascending.
pub type KeyIndices = SmallVec<[usize; 4]>;

/// The arguments contradict the entry (COMMAND GETKEYS reports it).
#[derive(Debug, PartialEq, Eq)]
pub struct BadKeys;

/// Returns the indices of all keys of a command with these arguments. Arguments that do not fit give an error; the
/// handler then finds the same fault and replies.
///
/// # Errors
/// The command has no keys, or its arguments do not say which.
pub fn key_indices(entry: &CommandEntry, args: &Args<'_>) -> Result<KeyIndices, BadKeys> {
    let mut found = KeyIndices::new();
    match entry.plan {
        KeyPlan::None => {}
        KeyPlan::One(index) => found.push(index),
        KeyPlan::Range { first, last, step } => range(first, last, step, 0, args.len(), |index| found.push(index)),
        KeyPlan::Counted(index) => {
            let keys = counted(index, args).ok_or(BadKeys)?;
            (index + 1..index + 1 + keys).for_each(|index| found.push(index));
        }
        // A command that may touch more than its entry states takes its locks in the place of these.
        KeyPlan::Specs if entry.may_touch_more => for_each(entry.command, args, |index, _| found.push(index))?,
        KeyPlan::Specs => {
            let (keys, result) = keys_of_specs(entry.command, args);
            result?;
            found.extend(keys.iter().map(|(index, _)| *index));
        }
    }
    if entry.plan == KeyPlan::Specs {
        found.sort_unstable();
        found.dedup();
    }
    if found.iter().any(|index| *index >= args.len()) { Err(BadKeys) } else { Ok(found) }
}

/// Returns the number of keys that the argument at `index` states, if there are as many after it.
#[inline]
pub fn counted(index: usize, args: &Args<'_>) -> Option<usize> {
    let count = match args.get(index)? {
        [digit @ b'0'..=b'9'] => usize::from(digit - b'0'),
        text => resp::number::parse_i64(text).and_then(|count| usize::try_from(count).ok())?,
    };
    (count < args.len() - index).then_some(count)
}

/// Returns each key of a call with its use. A call without keys has none, if its command does not need keys.
///
/// # Errors
/// The arguments contradict the entry.
pub fn keys_and_flags(command: &'static Command, args: &Args<'_>) -> Result<CallKeys, BadKeys> {
    let (mut found, result) = keys_of_specs(command, args);
    if result.is_err() {
        let loosely = keys_by_loose_count(command, args);
        if !loosely.is_empty() {
            return Ok(loosely);
        }
    }
    let invalid = result.is_err() || found.iter().any(|(index, _)| *index >= args.len());
    if invalid || found.is_empty() || counts_none(command, args) {
        if !command.flags.has(NO_MANDATORY_KEYS) {
            return Err(BadKeys);
        }
        found.clear();
    }
    Ok(found)
}

/// Returns keys by a number of keys that is no number: Valkey takes its first digits, and knows no flags of the keys.
fn keys_by_loose_count(command: &Command, args: &Args<'_>) -> CallKeys {
    const NO_FLAGS: KeyFlags = KeyFlags(0);
    let counted = command.keys.iter().find_map(|spec| match (spec.begin, spec.find) {
        (Begin::Index(begin), FindKeys::Counted { count, first, step }) => Some((begin + count, begin + first, step)),
        _ => None,
    });
    let Some((at, first, step)) = counted else { return CallKeys::new() };
    let text = args.get(at).unwrap_or_default().trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let digits = &digits[..digits.iter().take_while(|byte| byte.is_ascii_digit()).count()];
    let number = resp::number::parse_i64_c(digits).and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
    if number > args.len().saturating_sub(first) / step {
        return CallKeys::new();
    }
    let counted = (0..number).map(|key| (first + key * step, NO_FLAGS));
    // The destination comes last.
    let destination = (at > 1 && number > 0 && command.keys.len() > 1).then_some((1, NO_FLAGS));
    counted.chain(destination).collect()
}

/// Returns the keys that the specs find, with the command's own corrections.
fn keys_of_specs(command: &'static Command, args: &Args<'_>) -> (CallKeys, Result<(), BadKeys>) {
    let mut found = CallKeys::new();
    let result = for_each(command, args, |index, spec| {
        found.push((index, KeyFlags(spec.flags.0 & !KeyFlags::VARIABLE.0)));
    });
    if let Some(correct) = command.keys_of_call {
        correct(args, &mut found);
    }
    (found, result)
}

/// Visits each key argument with the spec that it is found by, in the order of the specs.
///
/// # Errors
/// As [`key_indices`].
pub fn for_each(
    command: &'static Command,
    args: &Args<'_>,
    visit: impl FnMut(usize, &'static KeySpec),
) -> Result<(), BadKeys> {
    for_each_of(command.keys.iter().filter(|spec| !spec.flags.has(KeyFlags::NOT_KEY)), args, visit)
}

/// Returns the places of all arguments that decide the node of a cluster: keys, and channels of shards. None if the
/// arguments contradict the entry.
pub fn routed_by(command: &'static Command, args: &Args<'_>) -> CallKeys {
    let mut found = CallKeys::new();
    if for_each_of(command.keys.iter(), args, |index, spec| found.push((index, spec.flags))).is_err() {
        return CallKeys::new();
    }
    if let Some(correct) = command.keys_of_call {
        correct(args, &mut found);
    }
    found
}

fn for_each_of(
    specs: impl Iterator<Item = &'static KeySpec>,
    args: &Args<'_>,
    mut visit: impl FnMut(usize, &'static KeySpec),
) -> Result<(), BadKeys> {
    for spec in specs {
        let Some(begin) = begin_of(spec, args) else { continue };
        match spec.find {
            FindKeys::Range { last, step, limit } => {
                range(begin, last, step, limit, args.len(), |index| visit(index, spec));
            }
            FindKeys::Counted { count, first, step } => {
                let text = args.get(begin + count).ok_or(BadKeys)?;
                let number = resp::number::parse_i64(text).and_then(|n| usize::try_from(n).ok()).ok_or(BadKeys)?;
                let first = begin + first;
                let last = number.checked_mul(step).and_then(|span| span.checked_add(first)).ok_or(BadKeys)?;
                if last > args.len() + step - 1 || (number > 0 && last - step >= args.len()) {
                    return Err(BadKeys);
                }
                (first..last).step_by(step).for_each(|index| visit(index, spec));
            }
            FindKeys::Unknown => {}
        }
    }
    Ok(())
}

/// Returns whether a number of keys among these arguments is zero.
pub fn counts_none(command: &Command, args: &Args<'_>) -> bool {
    command.keys.iter().any(|spec| match (begin_of(spec, args), spec.find) {
        (Some(begin), FindKeys::Counted { count, .. }) => {
            args.get(begin + count).and_then(resp::number::parse_i64).is_some_and(|number| number == 0)
        }
        _ => false,
    })
}

fn begin_of(spec: &KeySpec, args: &Args<'_>) -> Option<usize> {
    match spec.begin {
        Begin::Index(index) => Some(index),
        Begin::Keyword { word, from } => {
            let is_word = |index: &usize| args.is(*index, word);
            let found = if from >= 0 {
                (from as usize..args.len()).find(is_word)
            } else {
                let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
                (1..=start).rev().find(is_word)
            };
            // A word at the very end has no key after it.
            found.map(|index| index + 1).filter(|index| *index < args.len())
        }
        Begin::Unknown => None,
    }
}

fn range(first: usize, last: i32, step: usize, limit: usize, len: usize, visit: impl FnMut(usize)) {
    let end = if last >= 0 {
        first + last as usize
    } else {
        let remaining = len.saturating_sub(first);
        let span = if limit > 1 { remaining / limit } else { remaining };
        match (first + span).checked_sub(last.unsigned_abs() as usize) {
            Some(end) => end,
            None => return,
        }
    };
    (first..=end).step_by(step.max(1)).for_each(visit);
}
