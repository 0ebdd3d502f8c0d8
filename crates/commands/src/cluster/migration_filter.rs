//! Commands of the change log about keys in some slots.
//!
//! In a cluster a command has keys of one slot; a command with keys of other slots, too, ends the migration. A command
//! without keys concerns no slot: one that empties databases ends a migration instead.

use crate::cluster::log_text::commands_of;
use crate::core::args::Args;
use crate::core::command::Command;
use crate::core::command_table::accepted;
use crate::core::key_spec;
use cluster::slot_set::SlotSet;
use engine::data::slot::slot_of;
use engine::propagation::change_log::{Readers, RecordHead};
use engine::propagation::log_batch::{GROUP_BEGIN, GROUP_END, put_select};
use std::ops::Range;

/// Some keys of a command belong to slots that move, others do not.
#[derive(Debug, PartialEq, Eq)]
pub struct Divided;

/// Selects the commands about some slots for the node that receives these.
pub struct MigrationFilter {
    slots: SlotSet,
    /// Database that the other node has selected; None: not known.
    db: Option<u32>,
    /// Commands that were found in a record.
    found: Vec<(u32, Range<usize>)>,
}

impl MigrationFilter {
    /// Returns a filter for these slots.
    pub fn new(slots: SlotSet) -> MigrationFilter {
        MigrationFilter { slots, db: None, found: Vec::new() }
    }

    /// Returns these slots.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// Appends the commands about the slots from some records of one kind, or from a group, which stays one.
    ///
    /// # Errors
    /// `Divided`: a command has keys of these slots and of others. It cannot be sent to the other node, which lacks its
    /// change then.
    pub fn put(&mut self, head: RecordHead, text: &[u8], out: &mut Vec<u8>) -> Result<(), Divided> {
        if head.readers == Readers::Replicas {
            return Ok(());
        }
        let is_group = self.find(head.first, text)? > 1 && head.is_group;
        if is_group {
            out.extend_from_slice(GROUP_BEGIN);
        }
        for (db, range) in self.found.drain(..) {
            if self.db.replace(db) != Some(db) {
                put_select(out, db);
            }
            out.extend_from_slice(&text[range]);
        }
        if is_group {
            out.extend_from_slice(GROUP_END);
        }
        Ok(())
    }

    /// Finds the commands about the slots in a text that begins in a database. Returns their number.
    fn find(&mut self, mut db: u32, text: &[u8]) -> Result<usize, Divided> {
        let mut count = 0;
        for (args, range) in commands_of(text) {
            let Some(entry) = accepted(&args) else { continue };
            if let Some(next) = entry.command.selects(&args) {
                db = next;
            } else if self.concerns(entry.command, &args)? {
                count += 1;
                match self.found.last_mut() {
                    Some((last, known)) if *last == db && known.end == range.start => known.end = range.end,
                    _ => self.found.push((db, range)),
                }
            }
        }
        Ok(count)
    }

    /// Whether all keys of a command belong to the slots; false for a command without keys.
    fn concerns(&self, command: &'static Command, args: &Args<'_>) -> Result<bool, Divided> {
        let keys = key_spec::routed_by(command, args).into_iter().filter_map(|(index, _)| args.get(index));
        let (mut inside, mut outside) = (false, false);
        for key in keys {
            let is_inside = self.slots.contains(slot_of(key));
            (inside, outside) = (inside || is_inside, outside || !is_inside);
        }
        if inside && outside { Err(Divided) } else { Ok(inside) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| resp::encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
        bytes
    }

    fn passes(filter: &mut MigrationFilter, is_group: bool, db: u32, lines: &[&str]) -> Vec<u8> {
        crate::install(&[]);
        let mut out = Vec::new();
        let head = RecordHead { is_group, ..RecordHead::command(db, None) };
        filter.put(head, &text(lines), &mut out).expect("not divided");
        out
    }

    #[test]
    fn commands_with_keys_in_the_slots_pass() {
        // Keys with the tag {a} are of slot 15495.
        let mut filter = MigrationFilter::new(SlotSet::of([15495..=15495]));
        let out = passes(&mut filter, false, 0, &["SET {a}1 x", "SET {b}1 x", "FLUSHALL", "DEL {a}1 {a}2"]);
        assert_eq!(out, text(&["SELECT 0", "SET {a}1 x", "DEL {a}1 {a}2"]));
        assert_eq!(passes(&mut filter, false, 0, &["SET {a}1 x"]), text(&["SET {a}1 x"]));
        assert_eq!(passes(&mut filter, false, 0, &["SET {b}1 x"]), b"");
    }

    #[test]
    fn a_group_stays_one_and_its_databases_are_told() {
        let mut filter = MigrationFilter::new(SlotSet::of([15495..=15495]));
        let out = passes(&mut filter, true, 3, &["SET {a}1 x", "SET {b}1 x", "SELECT 4", "SET {a}2 x"]);
        assert_eq!(out, text(&["MULTI", "SELECT 3", "SET {a}1 x", "SELECT 4", "SET {a}2 x", "EXEC"]));
        assert_eq!(passes(&mut filter, true, 4, &["SET {a}1 x", "SET {b}1 x"]), text(&["SET {a}1 x"]));
        let head = RecordHead { readers: Readers::Replicas, ..RecordHead::command(4, None) };
        let mut none = Vec::new();
        filter.put(head, &text(&["SET {a}1 x"]), &mut none).expect("not divided");
        assert!(none.is_empty());
    }

    #[test]
    fn a_command_of_several_slots_is_not_passed_over() {
        let mut filter = MigrationFilter::new(SlotSet::of([15495..=15495]));
        assert_eq!(passes(&mut filter, false, 0, &["UNLINK {b}1 {c}1"]), b"");
        let (head, mut out) = (RecordHead::command(0, None), Vec::new());
        assert_eq!(filter.put(head, &text(&["UNLINK {b}1 {a}1"]), &mut out), Err(Divided));
    }
}
