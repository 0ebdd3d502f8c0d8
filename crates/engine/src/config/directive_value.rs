//! Values: what an entry's text turns into, and the text that CONFIG GET shows for it.
//!
//! Reading and printing are inverse: what is printed reads back as the same value. The texts of refusal are the
//! server's, clients and tests compare them.

use std::sync::Arc;

use resp::number::{parse_f64, parse_i64, parse_i64_c};

use super::directive_entry::{DirectiveEntry, DirectiveKind, Preset, Unit};
use super::keyspace_events;

/// Limits on the bytes that wait for one client of a class. 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBufferLimit {
    /// The client is disconnected at once beyond this many bytes.
    pub hard_bytes: u64,
    /// The client is disconnected when it has been beyond this many bytes for `soft_seconds`.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: i64,
}

/// Classes of clients, in the order in which limits are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// Clients that are none of the others.
    Normal,
    /// Replicas, which are sent the changes.
    Replica,
    /// Clients with subscriptions.
    PubSub,
}

impl ClientClass {
    /// Returns the class of a name; replicas have an older one, too.
    fn named(name: &[u8]) -> Option<ClientClass> {
        if name.eq_ignore_ascii_case(b"normal") {
            Some(ClientClass::Normal)
        } else if name.eq_ignore_ascii_case(b"replica") || name.eq_ignore_ascii_case(b"slave") {
            Some(ClientClass::Replica)
        } else if name.eq_ignore_ascii_case(b"pubsub") {
            Some(ClientClass::PubSub)
        } else {
            None
        }
    }
}

/// Save after `seconds` when at least `changes` keys changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// How long after the last save.
    pub seconds: i64,
    /// How many changes there must be, at least.
    pub changes: i64,
}

/// The primary that a replica follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name or address.
    pub host: Arc<[u8]>,
    /// Its port for clients.
    pub port: u16,
}

/// The value of one directive.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectiveValue {
    /// Value of [`DirectiveKind::Flag`].
    Flag(bool),
    /// Bytes, percent (negative), mode or plain number, as the entry's unit says.
    Integer(i64),
    /// Position among the entry's names.
    Choice(usize),
    /// One bit a name of the entry, without the first, which means none.
    Choices(u32),
    /// Value of [`DirectiveKind::Text`] and [`DirectiveKind::Dir`]; None where there is no text.
    Text(Option<Arc<[u8]>>),
    /// Value of [`DirectiveKind::Save`], in the order given; none: no saves.
    Save(Arc<[SavePoint]>),
    /// Value of [`DirectiveKind::Bind`], as written.
    Bind(Arc<[Arc<[u8]>]>),
    /// Value of [`DirectiveKind::OutputBufferLimits`], one for each [`ClientClass`] in its order.
    OutputBufferLimits([OutputBufferLimit; 3]),
    /// Value of [`DirectiveKind::OomScoreAdjValues`].
    OomScoreAdjValues([i32; 3]),
    /// Value of [`DirectiveKind::KeyspaceEvents`]: bits of [`keyspace_events`].
    KeyspaceEvents(u32),
    /// Value of [`DirectiveKind::Percentiles`].
    Percentiles(Arc<[f64]>),
    /// Value of [`DirectiveKind::ReplicaOf`]; None: this server is a primary.
    ReplicaOf(Option<Upstream>),
}

const WRONG_NUMBER: &str = "wrong number of arguments";
const ADDRESSES_MAX: usize = 16;

