//! The language in which a family writes its commands, one row a command:
//!
//! ```text
//!   UPPER 0 -1      a literal argument; options are now and then drawn in lower or mixed case
//!   word            an argument drawn from the word of that name (`words.rs`, or the family's own)
//!   (A | B c)       one of these
//!   [A | B c]       one of these, or nothing
//!   {A | B c}       any of these, none to four times, in any order and with repetitions: this is
//!                   how illegal combinations and repeated options arise
//!   x+              once to four times; now and then many times
//!   a ; b           several commands, which stay together
//! ```
//!
//! `SET key value {NX | XX | GET | EX secs}` draws `SET k1 a`, `set k1 a xx EX 100000 GET`, `SET k1 a NX XX` ...

use crate::words::{Draw, Word};
use fastrand::Rng;

/// One command: its name and arguments.
pub type Command = Vec<Vec<u8>>;

/// A parsed row.
pub struct Grammar {
    commands: Vec<Sequence>,
}

type Sequence = Vec<Node>;

enum Node {
    Literal(&'static str),
    Word(Draw),
    One(Vec<Sequence>),
    Maybe(Vec<Sequence>),
    Bag(Vec<Sequence>),
    Many(Box<Node>),
}

const BAG_MAX: usize = 4;
const MANY_USUALLY: usize = 4;
const MANY_RARELY: usize = 150;

impl Grammar {
    /// Parses a row; words are looked up in the tables in order. The error says what is wrong with the row.
    pub fn parse(row: &'static str, tables: &[&'static [Word]]) -> Result<Grammar, String> {
        let mut parser = Parser { tokens: tokens(row), at: 0, tables };
        let mut commands = Vec::new();
        loop {
            let command = parser.sequence()?;
            if command.is_empty() {
                return Err(format!("an empty command in `{row}`"));
            }
            commands.push(command);
            match parser.next() {
                None => return Ok(Grammar { commands }),
                Some(";") => {}
                Some(token) => return Err(format!("`{token}` is out of place in `{row}`")),
            }
        }
    }

    /// The commands that stay together; most rows have one.
    pub fn draw(&self, rng: &mut Rng) -> Vec<Command> {
        let draw_one = |sequence: &Sequence| {
            let mut args = Vec::new();
            draw_sequence(sequence, rng, &mut args);
            args
        };
        self.commands.iter().map(draw_one).collect()
    }
}

fn draw_sequence(sequence: &Sequence, rng: &mut Rng, args: &mut Command) {
    for node in sequence {
        draw_node(node, rng, args);
    }
}

fn draw_node(node: &Node, rng: &mut Rng, args: &mut Command) {
    match node {
        Node::Literal(text) => args.push(in_some_case(text, rng)),
        Node::Word(draw) => args.push(draw(rng)),
        Node::One(choices) => draw_sequence(&choices[rng.usize(..choices.len())], rng, args),
        Node::Maybe(choices) => {
            if rng.bool() {
                draw_sequence(&choices[rng.usize(..choices.len())], rng, args);
            }
        }
        Node::Bag(choices) => {
            // Few options are drawn more often than many, so that most commands are legal.
            let count = rng.usize(..=BAG_MAX).min(rng.usize(..=BAG_MAX));
            for _ in 0..count {
                draw_sequence(&choices[rng.usize(..choices.len())], rng, args);
            }
        }
        Node::Many(node) => {
            let rarely = rng.u8(..) == 0;
            let max = if rarely { MANY_RARELY } else { MANY_USUALLY };
            for _ in 0..rng.usize(1..=max) {
                draw_node(node, rng, args);
            }
        }
    }
}

fn in_some_case(text: &str, rng: &mut Rng) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    match rng.u8(..10) {
        0 => text.make_ascii_lowercase(),
        1 => text.iter_mut().for_each(|c| {
            if rng.bool() {
                c.make_ascii_lowercase();
            }
        }),
        _ => {}
    }
    text
}

struct Parser<'a> {
    tokens: Vec<&'static str>,
    at: usize,
    tables: &'a [&'static [Word]],
}

