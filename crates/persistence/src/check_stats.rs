//! The content of a file, by database and type, reported in the words of `valkey-check-rdb --stats`.
//!
//! ```text
//!  db.0.type.name                  string  list   set    zset   hash   module  stream
//!  db.0.keys.total                 4      2      1      1      1      0      1
//! ```
//!
//! Sizes are bytes of text: the size of a field includes its value, that of a member its score. Percentiles are those
//! of HDR histograms of three digits; a value above a histogram's range is in no percentile. A member of a sorted set
//! is one element in every encoding, where the reference counts two in packed ones.

use crate::decode::Decoded;
use engine::data::value::Object;
use engine::data::value_type;
use hdrhistogram::Histogram;
use resp::format_by_digits;
use std::collections::BTreeMap;
use std::io::{self, Write};
use structures::hash::View;
use structures::stream::Id;

/// Columns: a type's is that of its number; types from modules share one.
const COLUMNS: usize = 7;

/// Returns the names of the columns.
fn names() -> [&'static str; COLUMNS] {
    std::array::from_fn(|column| {
        value_type::BUILT_IN
            .iter()
            .find(|known| usize::from(known.number) == column)
            .map_or("module", |known| known.name)
    })
}

/// The most elements of a key, and the most bytes of an element, that percentiles cover.
const MAX_COUNT: u64 = 200 * 1024;
const MAX_SIZE: u64 = 1024 * 1024;
/// The highest number up to which missing databases are reported, too.
const LAST_GAP: u64 = 1 << 14;

/// The format of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsFormat {
    /// A line for each figure, with a column for each type.
    Table,
    /// A line for each figure and type.
    Info,
    /// As the table, with commas.
    Csv,
}

/// Figures of a file's keys.
#[derive(Debug, Default)]
pub struct FileStats {
    databases: BTreeMap<u64, [TypeStats; COLUMNS]>,
}

/// Figures of the keys of a type in a database.
#[derive(Debug, Default)]
struct TypeStats {
    keys: u64,
    expires: u64,
    expired: u64,
    name_bytes: u64,
    elements: Figures,
    sizes: Figures,
}

/// Sum, highest and percentiles of the counted values.
#[derive(Debug, Default)]
struct Figures {
    sum: u64,
    max: u64,
    histogram: Option<Histogram<u64>>,
}

impl Figures {
    fn count(&mut self, value: u64, most: u64) {
        self.sum += value;
        self.max = self.max.max(value);
        if self.histogram.is_none() {
            self.histogram = Histogram::new_with_bounds(1, most, 3).ok();
        }
        if let Some(histogram) = &mut self.histogram {
            // A value above the range is left out.
            let _ = histogram.record(value);
        }
    }

    fn percentile(&self, percentile: f64) -> u64 {
        self.histogram.as_ref().map_or(0, |histogram| histogram.value_at_percentile(percentile))
    }
}

impl TypeStats {
    fn count_key(&mut self, name: &[u8], value: &Decoded) {
        self.keys += 1;
        self.name_bytes += name.len() as u64;
        let mut elements = 0;
        each_element(value, &mut |size| self.sizes.count(size as u64, MAX_SIZE), &mut elements);
        self.elements.count(elements, MAX_COUNT);
    }

    fn mean(sum: u64, of: u64) -> f64 {
        if of == 0 { 0.0 } else { sum as f64 / of as f64 }
    }

    /// Returns the figures in the order of their lines, each with its name.
    fn lines(&self) -> [(&'static str, String); 17] {
        let (count, size) = (&self.elements, &self.sizes);
        let percentile = |figures: &Figures, percentile| format!("{:.2}", figures.percentile(percentile) as f64);
        [
            ("keys.total", self.keys.to_string()),
            ("expire_keys.total", self.expires.to_string()),
            ("already_expired.total", self.expired.to_string()),
            ("keys.size", self.name_bytes.to_string()),
            ("keys.value_size", size.sum.to_string()),
            ("elements.total", count.sum.to_string()),
            ("elements.size", size.sum.to_string()),
            ("elements.num.max", count.max.to_string()),
            ("elements.num.avg", format!("{:.2}", Self::mean(count.sum, self.keys))),
            ("elements.num.p99", percentile(count, 99.0)),
            ("elements.num.p90", percentile(count, 90.0)),
            ("elements.num.p50", percentile(count, 50.0)),
            ("elements.size.max", size.max.to_string()),
            ("elements.size.avg", format!("{:.2}", Self::mean(size.sum, count.sum))),
            ("elements.size.p99", percentile(size, 99.0)),
            ("elements.size.p90", percentile(size, 90.0)),
            ("elements.size.p50", percentile(size, 50.0)),
        ]
    }
}

impl FileStats {
    /// Records that the file has this database.
    pub(crate) fn add_database(&mut self, db: u64) {
        self.databases.entry(db).or_default();
    }

    /// Records that the file has this key; whether it has an expiry, and has expired.
    pub(crate) fn add_key(&mut self, db: u64, name: &[u8], value: &Decoded, expires: bool, has_expired: bool) {
        let stats = &mut self.databases.entry(db).or_default()[column(value)];
        stats.count_key(name, value);
        stats.expires += u64::from(expires);
        stats.expired += u64::from(has_expired);
    }

