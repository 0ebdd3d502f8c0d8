//! HOTKEYS: the keys that take most of the time and of the traffic.
//!
//! ```text
//!   START - any number of commands - STOP, or the end of DURATION - GET - RESET
//! ```
//!
//! The command is Redis 8.6's. Valkey 9.2 has another command of this name, without START and STOP: there a directive
//! (`hotkey-top-k`) switches it on, and GET returns how often the keys of the last window were accessed. SLOTS requires
//! a cluster. A key longer than [`NAME_MAX`](engine::stats::heavy_hitters::NAME_MAX) is left out.

use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, NO_SCRIPT};
use crate::core::context::Context;
use crate::core::help::HELP;
use cluster::slot_set::SlotSet;
use engine::data::slot::SLOTS;
use engine::stats::hot_key_tracking::{CpuTimes, HotKey, HotKeyReport, HotKeySettings};
use engine::time::SteadyMs;
use engine::{Engine, Error, Word};

const SUB: Command =
    Command { group: Group::Server, since: "8.6.0", arity: 2, flags: ADMIN.and(NO_SCRIPT), ..Command::DEFAULT };

/// HOTKEYS and its subcommands.
pub const COMMANDS: &[Command] = &[Command {
    name: "hotkeys",
    group: Group::Server,
    since: "8.6.0",
    arity: -2,
    summary: "A container for hotkeys tracking commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "get",
            summary: "Returns the keys that took the most while they were tracked.",
            complexity: "O(K) where K is the number of keys returned.",
            tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
            run: get,
            ..SUB
        },
        Command { group: Group::Server, since: "8.6.0", ..HELP },
        Command {
            name: "reset",
            summary: "Forgets what tracking of keys has found.",
            complexity: "O(1)",
            tips: &["request_policy:special"],
            run: reset,
            ..SUB
        },
        Command {
            name: "start",
            arity: -2,
            syntax: "(METRICS metrics: count:int [CPU] [NET]) [COUNT k:int] [DURATION seconds:int] [SAMPLE ratio:int] \
                     [SLOTS slots: count:int (slot:int)...]",
            summary: "Starts tracking which keys take the most.",
            complexity: "O(1)",
            tips: &["request_policy:special"],
            run: start,
            ..SUB
        },
        Command {
            name: "stop",
            summary: "Stops tracking which keys take the most.",
            complexity: "O(1)",
            tips: &["request_policy:special"],
            run: stop,
            ..SUB
        },
    ],
    ..Command::DEFAULT
}];

const METRICS_MAX: i64 = 2;
const COUNT: i64 = 10;
const COUNT_MAX: i64 = 64;
const SECONDS_MAX: i64 = 1_000_000;

fn start(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if cx.engine.hot_keys().is_on() {
        return Err(Error::HotKeysInProgress);
    }
    let settings = settings(cx.engine, args)?;
    if !cx.engine.hot_keys().begin(settings, cx.now.unix_ms(), cx.steady_now(), cpu(cx.engine)) {
        return Err(Error::HotKeysInProgress);
    }
    cx.engine.refresh_attention();
    cx.reply.ok();
    Ok(())
}

/// Returns the number at `index`, or this error.
fn number(args: &Args<'_>, index: usize, most: i64, error: Error) -> Result<i64, Error> {
    let number = args.get(index).and_then(resp::number::parse_i64);
    number.filter(|number| (1..=most).contains(number)).ok_or(error)
}

fn settings(engine: &Engine, args: &Args<'_>) -> Result<HotKeySettings, Error> {
    if args.len() < 4 || !args.is(2, "metrics") {
        return Err(Error::HotKeysNoMetrics);
    }
    let metrics = number(args, 3, METRICS_MAX, Error::HotKeysMetrics)? as usize;
    let (count, sample) = (COUNT as usize, 1);
    let mut settings = HotKeySettings { by_time: false, by_bytes: false, count, sample, duration: None, slots: None };
    let end = 4 + metrics;
    for at in 4..end.min(args.len()) {
        let (wanted, twice) = match () {
            () if args.is(at, "cpu") => (&mut settings.by_time, Error::HotKeysCpuTwice),
            () if args.is(at, "net") => (&mut settings.by_bytes, Error::HotKeysNetTwice),
            // Other words are metrics of later versions.
            () => continue,
        };
        if std::mem::replace(wanted, true) {
            return Err(twice);
        }
    }
    if end > args.len() {
        return Err(Error::HotKeysMetricsCount);
    }
    if !settings.by_time && !settings.by_bytes {
        return Err(Error::HotKeysUnknownMetrics);
    }
    let mut at = end;
    while at < args.len() {
        let value = at + 1;
        match () {
            () if value == args.len() => return Err(Error::Syntax),
            () if args.is(at, "count") => {
                settings.count = number(args, value, COUNT_MAX, Error::HotKeysCount)? as usize;
            }
            () if args.is(at, "duration") => {
                settings.duration = Some(number(args, value, SECONDS_MAX, Error::HotKeysDuration)? * 1000);
            }
            () if args.is(at, "sample") => {
                settings.sample = number(args, value, i32::MAX.into(), Error::HotKeysSample)? as u64;
            }
            () if args.is(at, "slots") && settings.slots.is_some() => return Err(Error::HotKeysSlotsTwice),
            () if args.is(at, "slots") => {
                let slots = slots(engine, args, value)?;
                at += slots.len();
                settings.slots = Some(slots);
            }
            () => return Err(Error::Syntax),
        }
        at += 2;
    }
    Ok(settings)
}