impl Parser<'_> {
    fn next(&mut self) -> Option<&'static str> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    /// Reads nodes up to a token that ends a sequence, which is left for the caller.
    fn sequence(&mut self) -> Result<Sequence, String> {
        let mut nodes = Vec::new();
        while let Some(&token) = self.tokens.get(self.at) {
            let node = match token {
                ")" | "]" | "}" | "|" | ";" => break,
                "+" => {
                    let repeated = nodes.pop().ok_or("`+` repeats nothing")?;
                    Node::Many(Box::new(repeated))
                }
                "(" => Node::One(self.choices(")")?),
                "[" => Node::Maybe(self.choices("]")?),
                "{" => Node::Bag(self.choices("}")?),
                word if word.starts_with(|c: char| c.is_ascii_lowercase()) => Node::Word(self.word(word)?),
                literal => Node::Literal(literal),
            };
            self.at += 1;
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// Reads the alternatives of a bracket that was opened; the closing one is left for the caller.
    fn choices(&mut self, closing: &str) -> Result<Vec<Sequence>, String> {
        let mut choices = Vec::new();
        loop {
            self.at += 1;
            let choice = self.sequence()?;
            if choice.is_empty() {
                return Err("an empty alternative".into());
            }
            choices.push(choice);
            match self.tokens.get(self.at) {
                Some(&"|") => {}
                Some(&token) if token == closing => return Ok(choices),
                _ => return Err(format!("`{closing}` is missing")),
            }
        }
    }

    fn word(&self, name: &str) -> Result<Draw, String> {
        self.tables
            .iter()
            .flat_map(|table| table.iter())
            .find(|word| word.0 == name)
            .map(|word| word.1)
            .ok_or_else(|| format!("no word is named `{name}`"))
    }
}

fn tokens(row: &'static str) -> Vec<&'static str> {
    const SIGNS: &[char] = &['(', ')', '[', ']', '{', '}', '|', ';', '+'];
    let mut tokens = Vec::new();
    for mut part in row.split_whitespace() {
        while let Some(at) = part.find(SIGNS) {
            let (before, rest) = part.split_at(at);
            let (sign, after) = rest.split_at(1);
            tokens.extend([before, sign].into_iter().filter(|t| !t.is_empty()));
            part = after;
        }
        if !part.is_empty() {
            tokens.push(part);
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const WORDS: &[Word] = &[("x", |_| b"x!".to_vec())];

    fn drawn(row: &'static str) -> HashSet<String> {
        let grammar = Grammar::parse(row, &[WORDS]).unwrap();
        let mut rng = Rng::with_seed(1);
        let draw = |_| {
            let commands = grammar.draw(&mut rng).into_iter();
            let commands = commands.map(|c| String::from_utf8(c.join(&b' ')).unwrap());
            commands.collect::<Vec<_>>().join(";").to_uppercase()
        };
        (0..2000).map(draw).collect()
    }

    fn set(texts: &[&str]) -> HashSet<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn brackets_draw_what_they_promise() {
        assert_eq!(drawn("A x"), set(&["A X!"]));
        assert_eq!(drawn("A (B|C x)"), set(&["A B", "A C X!"]));
        assert_eq!(drawn("A [B|C x] 1"), set(&["A 1", "A B 1", "A C X! 1"]));
        assert_eq!(drawn("A ; B"), set(&["A;B"]));
    }

    #[test]
    fn bags_repeat_and_mix() {
        let bag = drawn("A {B|C}");
        for expected in ["A", "A B", "A C B", "A B B", "A B C B C"] {
            assert!(bag.contains(expected), "{expected}");
        }
        assert!(!bag.contains("A B B B B B"));
    }

    #[test]
    fn plus_repeats_a_word_or_a_bracket() {
        let many = drawn("A (B x)+");
        assert!(many.contains("A B X!") && many.contains("A B X! B X! B X! B X!"));
        assert!(many.iter().any(|command| command.len() > 100) && !many.contains("A"));
    }

    #[test]
    fn cases_are_mixed() {
        let grammar = Grammar::parse("GET", &[]).unwrap();
        let mut rng = Rng::with_seed(1);
        let seen: HashSet<_> = (0..500).map(|_| grammar.draw(&mut rng)[0][0].clone()).collect();
        for expected in ["GET", "get", "gEt"] {
            assert!(seen.contains(expected.as_bytes()), "{expected}");
        }
    }

    #[test]
    fn rows_with_mistakes_are_refused() {
        for row in ["", "A nothing", "A (B", "A )", "A ;", "+", "A [B|]", "A {B)"] {
            assert!(Grammar::parse(row, &[WORDS]).is_err(), "{row}");
        }
    }
}