    /// Writes all figures of all databases up to the last one.
    ///
    /// # Errors
    /// The I/O error of `out`.
    pub fn write(&self, format: StatsFormat, out: &mut dyn Write) -> io::Result<()> {
        let last = self.databases.keys().next_back().copied().unwrap_or(0);
        let nothing = Default::default();
        for db in 0..=last.min(LAST_GAP) {
            write_database(db, self.databases.get(&db).unwrap_or(&nothing), format, out)?;
        }
        self.databases.range(LAST_GAP + 1..).try_for_each(|(db, stats)| write_database(*db, stats, format, out))
    }
}

fn write_database(db: u64, stats: &[TypeStats; COLUMNS], format: StatsFormat, out: &mut dyn Write) -> io::Result<()> {
    let columns = stats.each_ref().map(TypeStats::lines);
    match format {
        StatsFormat::Info => {
            for line in 0..columns[0].len() {
                for (name, column) in names().iter().zip(&columns) {
                    let (figure, value) = &column[line];
                    writeln!(out, "[info] db.{db}.type.{name}.{figure}:{value}")?;
                }
            }
        }
        StatsFormat::Table => {
            let mut row = |figure: &str, values: [&str; COLUMNS]| {
                write!(out, "{:<30}", format!("db.{db}.{figure}"))?;
                values.iter().try_for_each(|value| write!(out, "\t{value:<5}"))?;
                writeln!(out)
            };
            row("type.name", names())?;
            for line in 0..columns[0].len() {
                row(columns[0][line].0, columns.each_ref().map(|column| column[line].1.as_str()))?;
            }
        }
        StatsFormat::Csv => {
            writeln!(out, "db.{db}.type.name,{}", names().join(","))?;
            for line in 0..columns[0].len() {
                let values = columns.each_ref().map(|column| column[line].1.as_str());
                writeln!(out, "db.{db}.{},{}", columns[0][line].0, values.join(","))?;
            }
        }
    }
    Ok(())
}

fn column(value: &Decoded) -> usize {
    let number = value.value_type().number;
    usize::from(number).min(COLUMNS - 1)
}

/// Gives the size of each element to `size`, and how many the value has to `elements`: an entry of a stream is one
/// element of as many sizes as it has fields.
fn each_element(value: &Decoded, size: &mut dyn FnMut(usize), elements: &mut u64) {
    let mut digits = itoa::Buffer::new();
    let mut element = |bytes: usize| {
        size(bytes);
        *elements += 1;
    };
    match value {
        Decoded::Int(n) => element(digits.format(*n).len()),
        Decoded::Bytes(bytes) => element(bytes.len()),
        Decoded::Object(Object::String(bytes)) => element(bytes.len()),
        Decoded::Object(Object::List(list)) => {
            list.each(0..list.len(), false, |item| element(item.bytes(&mut digits).len()));
        }
        Decoded::Object(Object::Set(set)) => set.iter().for_each(|item| element(item.bytes(&mut digits).len())),
        Decoded::Object(Object::SortedSet(set)) => {
            set.range(0..set.len()).for_each(|(name, score)| element(name.len() + format_by_digits(score).len()));
        }
        Decoded::Object(Object::Hash(hash)) => each_field(hash.view(), &mut element),
        Decoded::Object(Object::Other(value)) => {
            size(value.parts().len());
            *elements += value.len() as u64;
        }
        Decoded::Object(Object::Stream(stream)) => {
            let mut cursor = stream.range(Id::MIN, Id::MAX);
            while cursor.next().is_some() {
                *elements += 1;
                while let Some((name, value)) = cursor.field() {
                    size(name.bytes(&mut digits).len() + value.bytes(&mut itoa::Buffer::new()).len());
                }
            }
        }
    }
}

fn each_field(hash: View<'_>, element: &mut dyn FnMut(usize)) {
    let mut digits = itoa::Buffer::new();
    hash.visit(0, |field, value| {
        element(field.bytes(&mut digits).len() + value.bytes(&mut itoa::Buffer::new()).len());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: StatsFormat) -> String {
        let mut stats = FileStats::default();
        for (name, size) in [(&b"k1"[..], 100), (b"k2", 200), (b"k3", 300)] {
            stats.add_key(0, name, &Decoded::Bytes(vec![b'x'; size]), false, false);
        }
        stats.add_key(2, b"n", &Decoded::Int(-15), true, true);
        let mut out = Vec::new();
        stats.write(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn figures_have_the_shapes_of_the_reference() {
        let info = written(StatsFormat::Info);
        for line in [
            "[info] db.0.type.string.keys.total:3\n",
            "[info] db.0.type.string.keys.value_size:600\n",
            "[info] db.0.type.string.elements.size.avg:200.00\n",
            "[info] db.0.type.string.elements.size.p50:200.00\n",
            "[info] db.1.type.stream.keys.total:0\n",
            "[info] db.2.type.string.already_expired.total:1\n",
            "[info] db.2.type.string.elements.size:3\n",
        ] {
            assert!(info.contains(line), "{line} {info}");
        }
        let table = written(StatsFormat::Table);
        assert!(table.starts_with(
            "db.0.type.name                \tstring\tlist \tset  \tzset \thash \tmodule\tstream\n\
             db.0.keys.total               \t3    \t0    \t0    \t0    \t0    \t0    \t0    \n"
        ));
        assert!(written(StatsFormat::Csv).contains("db.2.keys.size,1,0,0,0,0,0,0\n"));
    }
}
