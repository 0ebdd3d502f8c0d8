//! The filters by which CLIENT LIST and CLIENT KILL choose clients.

use crate::core::acl_catalog::rule_context;
use crate::core::args::Args;
use crate::core::client_line::{FLAG_LETTERS, flags, is_subscriber, user_of};
use engine::clients::registry::ClientInfo;
use engine::time::UnixMs;
use engine::{Engine, Error, Word};
use std::sync::atomic::Ordering::Relaxed;

/// Condition of one option on a client.
#[derive(Debug)]
enum Condition {
    Ids(Vec<u64>),
    Kind(Kind),
    User(Vec<u8>),
    Addr(Vec<u8>),
    Laddr(Vec<u8>),
    Name(Vec<u8>),
    LibName(Vec<u8>),
    LibVer(Vec<u8>),
    Ip(Vec<u8>),
    /// All of these letters.
    Flags(Vec<u8>),
    Capa(Vec<u8>),
    Db(u32),
    /// At least so many seconds old or idle.
    MaxAge(i64),
    Idle(i64),
}

/// Role of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Primary,
    Replica,
    PubSub,
    /// The other end of a migration of slots, which no option names.
    Migration,
}

impl Kind {
    fn parse(name: &[u8]) -> Result<Kind, Error> {
        match &name.to_ascii_lowercase()[..] {
            b"normal" => Ok(Kind::Normal),
            b"primary" | b"master" => Ok(Kind::Primary),
            b"replica" | b"slave" => Ok(Kind::Replica),
            b"pubsub" => Ok(Kind::PubSub),
            _ => Err(Error::UnknownClientType(Word::of(name))),
        }
    }
}

/// Conditions on clients, of which all must hold.
#[derive(Debug, Default)]
pub struct Filter {
    /// Conditions, each with whether it must not hold.
    conditions: Vec<(bool, Condition)>,
    /// Whether to leave out the client that asks.
    pub skip_me: bool,
}

impl Filter {
    /// Reads options from argument 2 on. `skip_me`: whether the asking client is left out unless SKIPME says otherwise.
    ///
    /// # Errors
    /// An option that does not exist, or has no such value.
    pub fn parse(args: &Args<'_>, skip_me: bool, engine: &Engine) -> Result<Filter, Error> {
        let mut filter = Filter { skip_me, ..Filter::default() };
        let mut index = 2;
        while index < args.len() {
            if index + 1 == args.len() {
                return Err(Error::Syntax);
            }
            if args.is(index, "skipme") {
                filter.skip_me = match () {
                    () if args.is(index + 1, "yes") => true,
                    () if args.is(index + 1, "no") => false,
                    () => return Err(Error::Syntax),
                };
                index += 2;
                continue;
            }
            let word = args[index].to_ascii_lowercase();
            let (negated, word) = match word.strip_prefix(b"not-") {
                Some(rest) if !matches!(rest, b"maxage" | b"idle") => (true, rest),
                _ => (false, &word[..]),
            };
            let condition = if word == b"id" {
                let ids = parse_ids(args, &mut index)?;
                Condition::Ids(ids)
            } else {
                index += 2;
                parse_condition(negated, word, &args[index - 1], engine)?
            };
            filter.add(negated, condition);
        }
        Ok(filter)
    }

    /// Adds an option. The last one of several counts, but IDs are joined.
    fn add(&mut self, negated: bool, condition: Condition) {
        let same = |known: &&mut (bool, Condition)| {
            known.0 == negated && std::mem::discriminant(&known.1) == std::mem::discriminant(&condition)
        };
        match (self.conditions.iter_mut().find(same), condition) {
            (Some((_, Condition::Ids(ids))), Condition::Ids(more)) => ids.extend(more),
            (Some((_, known)), condition) => *known = condition,
            (None, condition) => self.conditions.push((negated, condition)),
        }
    }

    /// Returns whether the client matches; `me`: id of the client that asks.
    pub fn admits(&self, client: &ClientInfo, me: u64, now_ms: UnixMs) -> bool {
        !(self.skip_me && client.id == me)
            && self.conditions.iter().all(|(negated, condition)| condition.holds(client, now_ms) != *negated)
    }
}

/// Parses the numbers after `ID`, up to the first word that is none.
fn parse_ids(args: &Args<'_>, index: &mut usize) -> Result<Vec<u64>, Error> {
    let mut ids = Vec::new();
    *index += 1;
    while let Some(id) = args.get(*index).and_then(resp::number::parse_i64) {
        if id < 1 {
            return Err(Error::ClientIdNotPositive);
        }
        ids.push(id as u64);
        *index += 1;
    }
    if ids.is_empty() { Err(Error::Syntax) } else { Ok(ids) }
}

