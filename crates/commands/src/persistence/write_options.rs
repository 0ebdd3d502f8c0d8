//! The form of the data set's values and files, by the configuration: for saves, bases of the log, DUMP and MIGRATE.

use crate::version::CINNABAR;
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::config::{Config, Directive};
use engine::snapshot::open_snapshots::Purpose;
use engine::time::UnixUs;
use persistence::encode::Style;
use persistence::format::Family;
use persistence::save::{self, Marks};
use std::time::Duration;

/// Returns the form of values, by the configuration.
pub(crate) fn style(config: &Config) -> Style {
    let family = if config.choice(Directive::RDB_VERSION_COMPAT) == "redis" { Family::Redis } else { Family::Valkey };
    Style { compress: config.flag(Directive::RDBCOMPRESSION), family }
}

/// Returns the options of a file of all keys. `is_base`: it is the base of a log.
pub(crate) fn options(engine: &Engine, config: &Config, is_base: bool) -> save::SaveOptions {
    let now = engine.host().unix_us(UnixUs(0)).ms();
    let clock = engine.access_clock(now);
    let policy = config.choice(Directive::MAXMEMORY_POLICY);
    let marks = if policy.ends_with("lfu") {
        Marks::Frequency(clock)
    } else if policy.ends_with("lru") {
        Marks::Recency(clock)
    } else {
        Marks::None
    };
    let fields = vec![
        ("cinnabar-ver", CINNABAR.to_owned()),
        ("redis-bits", "64".to_owned()),
        ("ctime", now.seconds().to_string()),
        ("used-mem", engine.host().memory().allocated.to_string()),
        ("aof-base", u8::from(is_base).to_string()),
    ];
    save::SaveOptions {
        data: true,
        functions: true,
        slots: SlotSet::all(),
        purpose: if is_base { Purpose::Rewrite } else { Purpose::Save },
        style: style(config),
        sum: config.flag(Directive::RDBCHECKSUM),
        fields,
        marks,
        delay: Duration::from_micros(config.int(Directive::RDB_KEY_SAVE_DELAY).max(0) as u64),
    }
}
