//! Draws rounds of steps from the rows of the chosen families, by a seed.

use crate::families::{Family, Row, phases};
use crate::grammar::{Command, Grammar};
use crate::hazard::{is_harmful, is_hazardous, is_incomparable, is_untold};
use crate::words::{COMMON, KEYS, Word, junk};
use fastrand::Rng;

/// Commands that stay together, usually one.
pub type Step = Vec<Command>;

/// One in so many commands is drawn and then bent: an argument dropped, doubled, added or replaced.
const BENT_ONE_IN: u8 = 25;
/// The databases that rows select.
const DBS: u8 = 3;

pub struct Generator {
    table: Table,
    /// Phases of histories by turns: one step in so many is of this table. None as often.
    phases: Vec<(u8, Table)>,
    /// Histories consist of a real server's commands, which does not propagate all of its changes to replicas.
    pub peer_leads: bool,
}

struct Table {
    rows: Vec<(u32, Grammar)>,
    total: u32,
}

impl Generator {
    /// From the rows of the families for which `is_usable` holds. An error names a row that is wrongly written.
    pub fn new(families: &[&'static Family], mut is_usable: impl FnMut(&Row) -> bool) -> Result<Generator, String> {
        let phases = phases::ALL.iter().map(|(one_in, family)| Ok((*one_in, Table::new(&[*family], |_| true)?)));
        let phases = phases.collect::<Result<_, String>>()?;
        Ok(Generator { table: Table::new(families, &mut is_usable)?, phases, peer_leads: false })
    }

    /// So many steps, always the same for a seed, and at the end a look at every key of every database.
    pub fn round(&self, seed: u64, steps: usize) -> Vec<Step> {
        let mut rng = Rng::with_seed(seed);
        let mut round: Vec<Step> = (0..steps).map(|_| self.step(&mut rng)).collect();
        round.extend(audit());
        round
    }

    fn step(&self, rng: &mut Rng) -> Step {
        loop {
            let mut step = self.table.row(rng).draw(rng);
            if let [command] = step.as_mut_slice()
                && rng.u8(..BENT_ONE_IN) == 0
            {
                bend(command, rng);
                if is_incomparable(command) {
                    continue;
                }
            }
            if !step.iter().any(is_hazardous) {
                return step;
            }
        }
    }

    /// Returns so many steps whose replies are not compared, some of them as transactions and scripts, and those of a
    /// phase.
    pub fn history(&self, seed: u64, steps: usize) -> Vec<Step> {
        let mut rng = Rng::with_seed(seed);
        let mut history = vec![vec![library()]];
        // Whether a round has one client depends on whether its seed is even.
        let phase = self.phases.get((seed / 2) as usize % (self.phases.len() + 1));
        for _ in 0..steps {
            if let Some((one_in, table)) = phase
                && rng.u8(..*one_in) == 0
            {
                history.push(table.row(&mut rng).draw(&mut rng));
            }
            let mut step = self.historic(&mut rng);
            if let [command] = step.as_slice() {
                let first = command.clone();
                let several = |rng: &mut Rng| (0..rng.usize(..4)).map(|_| self.alone(rng)).collect::<Vec<_>>();
                step = match rng.u8(..12) {
                    0 => {
                        let rest = several(&mut rng);
                        let bounds = ["MULTI", "EXEC"].map(|name| vec![name.as_bytes().to_vec()]);
                        let [multi, exec] = bounds;
                        [multi, first].into_iter().chain(rest).chain([exec]).collect()
                    }
                    1 => {
                        let rest = several(&mut rng);
                        vec![scripted(&mut rng, [first].into_iter().chain(rest))]
                    }
                    _ => step,
                };
            }
            history.push(step);
        }
        history
    }

    /// One command, for a transaction or a script.
    fn alone(&self, rng: &mut Rng) -> Command {
        loop {
            if let [command] = self.historic(rng).as_mut_slice() {
                return std::mem::take(command);
            }
        }
    }

    fn historic(&self, rng: &mut Rng) -> Step {
        loop {
            let mut step = self.table.row(rng).draw(rng);
            if let [command] = step.as_mut_slice()
                && rng.u8(..BENT_ONE_IN) == 0
            {
                bend(command, rng);
            }
            if self.peer_leads && step.iter().any(is_untold) {
                continue;
            }
            let waits_never = step[0][0].eq_ignore_ascii_case(b"MULTI");
            if waits_never || !step.iter().any(is_harmful) {
                return step;
            }
        }
    }
}

impl Table {
    fn new(families: &[&'static Family], mut is_usable: impl FnMut(&Row) -> bool) -> Result<Table, String> {
        let mut rows = Vec::new();
        for family in families {
            let tables: [&'static [Word]; 2] = [family.words, COMMON];
            for row in family.rows.iter().filter(|row| is_usable(row)) {
                rows.push((row.weight, Grammar::parse(row.grammar, &tables)?));
            }
        }
        let total = rows.iter().map(|(weight, _)| weight).sum();
        Ok(Table { rows, total })
    }

    fn row(&self, rng: &mut Rng) -> &Grammar {
        let mut at = rng.u32(..self.total);
        for (weight, grammar) in &self.rows {
            if at < *weight {
                return grammar;
            }
            at -= weight;
        }
        &self.rows[self.rows.len() - 1].1
    }
}

/// Runs the commands that are its arguments, each after the number of its words.
const EACH: &str = "local at = 1 while at <= #ARGV do local count = tonumber(ARGV[at]) \
                    redis.CALL(unpack(ARGV, at + 1, at + count)) at = at + count + 1 end";

/// The function that does the same.
fn library() -> Command {
    let body = EACH.replace("CALL", "pcall");
    let text = format!("#!lua name=each\nredis.register_function('each', function(KEYS, ARGV) {body} end)");
    ["FUNCTION", "LOAD", "REPLACE", &text].map(|word| word.as_bytes().to_vec()).into()
}

/// The commands as one script or function. An error in it may end it, after all commands or at the first that fails.
fn scripted(rng: &mut Rng, commands: impl Iterator<Item = Command>) -> Command {
    let script = match rng.u8(..4) {
        0 => EACH.replace("CALL", "call"),
        1 => format!("{} error('after all')", EACH.replace("CALL", "pcall")),
        _ => EACH.replace("CALL", "pcall"),
    };
    let head = if rng.u8(..4) == 0 { ["FCALL", "each", "0"] } else { ["EVAL", &script, "0"] };
    let mut words: Command = head.map(|word| word.as_bytes().to_vec()).into();
    for command in commands {
        words.push(command.len().to_string().into_bytes());
        words.extend(command);
    }
    words
}

/// The name stays: what would become a command's name could be any command's.
fn bend(command: &mut Command, rng: &mut Rng) {
    if command.len() > 1 && rng.bool() {
        let at = rng.usize(1..command.len());
        match rng.u8(..4) {
            0 => drop(command.remove(at)),
            1 => command.truncate(at),
            2 => command.insert(at, command[at].clone()),
            _ => command[at] = junk(rng),
        }
    } else {
        let at = rng.usize(1..=command.len());
        command.insert(at, junk(rng));
    }
}

/// Finds differences of state that no command of the round happened to show.
fn audit() -> Vec<Step> {
    const LOOKS: [&[&[u8]]; 6] =
        [&[b"TYPE"], &[b"PEXPIRETIME"], &[b"PTTL"], &[b"GET"], &[b"OBJECT", b"ENCODING"], &[b"ZRANGE"]];
    let command = |args: &[&[u8]]| args.iter().map(|arg| arg.to_vec()).collect::<Command>();
    let mut steps = vec![vec![command(&[b"CLIENT", b"GETNAME"])]];
    for db in 0..DBS {
        steps.push(vec![command(&[b"SELECT", db.to_string().as_bytes()])]);
        for key in KEYS {
            steps.extend(LOOKS.iter().map(|look| {
                let mut looked = command(look);
                looked.push(key.to_vec());
                if looked[0] == b"ZRANGE" {
                    looked.extend(command(&[b"0", b"-1", b"WITHSCORES"]));
                }
                vec![looked]
            }));
        }
        steps.push(vec![command(&[b"KEYS", b"*"])]);
        steps.push(vec![command(&[b"DBSIZE"])]);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{ALL, Needs, SEASONING};

    fn families() -> Vec<&'static Family> {
        let mut families = ALL.to_vec();
        families.push(&SEASONING);
        families
    }

    #[test]
    fn every_row_is_well_written() {
        assert!(Generator::new(&families(), |_| true).is_ok_and(|g| g.table.total > 0));
    }

    #[test]
    fn a_seed_always_draws_the_same() {
        let generator = Generator::new(&families(), |_| true).unwrap();
        assert_eq!(generator.round(5, 500), generator.round(5, 500));
        assert_ne!(generator.round(5, 500), generator.round(6, 500));
    }

    #[test]
    fn a_history_has_transactions_and_scripts_and_nothing_that_waits_long() {
        let mut all = families();
        all.push(&crate::families::HISTORY);
        let generator = Generator::new(&all, |_| true).unwrap();
        let history = generator.history(1, 5000);
        assert_eq!(history, generator.history(1, 5000));
        let has = |name: &str| history.iter().any(|step| step[0][0] == name.as_bytes());
        assert!(has("MULTI") && has("EVAL") && has("FCALL") && has("XCLAIM"));
        let alone = history.iter().filter(|step| !step[0][0].eq_ignore_ascii_case(b"MULTI"));
        assert!(!alone.flatten().any(is_harmful));
    }

    #[test]
    fn histories_have_every_phase_by_turns() {
        let generator = Generator::new(&families(), |_| true).unwrap();
        let phase = |seed: u64| {
            let history = generator.history(seed, 2000);
            let words: Vec<Vec<u8>> = history.into_iter().flatten().flatten().collect();
            let has = |word: &[u8]| words.iter().any(|found| found.eq_ignore_ascii_case(word));
            [has(b"REPLICA"), has(phases::TIGHT), has(phases::BREAKING)]
        };
        let found = [0, 2, 4, 6, 1, 3, 5, 7].map(phase);
        let each = [[true, false, false], [false, true, false], [false, false, true], [false; 3]];
        assert_eq!(found, [each, each].concat().as_slice());
    }

    #[test]
    fn nothing_hazardous_is_drawn() {
        let generator = Generator::new(&families(), |_| true).unwrap();
        let round = generator.round(1, 20_000);
        assert!(!round.iter().flatten().any(is_hazardous));
    }

    #[test]
    fn rows_are_used_only_when_usable() {
        let generator = Generator::new(&families(), |row| row.needs == Needs::Nothing).unwrap();
        let round = generator.round(1, 20_000);
        let drawn = |name: &[u8]| round.iter().flatten().any(|c| c[0].eq_ignore_ascii_case(name));
        assert!(drawn(b"GET") && drawn(b"ZADD") && !drawn(b"MSETEX"));
    }
}