impl DirectiveEntry {
    /// Returns the value that is in force if none is set.
    pub fn default_value(&self) -> DirectiveValue {
        match (self.default, self.kind) {
            (Preset::Flag(flag), _) => DirectiveValue::Flag(flag),
            (Preset::Integer(number), _) => DirectiveValue::Integer(number),
            (Preset::Text(text), DirectiveKind::Text | DirectiveKind::Dir) => self.text(text.as_bytes()),
            (Preset::Text(text), _) => {
                let words: Vec<&[u8]> =
                    if text.is_empty() && self.takes_words() { Vec::new() } else { words_of(self, text.as_bytes()) };
                let unlimited = OutputBufferLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 };
                // Rows are constants, and a test reads every default.
                self.parse(&words, &DirectiveValue::OutputBufferLimits([unlimited; 3]))
                    .unwrap_or(DirectiveValue::Text(None))
            }
        }
    }

    /// Reads a value from words: one, except for the kinds that take several. `current` is the present value: limits of
    /// classes that are not named stay.
    ///
    /// # Errors
    /// The text for the client: the words are no value of this directive.
    pub fn parse(&self, words: &[&[u8]], current: &DirectiveValue) -> Result<DirectiveValue, String> {
        match self.kind {
            DirectiveKind::Flag => parse_flag(single(words)?),
            DirectiveKind::Integer { min, max, unit } => self.parse_integer(single(words)?, min, max, unit),
            DirectiveKind::Choice(names) => self.parse_choice(single(words)?, names),
            DirectiveKind::Choices(names) => parse_choices(words, names),
            DirectiveKind::Text => {
                let word = single(words)?;
                if let Some(check) = self.check {
                    check(word)?;
                }
                Ok(self.text(word))
            }
            DirectiveKind::Dir => match single(words)? {
                b"" => Err("dir can't be empty".to_string()),
                path => Ok(self.text(path)),
            },
            DirectiveKind::Save => parse_save(words),
            DirectiveKind::Bind => parse_bind(words),
            DirectiveKind::OutputBufferLimits => parse_output_buffer_limits(words, current),
            DirectiveKind::OomScoreAdjValues => parse_oom_values(words),
            DirectiveKind::KeyspaceEvents => keyspace_events::parse(single(words)?)
                .map(DirectiveValue::KeyspaceEvents)
                .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_string()),
            DirectiveKind::Percentiles => parse_percentiles(words),
            DirectiveKind::ReplicaOf => parse_replica_of(words),
        }
    }

    /// Prints a value as CONFIG GET does.
    pub fn print(&self, value: &DirectiveValue) -> Vec<u8> {
        match (value, self.kind) {
            (DirectiveValue::Flag(flag), _) => {
                if *flag {
                    b"yes".to_vec()
                } else {
                    b"no".to_vec()
                }
            }
            (DirectiveValue::Integer(number), DirectiveKind::Integer { unit, .. }) => {
                print_integer(*number, unit).into_bytes()
            }
            (DirectiveValue::Choice(at), DirectiveKind::Choice(names)) => {
                names.get(*at).unwrap_or(&"unknown").as_bytes().to_vec()
            }
            (DirectiveValue::Choices(bits), DirectiveKind::Choices(names)) => print_choices(*bits, names).into_bytes(),
            (DirectiveValue::Text(text), _) => text.as_deref().unwrap_or_default().to_vec(),
            (DirectiveValue::Save(points), _) => {
                join(points.iter().map(|point| format!("{} {}", point.seconds, point.changes).into_bytes()))
            }
            (DirectiveValue::Bind(addresses), _) => join(addresses.iter().map(|address| address.to_vec())),
            (DirectiveValue::OutputBufferLimits(limits), _) => {
                let classes = ["normal", "slave", "pubsub"].iter().zip(limits);
                join(classes.map(|(class, limit)| {
                    format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds).into_bytes()
                }))
            }
            (DirectiveValue::OomScoreAdjValues(values), _) => {
                join(values.iter().map(|value| value.to_string().into_bytes()))
            }
            (DirectiveValue::KeyspaceEvents(flags), _) => keyspace_events::print(*flags).into_bytes(),
            (DirectiveValue::Percentiles(values), _) => {
                join(values.iter().map(|&value| print_percentile(value).into_bytes()))
            }
            (DirectiveValue::ReplicaOf(Some(upstream)), _) => {
                let mut text = upstream.host.to_vec();
                text.extend_from_slice(format!(" {}", upstream.port).as_bytes());
                text
            }
            (
                DirectiveValue::ReplicaOf(None)
                | DirectiveValue::Integer(_)
                | DirectiveValue::Choice(_)
                | DirectiveValue::Choices(_),
                _,
            ) => Vec::new(),
        }
    }

    fn text(&self, text: &[u8]) -> DirectiveValue {
        DirectiveValue::Text(if text.is_empty() && !self.keeps_empty { None } else { Some(text.into()) })
    }

    fn parse_integer(&self, text: &[u8], min: i64, max: i64, unit: Unit) -> Result<DirectiveValue, String> {
        let number = read_integer(text, unit)?;
        let octal = unit == Unit::Octal;
        if unit == Unit::MemoryOrPercent && number < 0 {
            if number < min {
                return Err(format!("percentage argument must be less or equal to {}", min.unsigned_abs()));
            }
        } else if unit != Unit::UnsignedMemory && !(min..=max).contains(&number) {
            return Err(if octal {
                format!("argument must be between {min:o} and {max:o} inclusive")
            } else {
                format!("argument must be between {min} and {max} inclusive")
            });
        }
        Ok(DirectiveValue::Integer(self.clamp.map_or(number, |(low, high)| number.clamp(low, high))))
    }

    fn parse_choice(&self, word: &[u8], names: &[&str]) -> Result<DirectiveValue, String> {
        let at = position(names, word).ok_or_else(|| not_among(names))?;
        let reported = match self.synonym {
            Some((read, reported)) if names[at] == read => position(names, reported.as_bytes()).unwrap_or(at),
            _ => at,
        };
        Ok(DirectiveValue::Choice(reported))
    }
}

