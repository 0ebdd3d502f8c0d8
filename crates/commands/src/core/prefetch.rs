//! Asks for the memory of commands before they run, in steps that each need what the one before has brought:
//!
//! ```text
//!   key's hash -> bucket -> entry whose tag is the key's
//!                        -> more lines of the bucket -> entry        (of one key in twenty)
//! ```
//!
//! Whoever runs many commands takes a step for several at a time and does something else before the next. What a step
//! asks for, it asks for at once: a processor that has no translation of an address at hand waits for it, but finds
//! several side by side. All of this is a hint: nothing depends on it.

use engine::Engine;
use engine::data::key_hash::KeyHash;
use engine::data::table::EntryHint;

/// The keys of a command, with their places among its arguments, and their database.
pub type Asked<'k> = (&'k [(usize, KeyHash)], u32);

/// Commands that the second and the third step are taken for at a time, at most.
pub const STEP_MAX: usize = 16;

/// First step, as soon as the hashes are known.
#[inline]
pub fn ask_for_buckets<'k>(engine: &Engine, commands: impl Iterator<Item = Asked<'k>>) {
    for (keys, db) in commands {
        keys.iter().for_each(|(_, hash)| engine.prefetch_bucket(db, *hash));
    }
}

/// Second step. Returns for which of the commands there is a third: bit `i` for command `i`.
#[inline]
pub fn ask_for_entries<'k>(engine: &Engine, commands: impl Iterator<Item = Asked<'k>>) -> u16 {
    let mut hints = [const { EntryHint::NOWHERE }; STEP_MAX];
    let mut further = 0;
    for (index, (place, (keys, db))) in hints.iter_mut().zip(commands).enumerate() {
        match keys {
            [(_, hash)] => {
                *place = engine.entry_hint(db, *hash);
                further |= u16::from(place.is_further()) << index;
            }
            _ => keys.iter().for_each(|(_, hash)| engine.entry_hint(db, *hash).prefetch()),
        }
    }
    hints.iter().for_each(EntryHint::prefetch);
    further
}

/// Third step, for those of the commands that `which` names.
#[inline]
pub fn ask_further<'k>(engine: &Engine, commands: impl Iterator<Item = Asked<'k>>, which: u16) {
    if which == 0 {
        return;
    }
    for (_, (keys, db)) in commands.take(STEP_MAX).enumerate().filter(|(index, _)| which >> index & 1 == 1) {
        keys.iter().for_each(|(_, hash)| engine.prefetch_chain(db, *hash));
    }
}