/// Parses the slots after their count.
fn slots(engine: &Engine, args: &Args<'_>, count: usize) -> Result<SlotSet, Error> {
    if !engine.is_clustered() {
        return Err(Error::HotKeysSlots);
    }
    let end = count + 1 + number(args, count, SLOTS as i64, Error::HotKeysSlotCount)? as usize;
    if end > args.len() {
        return Err(Error::HotKeysMissingSlots);
    }
    let (own, mut chosen) = (own_slots(engine), SlotSet::none());
    for index in count + 1..end {
        let slot =
            args.int(index).ok().and_then(|slot| u16::try_from(slot).ok()).filter(|slot| usize::from(*slot) < SLOTS);
        let slot = slot.ok_or(Error::BadSlot)?;
        if !own.contains(slot) {
            return Err(Error::HotKeysForeignSlot(Word::of(slot.to_string())));
        }
        if !chosen.insert(slot) {
            return Err(Error::HotKeysSlotTwice);
        }
    }
    Ok(chosen)
}

/// Returns the slots that this server serves: without a cluster all.
fn own_slots(engine: &Engine) -> SlotSet {
    if !engine.is_clustered() {
        return SlotSet::all();
    }
    let map = engine.cluster().map();
    SlotSet::of((0..SLOTS as u16).filter(|slot| map.is_own(*slot)).map(|slot| slot..=slot))
}

fn stop(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    end_if_over(cx.engine, cx.steady_now());
    if cx.engine.hot_keys().stop(cx.steady_now(), cpu(cx.engine)) {
        cx.engine.refresh_attention();
        cx.reply.ok();
    } else {
        cx.reply.null();
    }
    Ok(())
}

fn reset(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    end_if_over(cx.engine, cx.steady_now());
    if !cx.engine.hot_keys().reset() {
        return Err(Error::HotKeysNotStopped);
    }
    cx.reply.ok();
    Ok(())
}

fn get(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    end_if_over(cx.engine, cx.steady_now());
    match cx.engine.hot_keys().report(cx.steady_now(), cpu(cx.engine)) {
        Some(report) => write(cx, &report),
        None => cx.reply.null(),
    }
    Ok(())
}

/// Ends tracking when its time has come. To be called now and then.
pub fn end_if_over(engine: &Engine, now: SteadyMs) {
    if engine.hot_keys().is_over(now) {
        engine.hot_keys().stop(now, cpu(engine));
        engine.refresh_attention();
    }
}

/// Returns the processor time of the process until now.
fn cpu(engine: &Engine) -> CpuTimes {
    let process = engine.host().cpu_times();
    (process.user, process.system)
}

fn write(cx: &mut Context<'_>, report: &HotKeyReport) {
    let HotKeySettings { by_time, by_bytes, sample, ref slots, .. } = report.settings;
    let slots = slots.as_ref();
    let is_sampled = slots.is_some() && sample > 1;
    let own = own_slots(cx.engine);
    let reply = &mut *cx.reply;
    let fields = [(by_time, 3), (by_bytes, 2), (slots.is_some(), 2), (is_sampled, 2)];
    reply.array(1);
    reply.map(7 + fields.iter().filter(|(is_there, _)| *is_there).map(|(_, count)| count).sum::<usize>());
    reply.bulk(b"tracking-active");
    reply.int(report.is_on.into());
    reply.bulk(b"sample-ratio");
    reply.int(sample as i64);
    reply.bulk(b"selected-slots");
    let ranges = slots.map_or(&own, |slots| slots).ranges();
    reply.array(ranges.len());
    for range in ranges {
        let ends = [*range.start(), *range.end()];
        let shown = if ends[0] == ends[1] { &ends[..1] } else { &ends };
        reply.array(shown.len());
        shown.iter().for_each(|slot| reply.int(i64::from(*slot)));
    }
    let mut field = |name: &str, value: u64| {
        cx.reply.bulk(name.as_bytes());
        cx.reply.int(value as i64);
    };
    if is_sampled {
        field("sampled-commands-selected-slots-us", report.sampled.nanos / 1000);
    }
    if slots.is_some() {
        field("all-commands-selected-slots-us", report.selected.nanos / 1000);
    }
    field("all-commands-all-slots-us", report.all.nanos / 1000);
    if is_sampled {
        field("net-bytes-sampled-commands-selected-slots", report.sampled.bytes);
    }
    if slots.is_some() {
        field("net-bytes-all-commands-selected-slots", report.selected.bytes);
    }
    field("net-bytes-all-commands-all-slots", report.all.bytes);
    field("collection-start-time-unix-ms", report.began.0 as u64);
    field("collection-duration-ms", report.lasted as u64);
    if by_time {
        field("total-cpu-time-user-ms", report.cpu.0.as_millis() as u64);
        field("total-cpu-time-sys-ms", report.cpu.1.as_millis() as u64);
    }
    if by_bytes {
        field("total-net-bytes", report.sampled.bytes);
    }
    if by_time {
        write_list(cx, "by-cpu-time-us", &report.by_time, 1000);
    }
    if by_bytes {
        write_list(cx, "by-net-bytes", &report.by_bytes, 1);
    }
}

