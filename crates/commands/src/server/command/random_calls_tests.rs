//! Calls of all commands that have keys, made at random from their own syntax: even if words are repeated, left out or
//! in another order, a command touches no other keys than it names, and crashes nothing.

use crate::CommandTable;
use crate::core::command::CommandEntry;
use crate::core::dispatch;
use crate::server::command::syntax::{Argument, Kind, parse};
use crate::testing::Client;
use fastrand::Rng;
use resp::Reply;

const CALLS: usize = 60_000;
/// Keys of many shards: a string of each kind, and each kind of collection.
const KEYS: [&str; 10] = ["number", "text", "list", "set", "numbers", "hash", "zset", "geo", "stream", "nothing"];

/// Puts a value of its kind at each key.
fn fill(client: &mut Client) {
    for line in [
        "SET number 17",
        "SET text some-text",
        "RPUSH list 3 1 2 a b",
        "SADD set a b c text number",
        "SADD numbers 1 2 3",
        "HSET hash a 1 b 2 field x",
        "ZADD zset 1 a 2 b 3 c",
        "GEOADD geo 13.361389 38.115556 a 15.087269 37.502669 b",
        "XADD stream * a 1",
        "DEL nothing",
    ] {
        client.run(&format!("DEL {}", line.split(' ').nth(1).expect("a key")));
        client.run(line);
    }
}

/// The words of a call.
struct Call<'r> {
    random: &'r mut Rng,
    words: Vec<String>,
    /// Number of keys that were announced.
    announced: Option<usize>,
}

impl Call<'_> {
    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(..choices.len())]
    }

    fn put_all(&mut self, arguments: &[Argument<'_>]) {
        // Optional arguments may come in any order, and more than once.
        let (mut optional, mut required): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for argument in arguments {
            if argument.optional { optional.push(argument) } else { required.push(argument) }
        }
        let shuffles = self.random.bool();
        let mut rest = if shuffles { required } else { arguments.iter().collect() };
        if shuffles {
            for _ in 0..self.random.usize(..4).min(optional.len() * 2) {
                rest.push(optional[self.random.usize(..optional.len())]);
            }
        }
        for argument in rest {
            if !argument.optional || shuffles || self.random.bool() {
                self.put(argument);
            }
        }
    }

    fn put(&mut self, argument: &Argument<'_>) {
        let is_key = matches!(argument.kind, Kind::Value("key"));
        let times = match self.announced.take_if(|_| is_key) {
            Some(announced) => announced,
            None if argument.repeats => self.random.usize(1..4),
            None => 1,
        };
        for time in 0..times {
            if let Some(token) = argument.token.filter(|_| time == 0 || argument.repeats_token) {
                self.words.push(token.to_owned());
            }
            self.put_kind(argument);
        }
    }

    fn put_kind(&mut self, argument: &Argument<'_>) {
        let word = match &argument.kind {
            Kind::Token => return,
            Kind::Block(arguments) => return self.put_all(arguments),
            Kind::OneOf(arguments) => {
                let at = self.random.usize(..arguments.len());
                return self.put(&arguments[at]);
            }
            Kind::Value("key") => self.one_of(&KEYS),
            Kind::Value("integer") if argument.name == "numkeys" => {
                let announced = self.random.usize(1..4);
                self.announced = Some(announced);
                return self.words.push(announced.to_string());
            }
            Kind::Value("pattern") => self.one_of(&["*", "s*", "w_*->f", "#", "nosort", "[a-"]),
            Kind::Value("integer" | "unix-time") => self.one_of(&["0", "1", "2", "5", "-1", "100"]),
            Kind::Value("double") => self.one_of(&["0", "1.5", "13.4", "38.1", "-2", "inf"]),
            Kind::Value(_) => self.one_of(&["a", "b", "*", "0-1", "-", "+", "(1", "$", ">", "0", "i8", "field"]),
        };
        self.words.push(word.to_owned());
    }

    /// Removes, repeats or replaces a word now and then.
    fn spoil(&mut self, name_words: usize) {
        if self.words.len() > name_words && self.random.u8(..4) == 0 {
            let at = self.random.usize(name_words..self.words.len());
            match self.random.u8(..3) {
                0 => _ = self.words.remove(at),
                1 => self.words.insert(at, self.words[at].clone()),
                _ => self.words[at] = self.one_of(&["STORE", "GET", "KEYS", "0", "2", "text", "zset"]).to_owned(),
            }
        }
    }
}

#[test]
fn commands_touch_the_keys_that_they_name() {
    let mut client = Client::new();
    let entries: Vec<&CommandEntry> = CommandTable::get()
        .iter()
        .flat_map(|entry| std::iter::once(entry).chain(&entry.subcommands))
        .filter(|entry| !entry.command.keys.is_empty())
        .collect();
    let mut random = Rng::with_seed(1);
    for call in 0..CALLS {
        if call % 50 == 0 {
            fill(&mut client);
        }
        let entry = entries[random.usize(..entries.len())];
        let arguments = parse(entry.command.syntax).expect("an entry's syntax");
        let words: Vec<String> = entry.full_name.split('|').map(str::to_owned).collect();
        let name_words = words.len();
        let mut made = Call { random: &mut random, words, announced: None };
        made.put_all(&arguments);
        made.spoil(name_words);
        let words = made.words;
        let (engine, now) = (client.shared_engine().clone(), client.now());
        let mut args = words.iter().map(|word| word.as_bytes()).collect();
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            dispatch::execute(&engine, client.session(), &mut args, now, &mut Reply::default());
        }));
        assert!(ran.is_ok(), "{}", words.join(" "));
    }
}
