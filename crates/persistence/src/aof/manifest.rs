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

/// The role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The keyspace as it was when the log, or its last rewrite, began.
    Base,
    /// A file that a rewrite has made needless, to be removed.
    History,
    /// Commands since the base.
    Incr,
}

/// One file, as a line of the manifest has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Its name in the directory of the log.
    pub name: Vec<u8>,
    /// Its number among the files of its kind.
    pub seq: u64,
    /// Its role.
    pub kind: FileKind,
}

/// The files of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The file that comes first.
    pub base: Option<ManifestEntry>,
    /// Files that are still to be removed.
    pub history: Vec<ManifestEntry>,
    /// Files of commands, in the order in which they are read.
    pub incr: Vec<ManifestEntry>,
    /// The highest numbers that were given.
    pub base_seq: u64,
    /// The highest number of a file of commands.
    pub incr_seq: u64,
}

/// A mistake that makes a manifest unreadable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line's number from 1 on, and the line; None for a mistake of the whole manifest.
    pub line: Option<(usize, Vec<u8>)>,
    /// The mistake in Valkey's words.
    pub text: &'static str,
}

/// Bytes of a line, with its end, at most.
const LINE_MAX: usize = 1024;
const INVALID: &str = "Invalid AOF manifest file format";

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// An empty text; a line that is too long or does not end, has no name, number or kind, or is at odds with those
    /// before.
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

    fn add(&mut self, entry: ManifestEntry) -> Result<(), &'static str> {
        match entry.kind {
            FileKind::Base if self.base.is_some() => return Err("Found duplicate base file information"),
            FileKind::Base => {
                self.base_seq = entry.seq;
                self.base = Some(entry);
            }
            FileKind::History => self.history.push(entry),
            FileKind::Incr if entry.seq <= self.incr_seq => return Err("Found a non-monotonic sequence number"),
            FileKind::Incr => {
                self.incr_seq = entry.seq;
                self.incr.push(entry);
            }
        }
        Ok(())
    }

    /// Returns the manifest as text, which [`parse`](Self::parse) reads.
    pub fn format(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in self.base.iter().chain(&self.history).chain(&self.incr) {
            let kind = match entry.kind {
                FileKind::Base => 'b',
                FileKind::History => 'h',
                FileKind::Incr => 'i',
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

    /// Returns the files that are read, in order.
    pub fn readable(&self) -> impl Iterator<Item = &ManifestEntry> {
        self.base.iter().chain(&self.incr)
    }

    /// Adds the next file of changes, which is part of the log from now on. `file`: the log's own name.
    pub fn add_incr(&mut self, file: &[u8]) -> ManifestEntry {
        self.incr_seq += 1;
        let entry =
            ManifestEntry { name: numbered(file, self.incr_seq, "incr.aof"), seq: self.incr_seq, kind: FileKind::Incr };
        self.incr.push(entry.clone());
        entry
    }

    /// Adds a new base, which takes the place of the one before. `rdb`: the base has the RDB format.
    pub fn replace_base(&mut self, file: &[u8], rdb: bool) -> ManifestEntry {
        if let Some(old) = self.base.take() {
            self.history.push(ManifestEntry { kind: FileKind::History, ..old });
        }
        self.base_seq += 1;
        let end = if rdb { "base.rdb" } else { "base.aof" };
        let entry =
            ManifestEntry { name: numbered(file, self.base_seq, end), seq: self.base_seq, kind: FileKind::Base };
        self.base = Some(entry.clone());
        entry
    }

    /// Marks all files of changes but the last `kept` as history.
    pub fn retire_incr(&mut self, kept: usize) {
        let old = self.incr.len().saturating_sub(kept);
        let old = self.incr.drain(..old).map(|entry| ManifestEntry { kind: FileKind::History, ..entry });
        self.history.extend(old);
    }
}

/// Returns a name of a file of the log: `appendonly.aof.3.incr.aof`.
fn numbered(file: &[u8], seq: u64, end: &str) -> Vec<u8> {
    [file, format!(".{seq}.{end}").as_bytes()].concat()
}

fn parse_line(line: &[u8]) -> Result<ManifestEntry, &'static str> {
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
                    Some(b'b') => FileKind::Base,
                    Some(b'h') => FileKind::History,
                    Some(b'i') => FileKind::Incr,
                    _ => return Err("Unknown AOF file type"),
                });
            }
            _ => {}
        }
    }
    let (Some(name), Some(seq), Some(kind)) = (name, seq, kind) else { return Err(INVALID) };
    Ok(ManifestEntry { name, seq, kind })
}

/// Checks that a manifest that was read is the same when it was written and is read again.
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
    fn a_written_manifest_is_read_back() {
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
        assert_eq!(kinds, [(FileKind::History, &b"a.aof.1.base.rdb"[..]), (FileKind::History, b"a.aof.1.incr.aof")]);
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
