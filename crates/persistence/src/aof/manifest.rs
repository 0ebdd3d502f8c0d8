//! The manifest: which files the log consists of, and in which order they are read.
//!
//! ```text
//!   file appendonly.aof.2.base.rdb seq 2 type b      the keyspace as it was when the log was rewritten; at most one
//!   file appendonly.aof.1.incr.aof seq 1 type h      history: to be deleted
//!   file appendonly.aof.2.incr.aof seq 2 type i      the changes since then, in the order of their numbers
//! ```
//!
//! A line is pairs of a name and a value; unknown pairs are passed over. A file's name is quoted as in the
//! configuration file when it has blanks, quotes or unprintable bytes. A line that begins with `#` is a remark. The
//! format is Valkey's; its texts of errors too.

use resp::words;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Base,
    History,
    Incr,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub seq: u64,
    pub kind: Kind,
}

/// The files of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub base: Option<Entry>,
    pub history: Vec<Entry>,
    pub incr: Vec<Entry>,
    /// The highest numbers that were given.
    pub base_seq: u64,
    pub incr_seq: u64,
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line's number from 1 on, and the line; None when it is about the whole.
    pub line: Option<(usize, Vec<u8>)>,
    pub text: &'static str,
}

/// Bytes of a line, with its end, at most.
const LINE_MAX: usize = 1024;
const INVALID: &str = "Invalid AOF manifest file format";

impl Manifest {
    pub fn parse(text: &[u8]) -> Result<Manifest, Mistake> {
        let mut manifest = Manifest::default();
        if text.is_empty() {
            return Err(Mistake { line: None, text: "Found an empty AOF manifest" });
        }
        for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let mistake = |text| Mistake { line: Some((index + 1, line.trim_ascii_end().to_vec())), text };
            if line.starts_with(b"#") {
                continue;
            }
            if line.len() >= LINE_MAX || !line.ends_with(b"\n") {
                return Err(mistake("The AOF manifest file contains too long line"));
            }
            let entry = parse_line(line).map_err(mistake)?;
            manifest.add(entry).map_err(mistake)?;
        }
        Ok(manifest)
    }

    fn add(&mut self, entry: Entry) -> Result<(), &'static str> {
        match entry.kind {
            Kind::Base if self.base.is_some() => return Err("Found duplicate base file information"),
            Kind::Base => {
                self.base_seq = entry.seq;
                self.base = Some(entry);
            }
            Kind::History => self.history.push(entry),
            Kind::Incr if entry.seq <= self.incr_seq => return Err("Found a non-monotonic sequence number"),
            Kind::Incr => {
                self.incr_seq = entry.seq;
                self.incr.push(entry);
            }
        }
        Ok(())
    }

    pub fn format(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in self.base.iter().chain(&self.history).chain(&self.incr) {
            let kind = match entry.kind {
                Kind::Base => 'b',
                Kind::History => 'h',
                Kind::Incr => 'i',
            };
            out.extend_from_slice(b"file ");
            let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
            if !entry.name.is_empty() && entry.name.iter().all(plain) {
                out.extend_from_slice(&entry.name);
            } else {
                words::quote(&mut out, &entry.name);
            }
            out.extend_from_slice(format!(" seq {} type {kind}\n", entry.seq).as_bytes());
        }
        out
    }

    /// The files that are read, in order.
    pub fn readable(&self) -> impl Iterator<Item = &Entry> {
        self.base.iter().chain(&self.incr)
    }

    /// The next file of changes, which is part of the log from now on. `file`: the log's own name.
    pub fn add_incr(&mut self, file: &[u8]) -> Entry {
        self.incr_seq += 1;
        let entry = Entry { name: numbered(file, self.incr_seq, "incr.aof"), seq: self.incr_seq, kind: Kind::Incr };
        self.incr.push(entry.clone());
        entry
    }

    /// A new base, which takes the place of the one before. `rdb`: in which format it is.
    pub fn replace_base(&mut self, file: &[u8], rdb: bool) -> Entry {
        if let Some(old) = self.base.take() {
            self.history.push(Entry { kind: Kind::History, ..old });
        }
        self.base_seq += 1;
        let end = if rdb { "base.rdb" } else { "base.aof" };
        let entry = Entry { name: numbered(file, self.base_seq, end), seq: self.base_seq, kind: Kind::Base };
        self.base = Some(entry.clone());
        entry
    }

    /// All files of changes but the last `kept` are not needed any more.
    pub fn retire_incr(&mut self, kept: usize) {
        let old = self.incr.len().saturating_sub(kept);
        let old = self.incr.drain(..old).map(|entry| Entry { kind: Kind::History, ..entry });
        self.history.extend(old);
    }
}