/// Returns the words of a value given as one text, as CONFIG SET gives it: split at every blank, none when it is empty.
pub fn words_of<'t>(entry: &DirectiveEntry, text: &'t [u8]) -> Vec<&'t [u8]> {
    if !entry.takes_words() {
        vec![text]
    } else if text.is_empty() {
        Vec::new()
    } else {
        text.split(|&c| c == b' ').collect()
    }
}

fn single<'w>(words: &[&'w [u8]]) -> Result<&'w [u8], String> {
    match words {
        [word] => Ok(word),
        _ => Err(WRONG_NUMBER.to_string()),
    }
}

fn parse_flag(word: &[u8]) -> Result<DirectiveValue, String> {
    if word.eq_ignore_ascii_case(b"yes") {
        Ok(DirectiveValue::Flag(true))
    } else if word.eq_ignore_ascii_case(b"no") {
        Ok(DirectiveValue::Flag(false))
    } else {
        Err("argument must be 'yes' or 'no'".to_string())
    }
}

fn position(names: &[&str], word: &[u8]) -> Option<usize> {
    names.iter().position(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

fn not_among(names: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", names.join(", "))
}

fn parse_choices(words: &[&[u8]], names: &[&str]) -> Result<DirectiveValue, String> {
    if words.is_empty() {
        return Err(not_among(names));
    }
    let mut bits = 0;
    for word in words {
        match position(names, word) {
            Some(0) => {}
            Some(at) => bits |= 1 << (at - 1),
            None => return Err(not_among(names)),
        }
    }
    let named =
        |bits: u32, name: &str| position(names, name.as_bytes()).is_some_and(|at| at > 0 && bits & 1 << (at - 1) != 0);
    if named(bits, "save") && named(bits, "nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_string());
    }
    Ok(DirectiveValue::Choices(bits))
}

fn print_choices(bits: u32, names: &[&str]) -> String {
    if bits == 0 {
        return names.first().unwrap_or(&"").to_string();
    }
    let set = names.iter().skip(1).enumerate().filter(|(at, _)| bits & 1 << at != 0);
    set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

/// Reads a number of bytes: digits and one of b, k, kb, m, mb, g, gb in any case (k is 1000, kb 1024).
pub fn parse_memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let factor: u64 = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number =
        text[..digits].iter().try_fold(0u64, |number, c| number.checked_mul(10)?.checked_add(u64::from(c - b'0')))?;
    number.checked_mul(factor)
}

fn read_integer(text: &[u8], unit: Unit) -> Result<i64, String> {
    // Beyond i64::MAX the sign bit is set: out of bounds for every unit but the unsigned one.
    let memory = || parse_memory(text).map(u64::cast_signed);
    match unit {
        Unit::Plain => parse_i64(text).ok_or("argument couldn't be parsed into an integer"),
        Unit::Octal => parse_octal(text).ok_or("argument couldn't be parsed as an octal number"),
        Unit::Memory | Unit::UnsignedMemory => memory().ok_or("argument must be a memory value"),
        Unit::SignedMemory => memory().or_else(|| parse_i64(text)).ok_or("argument must be a memory value"),
        Unit::MemoryOrPercent => {
            let percent = || text.strip_suffix(b"%").and_then(parse_i64).filter(|&n| n >= 0).map(|n| -n);
            memory().or_else(percent).ok_or("argument must be a memory or percent value")
        }
    }
    .map_err(str::to_string)
}

/// As C's `strtoll` in base 8: leading blanks, a sign, and nothing at all are accepted.
fn parse_octal(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return text.is_empty().then_some(0);
    }
    digits.iter().try_fold(0i64, |number, c| {
        let digit = i64::from(matches!(c, b'0'..=b'7').then(|| c - b'0')?);
        number.checked_mul(8)?.checked_add(if negative { -digit } else { digit })
    })
}

fn print_integer(number: i64, unit: Unit) -> String {
    match unit {
        Unit::MemoryOrPercent if number < 0 => format!("{}%", number.unsigned_abs()),
        Unit::UnsignedMemory => number.cast_unsigned().to_string(),
        Unit::Octal => format!("{number:o}"),
        _ => number.to_string(),
    }
}

/// As C's `strtoll`, where an empty text is 0.
fn parse_c_integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() { Some(0) } else { parse_i64_c(text) }
}

