//! Reading the log: the base, then the changes since then, each command run as it once was.

use crate::core::args::{Args, RetainedArgs};
use crate::core::command_table::find;
use crate::core::context::Now;
use crate::core::dispatch;
use crate::core::session::Session;
use crate::persistence::load::{self, load_base};
use engine::Engine;
use engine::config::{Directive, os_message};
use engine::time::UnixUs;
use persistence::aof::Aof;
use persistence::aof::manifest::{FileKind, Manifest, ManifestEntry};
use persistence::aof::read::{CommandFault, LogItem, Reader};
use persistence::rdb_reader::Source;
use resp::Reply;
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The log cannot be read; the server's log has the reason.
#[derive(Clone, Copy, Debug)]
pub struct LoadFailed;

/// Reads all files of the log; false if there are none. The caller has made sure that no other thread accesses the
/// data.
pub fn load_files(engine: &Engine, aof: &Aof) -> Result<bool, LoadFailed> {
    let host = engine.host();
    let mut manifest = read_manifest(engine, aof)?;
    let fail = |text: String| {
        host.log(&text);
        LoadFailed
    };
    upgrade(engine, aof, &mut manifest)
        .map_err(|error| fail(format!("Error trying to migrate an old-style AOF: {}", os_message(&error))))?;
    *aof.manifest.lock() = manifest.clone();
    let files: Vec<ManifestEntry> = manifest.readable().cloned().collect();
    let mut total = 0;
    for entry in &files {
        let name = String::from_utf8_lossy(&entry.name);
        let len = aof.storage.len(&aof.path(&entry.name));
        total += len.map_err(|error| {
            fail(format!("Unable to obtain the AOF file {name} length. stat: {}", os_message(&error)))
        })?;
    }
    if total == 0 {
        return Ok(false);
    }
    let saves = engine.persistence_status();
    saves.loading.started_at.store(host.unix_us(UnixUs(0)).seconds(), Relaxed);
    saves.loading.total_bytes.store(total, Relaxed);
    saves.loading.loaded_bytes.store(0, Relaxed);
    let mut before = 0;
    for (index, entry) in files.iter().enumerate() {
        let began = host.unix_us(UnixUs(0));
        // A file that was not written to its end may have been listed already with the next one, which is empty then.
        let is_empty = |later: &ManifestEntry| aof.storage.len(&aof.path(&later.name)).is_ok_and(|len| len == 0);
        let is_last = files[index + 1..].iter().all(is_empty);
        load_file(engine, aof, entry, before, is_last)?;
        let (name, took) =
            (String::from_utf8_lossy(&entry.name), host.unix_us(UnixUs(0)).since(began).max(0) as f64 / 1e6);
        let kind = if entry.kind == FileKind::Base { "base" } else { "incr" };
        host.notice(&format!("DB loaded from {kind} file {name}: {took:.3} seconds"));
        before += aof.storage.len(&aof.path(&entry.name)).unwrap_or(0);
    }
    saves.changes.store(engine.stats().dirty, Relaxed);
    Ok(true)
}

fn read_manifest(engine: &Engine, aof: &Aof) -> Result<Manifest, LoadFailed> {
    let host = engine.host();
    let (mut file, _) = match aof.storage.open(&aof.manifest_path()) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Manifest::default()),
        Err(error) => {
            let name = String::from_utf8_lossy(&aof.manifest_path()).into_owned();
            host.log(&format!(
                "Fatal error: can't open the AOF manifest file {name} for reading: {}",
                os_message(&error)
            ));
            return Err(LoadFailed);
        }
    };
    let mut text = Vec::new();
    if let Err(error) = file.read_to_end(&mut text) {
        host.log(&format!("Read AOF manifest failed: {}", os_message(&error)));
        return Err(LoadFailed);
    }
    Manifest::parse(&text).map_err(|mistake| {
        host.log("\n*** FATAL AOF MANIFEST FILE ERROR ***\n");
        if let Some((number, line)) = &mistake.line {
            host.log(&format!("Reading the manifest file, at line {number}\n"));
            host.log(&format!(">>> '{}'\n", String::from_utf8_lossy(line)));
        }
        host.log(&format!("{}\n", mistake.text));
        LoadFailed
    })
}

/// Makes a log of one file, as servers wrote it before they had several, the base.
fn upgrade(engine: &Engine, aof: &Aof, manifest: &mut Manifest) -> io::Result<()> {
    let file = aof.file();
    let is_there = |name: &[u8]| match aof.storage.len(name) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    };
    let is_old = match (&manifest.base, &manifest.incr[..]) {
        (None, []) => true,
        (Some(base), []) => base.name == file && !is_there(&aof.path(file))?,
        _ => false,
    };
    if !is_old || !is_there(file)? {
        return Ok(());
    }
    aof.storage.create_dir(aof.dir())?;
    if manifest.base.is_none() {
        let entry = manifest.replace_base(file, false);
        manifest.base = Some(ManifestEntry { name: file.to_vec(), ..entry });
        aof.adopt(manifest.clone())?;
    }
    aof.storage.rename(file, &aof.path(file))?;
    engine.host().notice(&format!(
        "Successfully migrated an old-style AOF file ({}) into the AOF directory ({}).",
        String::from_utf8_lossy(file),
        String::from_utf8_lossy(aof.dir())
    ));
    Ok(())
}

