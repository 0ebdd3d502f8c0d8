//! A client in one line, as CLIENT LIST has it.
//!
//! ```text
//! id=3 addr=127.0.0.1:45672 laddr=127.0.0.1:6379 fd=11 name= age=0 idle=0 flags=N ... tot-cmds=0
//! ```

use crate::core::command_table::CommandTable;
use engine::Engine;
use engine::acl::user::DEFAULT_USER;
use engine::before_nul;
use engine::clients::registry::{ClientInfo, Details};
use engine::config::Directive;
use engine::time::UnixMs;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Returns the name of the client's last command, if it had one.
pub fn last_command(client: &ClientInfo) -> Option<&'static str> {
    client.last_command.load(Relaxed).checked_sub(1).map(|id| CommandTable::get().name_of(id))
}

/// Returns whether the client has subscribed to a channel, a pattern or a shard channel.
pub fn is_subscriber(client: &ClientInfo) -> bool {
    client.subscriptions.iter().any(|names| names.load(Relaxed) > 0)
}

/// Returns the letters of the `flags` field.
pub fn flags(client: &ClientInfo) -> String {
    let letters = [
        ('M', client.is_primary.load(Relaxed)),
        ('O', client.monitor.load(Relaxed)),
        ('S', client.is_replica.load(Relaxed)),
        ('P', is_subscriber(client)),
        ('x', client.in_multi.load(Relaxed)),
        ('b', client.is_blocked()),
        ('t', client.tracks.load(Relaxed)),
        ('R', client.redirection_broken.load(Relaxed)),
        ('B', client.broadcasts.load(Relaxed)),
        ('d', client.is_watch_broken()),
        ('U', client.is_unix()),
        ('r', client.read_only.load(Relaxed)),
        ('e', client.no_evict.load(Relaxed)),
        ('T', client.no_touch.load(Relaxed)),
        ('I', client.import_source.load(Relaxed)),
        ('i', client.migration.is_source.load(Relaxed)),
        ('E', client.migration.is_target.load(Relaxed)),
    ];
    let text: String = letters.iter().filter(|(_, set)| *set).map(|(letter, _)| *letter).collect();
    if text.is_empty() { "N".to_owned() } else { text }
}

/// Every letter that the `flags` field can have in some server.
pub const FLAG_LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIiEN";

/// Appends the client's line, with its end.
pub fn write_line(out: &mut Vec<u8>, client: &ClientInfo, now_ms: UnixMs) {
    write_fields(out, client, now_ms, false);
}

/// Appends the fields. `hides`: users' own texts are not shown.
fn write_fields(out: &mut Vec<u8>, client: &ClientInfo, now_ms: UnixMs, hides: bool) {
    let details = client.details();
    let buffers = client.buffers.sizes();
    // A transaction that will fail is forgotten but for that.
    let (queued, queued_bytes, watched) = match client.is_watch_broken() {
        true => (0, 0, 0),
        false => (client.queued.load(Relaxed), client.queued_bytes.load(Relaxed), client.watched.load(Relaxed)),
    };
    let unsent = buffers.reply_first > 0 || buffers.reply_chunks > 0;
    let seconds_since = |then: i64| (now_ms.0 - then).max(0) / 1000;
    let command = last_command(client).unwrap_or("NULL");
    let mut text = String::with_capacity(360);
    let _ = write!(text, "id={} addr={} laddr={} fd={} name=", client.id, client.addr, client.laddr, client.fd);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(if hides { HIDDEN.as_bytes() } else { before_nul(&details.name) });
    text.clear();
    let _ = write!(
        text,
        " age={} idle={} flags={} capa={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} qbuf-free={} \
         argv-mem={} multi-mem={} rbs={} rbp={} obl={} oll={} omem={} tot-mem={} events={} cmd={command} \
         user=",
        seconds_since(client.connected_at.load(Relaxed)),
        seconds_since(client.active_at.load(Relaxed)),
        flags(client),
        if client.redirects.load(Relaxed) { "r" } else { "" },
        client.db.load(Relaxed),
        client.subscriptions[0].load(Relaxed),
        client.subscriptions[1].load(Relaxed),
        client.subscriptions[2].load(Relaxed),
        queued,
        watched,
        buffers.query,
        buffers.query_free,
        buffers.args,
        queued_bytes,
        buffers.reply_room,
        buffers.reply_peak,
        buffers.reply_first,
        buffers.reply_chunks,
        buffers.reply_bytes,
        client.memory.load(Relaxed),
        if unsent { "rw" } else { "r" },
    );
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(if hides { HIDDEN.as_bytes() } else { before_nul(name_of_user(client, &details)) });
    text.clear();
    let _ = write!(text, " redir={} resp={} lib-name=", client.redirection.load(Relaxed), client.resp.load(Relaxed),);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(before_nul(&details.lib_name));
    out.extend_from_slice(b" lib-ver=");
    out.extend_from_slice(before_nul(&details.lib_ver));
    text.clear();
    let _ = writeln!(
        text,
        " tot-net-in={} tot-net-out={} tot-cmds={}",
        client.input_bytes.load(Relaxed),
        client.output_bytes.load(Relaxed),
        client.commands.load(Relaxed),
    );
    out.extend_from_slice(text.as_bytes());
}

/// The name that stands for the user of a link from the primary, which has all rights.
const SUPERUSER: &[u8] = b"(superuser)";

fn name_of_user<'d>(client: &ClientInfo, details: &'d Details) -> &'d [u8] {
    if client.is_primary.load(Relaxed) { SUPERUSER } else { user_of(details) }
}

/// Returns the name of the client's user.
pub fn user_of(details: &Details) -> &[u8] {
    details.user.as_ref().map_or(DEFAULT_USER, |user| user.name())
}

/// The log's word for a name that it may not show.
const HIDDEN: &str = "*redacted*";

/// Returns the client's line as the server's log shows it.
pub fn described(engine: &Engine, client: &ClientInfo, now_ms: UnixMs) -> String {
    let mut line = Vec::new();
    let hides = engine.config().snapshot().flag(Directive::HIDE_USER_DATA_FROM_LOG);
    write_fields(&mut line, client, now_ms, hides);
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}