/// Writes keys with numbers in this unit; zeros are left out.
fn write_list(cx: &mut Context<'_>, name: &str, keys: &[HotKey], unit: u64) {
    cx.reply.bulk(name.as_bytes());
    let keys: Vec<&HotKey> = keys.iter().filter(|(_, weight)| weight / unit > 0).collect();
    cx.reply.array(2 * keys.len());
    for (key, weight) in keys {
        cx.reply.bulk(key);
        cx.reply.int((weight / unit) as i64);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn arguments_are_those_of_redis() {
        let mut client = Client::new();
        for (words, error) in [
            ("", "METRICS parameter is required"),
            ("COUNT 3", "METRICS parameter is required"),
            ("METRICS 0 CPU", "METRICS count must be > 0 and <= 2"),
            ("METRICS 3 CPU NET", "METRICS count must be > 0 and <= 2"),
            ("METRICS x CPU", "METRICS count must be > 0 and <= 2"),
            ("METRICS 2 CPU", "METRICS count does not match number of metric types provided"),
            ("METRICS 1 CPU NET", "syntax error"),
            ("METRICS 2 CPU cpu", "METRICS CPU defined more than once!"),
            ("METRICS 2 NET NET", "METRICS NET defined more than once!"),
            ("METRICS 2 GPU NYET", "METRICS no valid metrics passed. Supported: CPU|NET"),
            ("METRICS 1 CPU COUNT 65", "COUNT must be between 1 and 64"),
            ("METRICS 1 CPU COUNT", "syntax error"),
            ("METRICS 1 CPU DURATION 0", "DURATION must be between 1 and 1000000"),
            ("METRICS 1 CPU SAMPLE 0", "SAMPLE ratio must be positive"),
            ("METRICS 1 CPU SLOTS 1 0", "SLOTS parameter cannot be used in non-cluster mode"),
        ] {
            client.is(&format!("HOTKEYS START {words}"), &format!("-ERR {error}"));
        }
        client.is("HOTKEYS STOP x", "-ERR wrong number of arguments for 'hotkeys|stop' command");
        client.is("HOTKEYS STOP", "nil").is("HOTKEYS GET", "nil").is("HOTKEYS RESET", "+OK");
        client.is("HOTKEYS START METRICS 2 GPU CPU", "+OK");
        client.is("HOTKEYS START", "-ERR hotkey tracking session already in progress");
        client.is("HOTKEYS RESET", "-ERR hotkey tracking session in progress, stop tracking first");
        client.is("HOTKEYS STOP", "+OK").is("HOTKEYS RESET", "+OK").is("HOTKEYS GET", "nil");
    }

    /// Returns the reply of HOTKEYS GET, as words.
    fn told(client: &mut Client) -> String {
        client.run("HOTKEYS GET").replace(|c: char| !c.is_ascii_graphic(), " ")
    }

    #[test]
    fn the_bytes_of_keys_are_told_whatever_runs_their_commands() {
        let mut client = Client::new();
        client.is("HOTKEYS START METRICS 1 NET COUNT 3", "+OK");
        client.is("SET often aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "+OK");
        (0..3).for_each(|_| _ = client.run("GET often"));
        client.is("EVAL return(redis.call('set',KEYS[1],1)) 1 scripted", "+OK");
        client.is("MULTI", "+OK").is("SET queued 1", "+QUEUED");
        client.run("EXEC");
        client.is("PING", "+PONG").is("GET rare", "nil");
        let all = told(&mut client);
        let keys = all.split("by-net-bytes").nth(1).unwrap();
        let at = |key: &str| keys.find(key);
        assert!(at("often") < at("scripted") && at("scripted") < at("queued") && at("rare").is_none(), "{all}");
        assert!(all.contains("tracking-active") && !all.contains("by-cpu-time-us"), "{all}");
        client.is("HOTKEYS STOP", "+OK");
        client.run("GET often");
        let after = told(&mut client);
        assert_eq!(after.split("by-net-bytes").nth(1), Some(keys));
    }
}
