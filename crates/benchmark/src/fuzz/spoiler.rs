//! Commands that are spoiled: words removed, added, exchanged or replaced by what no command expects.

use super::command_maker::Words;
use fastrand::Rng;

/// One command in so many is spoiled.
const SPOILED_EVERY: usize = 20;
/// Commands that wait: a spoiled wait may never end.
const WAITING: [&str; 12] = [
    "BLPOP",
    "BRPOP",
    "BLMOVE",
    "BLMOVEM",
    "BLMPOP",
    "BRPOPLPUSH",
    "BZPOPMIN",
    "BZPOPMAX",
    "BZMPOP",
    "XREAD",
    "XREADGROUP",
    "MIGRATE",
];

/// Spoils a command now and then.
pub fn spoil(words: &mut Words, rng: &mut Rng) {
    let name = words.first().map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default();
    // A script may wait, too, and so may what follows WAIT.
    if rng.usize(..SPOILED_EVERY) > 0 || WAITING.contains(&&*name) || name.starts_with("WAIT") {
        return;
    }
    let at = rng.usize(..words.len());
    let other = rng.usize(..words.len());
    match rng.u8(..5) {
        0 if words.len() > 1 => _ = words.remove(at),
        1 => words.insert(at, b"random_value".to_vec()),
        2 => words.swap(at, other),
        3 => words.truncate(at.max(1)),
        _ => words[at] = strange(rng),
    }
}

fn strange(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..6) {
        0 => Vec::new(),
        1 => (0..rng.usize(1..40)).map(|_| rng.u8(..)).collect(),
        2 => vec![rng.uppercase() as u8; rng.usize(100..5000)],
        3 => b"\t\"\\'$%^&*(){}[]<>".to_vec(),
        4 => ["NaN", "-+123", "123abc", "inf", "9223372036854775808"][rng.usize(..5)].into(),
        _ => rng.usize(..1000).to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_commands_are_spoiled_and_none_that_waits() {
        let mut rng = Rng::with_seed(1);
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Words>();
        let mut changed = |line: &str| {
            let mut after = words(line);
            spoil(&mut after, &mut rng);
            assert!(!after.is_empty());
            after != words(line)
        };
        assert!((0..1000).filter(|_| changed("SET a b")).count() > 10);
        assert!(!(0..1000).any(|_| changed("BLPOP a 0.1")));
    }
}