/// A name of a file of the log: `appendonly.aof.3.incr.aof`.
fn numbered(file: &[u8], seq: u64, end: &str) -> Vec<u8> {
    [file, format!(".{seq}.{end}").as_bytes()].concat()
}

fn parse_line(line: &[u8]) -> Result<Entry, &'static str> {
    let line = line.trim_ascii();
    let words = words::split(line).filter(|words| words.len() >= 6 && words.len().is_multiple_of(2)).ok_or(INVALID)?;
    let (mut name, mut seq, mut kind) = (None, None, None);
    for pair in words.as_chunks::<2>().0 {
        let [field, value] = pair;
        match &field.to_ascii_lowercase()[..] {
            b"file" if value.contains(&b'/') => return Err("File can't be a path, just a filename"),
            b"file" => name = Some(value.clone()),
            b"seq" => seq = u64::try_from(resp::number::parse_i64_c(value).unwrap_or(0)).ok().filter(|seq| *seq > 0),
            b"type" => {
                kind = Some(match value.first() {
                    Some(b'b') => Kind::Base,
                    Some(b'h') => Kind::History,
                    Some(b'i') => Kind::Incr,
                    _ => return Err("Unknown AOF file type"),
                });
            }
            _ => {}
        }
    }
    let (Some(name), Some(seq), Some(kind)) = (name, seq, kind) else { return Err(INVALID) };
    Ok(Entry { name, seq, kind })
}

/// What was read is what is read again once it was written.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    if let Ok(manifest) = Manifest::parse(data)
        && let Ok(again) = Manifest::parse(&manifest.format())
    {
        assert_eq!((again.base, again.history, again.incr), (manifest.base, manifest.history, manifest.incr));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let mut manifest = Manifest::default();
        for (file, rdb) in [(&b"a.aof"[..], true), (b" file seq \n.aof ", false)] {
            manifest.replace_base(file, rdb);
            manifest.add_incr(file);
            let text = manifest.format();
            assert_eq!(Manifest::parse(&text).unwrap(), manifest, "{}", String::from_utf8_lossy(&text));
        }
        assert_eq!(manifest.base.as_ref().unwrap().name, b" file seq \n.aof .2.base.aof");
        manifest.retire_incr(1);
        let kinds: Vec<_> = manifest.history.iter().map(|entry| (entry.kind, &entry.name[..])).collect();
        assert_eq!(kinds, [(Kind::History, &b"a.aof.1.base.rdb"[..]), (Kind::History, b"a.aof.1.incr.aof")]);
        assert_eq!(manifest.readable().count(), 2);
    }

    #[test]
    fn mistakes_are_found() {
        let text = |lines: &str| Manifest::parse(lines.as_bytes()).unwrap_err();
        assert_eq!(text(""), Mistake { line: None, text: "Found an empty AOF manifest" });
        let first = "file a seq 1 type b\n";
        let long = format!("file {} seq 1 type i\n", "x".repeat(2000));
        for (line, reason) in [
            ("\n", INVALID),
            ("filx a seq 1 type b\n", INVALID),
            ("file a type b\n", INVALID),
            ("file a seq 1 type i new\n", INVALID),
            ("file a seq x type i\n", INVALID),
            ("file \"a seq 1 type i\n", INVALID),
            ("file a seq 1 type x\n", "Unknown AOF file type"),
            ("file a seq 1 type b\n", "Found duplicate base file information"),
            ("file ../a seq 1 type i\n", "File can't be a path, just a filename"),
            (&long, "The AOF manifest file contains too long line"),
            ("file a seq 1 type i", "The AOF manifest file contains too long line"),
        ] {
            let mistake = text(&format!("{first}{line}"));
            assert_eq!((mistake.text, mistake.line.unwrap().0), (reason, 2), "{line}");
        }
        let unordered = text("file a seq 2 type i\nfile b seq 1 type i\n");
        assert_eq!(unordered.text, "Found a non-monotonic sequence number");
        assert!(Manifest::parse(b"# remark\nFILE a seq 1 type b new value\n").unwrap().base.is_some());
    }
}