fn kind_of(client: &ClientInfo) -> Kind {
    match () {
        () if client.is_primary.load(Relaxed) => Kind::Primary,
        () if client.migration.is_source.load(Relaxed) || client.migration.is_target.load(Relaxed) => Kind::Migration,
        () if client.is_replica.load(Relaxed) => Kind::Replica,
        () if is_subscriber(client) => Kind::PubSub,
        () => Kind::Normal,
    }
}

fn parse_condition(negated: bool, word: &[u8], value: &[u8], engine: &Engine) -> Result<Condition, Error> {
    let databases = engine.databases();
    let db_name = if negated { "NOT-DB" } else { "DB" };
    let number = |name: &'static str| resp::number::parse_i64(value).ok_or(Error::FilterNotAnInteger(name));
    let positive = |name: &'static str| match number(name)? {
        n if n > 0 => Ok(n),
        _ => Err(Error::FilterNotPositive(name)),
    };
    let known_letters = |name: &str, known: &[u8]| match value.iter().find(|letter| !known.contains(letter)) {
        None => Ok(value.to_vec()),
        Some(_) => {
            let filter = if negated { format!("NOT-{}", name.to_uppercase()) } else { "provided".to_owned() };
            Err(Error::FilterLetters(Word::of(name), Word::of(filter), Word::of(value)))
        }
    };
    Ok(match word {
        b"type" => Condition::Kind(Kind::parse(value)?),
        b"user" if engine.users().get(value, rule_context(engine)).is_some() => Condition::User(value.to_vec()),
        b"user" => return Err(Error::NoSuchUser(Word::of(value))),
        b"addr" => Condition::Addr(value.to_vec()),
        b"laddr" => Condition::Laddr(value.to_vec()),
        b"name" => Condition::Name(value.to_vec()),
        b"lib-name" => Condition::LibName(value.to_vec()),
        b"lib-ver" => Condition::LibVer(value.to_vec()),
        b"ip" => Condition::Ip(value.to_vec()),
        b"flags" => Condition::Flags(known_letters("flags", FLAG_LETTERS)?),
        b"capa" => Condition::Capa(known_letters("capa", b"r")?),
        b"maxage" => Condition::MaxAge(positive("maxage")?),
        b"idle" => Condition::Idle(positive("idle")?),
        b"db" => {
            let db = usize::try_from(number(db_name)?).ok().filter(|db| *db < databases);
            let error = || Error::FilterDb(db_name, Word::of((databases - 1).to_string()));
            Condition::Db(db.ok_or_else(error)? as u32)
        }
        _ => return Err(Error::Syntax),
    })
}

impl Condition {
    fn holds(&self, client: &ClientInfo, now_ms: UnixMs) -> bool {
        let has_letters = |text: &str, letters: &[u8]| letters.iter().all(|letter| text.as_bytes().contains(letter));
        // A client that has not set the text has none, which is not the empty one.
        let is_text = |asked: &[u8], said: &[u8]| !said.is_empty() && asked == said;
        match self {
            Condition::Ids(ids) => ids.contains(&client.id),
            Condition::Kind(kind) => *kind == kind_of(client),
            Condition::User(user) => user == user_of(&client.details()),
            Condition::Addr(addr) => *addr == client.addr.as_bytes(),
            Condition::Laddr(laddr) => *laddr == client.laddr.as_bytes(),
            Condition::Name(name) => is_text(name, &client.details().name),
            Condition::LibName(name) => is_text(name, &client.details().lib_name),
            Condition::LibVer(version) => is_text(version, &client.details().lib_ver),
            Condition::Ip(ip) => client
                .addr
                .rsplit_once(':')
                .is_some_and(|(host, _)| host.trim_start_matches('[').trim_end_matches(']').as_bytes() == &ip[..]),
            Condition::Flags(letters) => has_letters(&flags(client), letters),
            Condition::Capa(letters) => client.redirects.load(Relaxed) || letters.is_empty(),
            Condition::Db(db) => client.db.load(Relaxed) == *db,
            Condition::MaxAge(seconds) => (now_ms.0 - client.connected_at.load(Relaxed)) / 1000 >= *seconds,
            Condition::Idle(seconds) => (now_ms.0 - client.active_at.load(Relaxed)) / 1000 >= *seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_line_tells_of_what_was_refused_and_of_no_database_that_a_script_selected() {
        let mut client = Client::new();
        for (words, told) in [
            (&["GET"][..], " cmd=get "),
            (&["NOPE"], " cmd=NULL "),
            (&["CLIENT", "GETNAME", "x"], " cmd=client|getname "),
            (&["EVAL", "return redis.call('select', '1')", "0"], " db=0 "),
            (&["SELECT", "2"], " db=2 "),
        ] {
            client.run_words(words);
            let line = client.run("CLIENT INFO");
            assert!(line.contains(told), "{words:?}: {line}");
        }
    }
}