fn parse_save(words: &[&[u8]]) -> Result<DirectiveValue, String> {
    const TEXT: &str = "Invalid save parameters";
    if words == [b"" as &[u8]] {
        return Ok(DirectiveValue::Save(Arc::new([])));
    }
    if !words.len().is_multiple_of(2) {
        return Err(TEXT.to_string());
    }
    let mut points = Vec::with_capacity(words.len() / 2);
    for pair in words.chunks_exact(2) {
        match (parse_c_integer(pair[0]), parse_c_integer(pair[1])) {
            (Some(seconds @ 1..), Some(changes @ 0..)) => points.push(SavePoint { seconds, changes }),
            _ => return Err(TEXT.to_string()),
        }
    }
    Ok(DirectiveValue::Save(points.into()))
}

fn parse_bind(words: &[&[u8]]) -> Result<DirectiveValue, String> {
    if words.len() > ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".to_string());
    }
    let words = if words == [b"" as &[u8]] { &[] } else { words };
    Ok(DirectiveValue::Bind(words.iter().map(|&word| word.into()).collect()))
}

fn parse_output_buffer_limits(words: &[&[u8]], current: &DirectiveValue) -> Result<DirectiveValue, String> {
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_string());
    }
    let DirectiveValue::OutputBufferLimits(mut limits) = *current else {
        return Err("Wrong number of arguments in buffer limit configuration.".to_string());
    };
    for class_words in words.chunks_exact(4) {
        let class = ClientClass::named(class_words[0])
            .ok_or("Invalid client class specified in buffer limit configuration.")?;
        let limit = match (
            parse_memory(class_words[1]),
            parse_memory(class_words[2]),
            parse_c_integer(class_words[3]).filter(|&seconds| seconds >= 0),
        ) {
            (Some(hard_bytes), Some(soft_bytes), Some(soft_seconds)) => {
                OutputBufferLimit { hard_bytes, soft_bytes, soft_seconds }
            }
            _ => return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".to_string()),
        };
        limits[class as usize] = limit;
    }
    Ok(DirectiveValue::OutputBufferLimits(limits))
}

fn parse_oom_values(words: &[&[u8]]) -> Result<DirectiveValue, String> {
    const TEXT: &str = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
    let words: [&[u8]; 3] = words.try_into().map_err(|_| WRONG_NUMBER.to_string())?;
    let mut values = [0; 3];
    for (value, word) in values.iter_mut().zip(words) {
        let number = parse_c_integer(word).filter(|number| (-2000..=2000).contains(number)).ok_or(TEXT)?;
        *value = i32::try_from(number).map_err(|_| TEXT)?;
    }
    Ok(DirectiveValue::OomScoreAdjValues(values))
}

fn parse_percentiles(words: &[&[u8]]) -> Result<DirectiveValue, String> {
    let words = if words == [b"" as &[u8]] { &[] } else { words };
    let mut values = Vec::with_capacity(words.len());
    for word in words {
        let value = parse_f64(word).ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&value) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".to_string());
        }
        values.push(value);
    }
    Ok(DirectiveValue::Percentiles(values.into()))
}

/// Prints six decimals without trailing zeros.
pub fn print_percentile(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn parse_replica_of(words: &[&[u8]]) -> Result<DirectiveValue, String> {
    let &[host, port] = words else { return Err(WRONG_NUMBER.to_string()) };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(DirectiveValue::ReplicaOf(None));
    }
    let port = parse_c_integer(port).and_then(|port| u16::try_from(port).ok()).ok_or("Invalid primary port")?;
    Ok(DirectiveValue::ReplicaOf(Some(Upstream { host: host.into(), port })))
}

fn join(texts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    texts.collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_units() {
        for (text, bytes) in
            [("0", 0), ("12", 12), ("1b", 1), ("3k", 3000), ("3Kb", 3072), ("2MB", 2 << 20), ("1g", 1_000_000_000)]
        {
            assert_eq!(parse_memory(text.as_bytes()), Some(bytes), "{text}");
        }
        assert_eq!(parse_memory(b"18446744073709551615"), Some(u64::MAX));
        for text in ["-1", "1t", "1.5g", "x", "18446744073709551616", "18446744073709551615kb"] {
            assert_eq!(parse_memory(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn octal_as_c_reads_it() {
        for (text, number) in
            [("700", Some(0o700)), ("", Some(0)), (" +7", Some(7)), ("-1", Some(-1)), ("8", None), ("-", None)]
        {
            assert_eq!(parse_octal(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn percentiles_print_short() {
        assert_eq!(print_percentile(50.0), "50");
        assert_eq!(print_percentile(99.123_456_789), "99.123457");
        assert_eq!(print_percentile(0.0), "0");
    }
}