/// Reads a file. `before`: bytes of the files that were read already. `is_last`: no file comes behind this one.
fn load_file(engine: &Engine, aof: &Aof, entry: &ManifestEntry, before: u64, is_last: bool) -> Result<(), LoadFailed> {
    let host = engine.host();
    let name = String::from_utf8_lossy(&entry.name).into_owned();
    let fail = |text: String| {
        host.log(&text);
        Err(LoadFailed)
    };
    let (mut file, _) = match aof.storage.open(&aof.path(&entry.name)) {
        Ok(opened) => opened,
        Err(error) => {
            let error = os_message(&error);
            return fail(format!("Fatal error: can't open the append log file {name} for reading: {error}"));
        }
    };
    let options = load::options(engine, &engine.config().snapshot());
    let mut source = Source::new(&mut *file, options.check_sum);
    let is_rdb = source.starts_with(&[b"REDIS", b"VALKEY"]);
    if is_rdb {
        let is_base = entry.name.ends_with(b".rdb");
        host.notice(match is_base {
            true => "Reading RDB base file on AOF loading...",
            false => "Reading RDB preamble from AOF file...",
        });
        if let Err(text) = load_base(engine, &mut source, options) {
            host.log(&text);
            let what = if is_base { "base file" } else { "preamble of the AOF file" };
            return fail(format!("Error reading the RDB {what} {name}, AOF loading aborted"));
        }
        if !is_base {
            host.notice("Reading the remaining AOF tail...");
        }
    }
    let (offset, rest) = source.into_rest();
    let mut reader = Reader::new(&mut *file, rest, offset);
    let (valid, fault) = run_all(engine, &mut reader, &name, before)?;
    let Some(fault) = fault else { return Ok(()) };
    match fault {
        CommandFault::Truncated => truncate(engine, aof, entry, &name, valid, is_last),
        CommandFault::Io(error) => {
            fail(format!("Unrecoverable error reading the append only file {name}: {}", os_message(&error)))
        }
        CommandFault::Format(_) => fail(format!(
            "Bad file format reading the append only file {name}: make a backup of your AOF file, then use ./cinnabar-check-aof --fix <filename.manifest>"
        )),
    }
}

/// Commands after which other clients of this thread are served.
const BREATH: u32 = 1024;

/// Runs commands up to the end or a fault: returns how many bytes of the file are good, and the fault.
fn run_all(
    engine: &Engine,
    reader: &mut Reader<'_>,
    name: &str,
    before: u64,
) -> Result<(u64, Option<CommandFault>), LoadFailed> {
    let host = engine.host();
    let delay = engine.config().snapshot().int(Directive::KEY_LOAD_DELAY);
    let mut session = Session::replay();
    let mut reply = Reply::default();
    let (mut valid, mut count) = (reader.offset(), 0u32);
    let mut now = Now { unix_us: host.unix_us(UnixUs(0)) };
    loop {
        match reader.read_item() {
            Ok(LogItem::End) if session.multi.is_some() => {
                host.log(&format!("Revert incomplete MULTI/EXEC transaction from AOF file {name}"));
                return Ok((valid, Some(CommandFault::Truncated)));
            }
            Ok(LogItem::End) => return Ok((valid, None)),
            Ok(LogItem::Command) => {
                let mut args = Args::parsed(&reader.bytes, &reader.spans, RetainedArgs::default());
                if let Err(error) = find(&args) {
                    let error = error.to_string();
                    let error = error.strip_prefix("ERR ").unwrap_or(&error);
                    host.log(&format!("Error reading the append only file {name}, error: {error}"));
                    return Err(LoadFailed);
                }
                dispatch::replay(engine, &mut session, &mut args, now, &mut reply);
                reply.truncate(0);
            }
            Ok(LogItem::Stamp(_) | LogItem::Remark) => {}
            Err(fault) => return Ok((valid, Some(fault))),
        }
        if session.multi.is_none() {
            valid = reader.offset();
        }
        count += 1;
        if count.is_multiple_of(BREATH) {
            engine.persistence_status().loading.loaded_bytes.store(before + reader.offset(), Relaxed);
            now = Now { unix_us: host.unix_us(now.unix_us) };
            host.serve_clients_busy();
        }
        if delay > 0 {
            host.rest(Duration::from_micros(delay as u64));
        }
    }
}

/// Handles a file that ends within a command: it may be cut off where the last whole command ends. A file that others
/// follow stays as it is: without its end, the next start would not detect the gap in the log.
fn truncate(
    engine: &Engine,
    aof: &Aof,
    entry: &ManifestEntry,
    name: &str,
    valid: u64,
    is_last: bool,
) -> Result<(), LoadFailed> {
    let host = engine.host();
    if !engine.config().snapshot().flag(Directive::AOF_LOAD_TRUNCATED) {
        host.log(&format!(
            "Unexpected end of file reading the append only file {name}. You can: 1) Make a backup of your AOF file, then use ./cinnabar-check-aof --fix <filename.manifest>. 2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and restart the server."
        ));
        return Err(LoadFailed);
    }
    host.log(&format!("!!! Warning: short read while loading the AOF file {name}!!!"));
    if !is_last {
        host.log("Fatal error: the truncated file is not the last file");
        return Err(LoadFailed);
    }
    host.log(&format!("AOF {name} loaded anyway because aof-load-truncated is enabled"));
    host.log(&format!("!!! Truncating the AOF {name} at offset {valid} !!!"));
    let done = aof.storage.append(&aof.path(&entry.name)).and_then(|(file, _)| file.truncate(valid));
    if let Err(error) = done {
        host.log(&format!("Error truncating the AOF file {name}: {}", os_message(&error)));
        return Err(LoadFailed);
    }
    Ok(())
}
