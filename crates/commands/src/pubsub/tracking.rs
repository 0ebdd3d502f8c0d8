//! CLIENT TRACKING and its kin: clients with a cache of their own.
//!
//! ```text
//! RESP3           >2 invalidate [key ...]                           to the client itself or to whom it redirects
//! RESP2           *3 message __redis__:invalidate [key ...]         only to one who is redirected to and has a subscription
//! a flush         null in the place of the keys
//! broken          >2 tracking-redir-broken id                       to the client itself, if it speaks RESP3
//! ```
//!
//! [`engine::clients::tracking`] explains which keys' changes a client gets, and why it misses none.

use crate::core::args::Args;
use crate::core::context::Context;
use crate::core::session::Session;
use engine::clients::registry::ClientInfo;
use engine::clients::tracking::{Stale, Tracker, TrackingMode};
use engine::{Engine, Error, Word, before_nul};
use resp::{Protocol, Reply};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The arguments of CLIENT TRACKING.
#[derive(Default)]
struct Options {
    redirect: Option<Arc<ClientInfo>>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<Box<[u8]>>,
}

pub(crate) fn tracking(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = parse(cx, args)?;
    if args.is(2, "on") {
        begin(cx, options)?;
    } else if args.is(2, "off") {
        end(cx.engine, cx.session);
    } else {
        return Err(Error::Syntax);
    }
    cx.reply.ok();
    Ok(())
}

fn parse(cx: &Context<'_>, args: &Args<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut index = 3;
    while index < args.len() {
        let has_more = index + 1 < args.len();
        match () {
            () if args.is(index, "redirect") && has_more => {
                index += 1;
                if options.redirect.is_some() {
                    return Err(Error::RedirectTwice);
                }
                let id = u64::try_from(args.int(index)?).ok();
                options.redirect = Some(id.and_then(|id| cx.engine.clients().get(id)).ok_or(Error::RedirectMissing)?);
            }
            () if args.is(index, "bcast") => options.broadcast = true,
            () if args.is(index, "optin") => options.opt_in = true,
            () if args.is(index, "optout") => options.opt_out = true,
            () if args.is(index, "noloop") => options.no_loop = true,
            () if args.is(index, "prefix") && has_more => {
                index += 1;
                options.prefixes.push(args[index].into());
            }
            () => return Err(Error::Syntax),
        }
        index += 1;
    }
    Ok(options)
}

impl Options {
    /// Returns the mode, if it is one and may follow the present one.
    fn mode(&self, present: Option<TrackingMode>) -> Result<TrackingMode, Error> {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(Error::PrefixWithoutBcast);
        }
        if present.is_some_and(|present| (present == TrackingMode::Broadcast) != self.broadcast) {
            return Err(Error::BcastSwitch);
        }
        let mode = match (self.broadcast, self.opt_in, self.opt_out) {
            (true, false, false) => TrackingMode::Broadcast,
            (true, ..) => return Err(Error::BcastWithOpt),
            (_, true, true) => return Err(Error::OptinAndOptout),
            (_, true, _) => TrackingMode::OptIn,
            (_, _, true) => TrackingMode::OptOut,
            _ => TrackingMode::Reads,
        };
        match (present, mode) {
            (Some(TrackingMode::OptIn), TrackingMode::OptOut) | (Some(TrackingMode::OptOut), TrackingMode::OptIn) => {
                Err(Error::OptSwitch)
            }
            _ => Ok(mode),
        }
    }
}

/// Memory of a client for each of its prefixes: two nodes of a tree, without their bytes. Valkey counts so, and
/// `maxmemory-clients` ends the same clients as there.
const PREFIX_BYTES: usize = 24;

fn begin(cx: &mut Context<'_>, options: Options) -> Result<(), Error> {
    let session = &mut *cx.session;
    let present = session.tracker.as_deref();
    let mode = options.mode(present.map(|tracker| tracker.mode))?;
    let mut prefixes = present.map_or_else(BTreeSet::new, |tracker| tracker.prefixes.clone());
    if mode == TrackingMode::Broadcast {
        check_prefixes(&prefixes, &options.prefixes)?;
        prefixes.extend(options.prefixes.iter().cloned());
        if options.prefixes.is_empty() {
            prefixes.insert(Box::default());
        }
    }
    let info = &session.info;
    info.redirection.store(options.redirect.as_ref().map_or(0, |client| client.id as i64), Relaxed);
    info.redirection_broken.store(false, Relaxed);
    info.broadcasts.store(mode == TrackingMode::Broadcast, Relaxed);
    info.tracks.store(true, Relaxed);
    let mut tracker = Tracker::new(info, options.redirect, mode, options.no_loop);
    info.prefix_bytes.store(prefixes.len() * PREFIX_BYTES, Relaxed);
    tracker.prefixes = prefixes;
    session.tracker = Some(cx.engine.tracking().begin(tracker));
    Ok(())
}

/// Checks that no key may begin with two prefixes of a client.
fn check_prefixes(present: &BTreeSet<Box<[u8]>>, new: &[Box<[u8]>]) -> Result<(), Error> {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let shown = |prefix: &[u8]| Word::of(String::from_utf8_lossy(before_nul(prefix)).as_bytes());
    for (index, prefix) in new.iter().enumerate() {
        if let Some(other) = present.iter().find(|other| overlap(prefix, other)) {
            return Err(Error::PrefixOverlapsPresent(shown(prefix), shown(other)));
        }
        if let Some(other) = new[index + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(Error::PrefixOverlapsGiven(shown(prefix), shown(other)));
        }
    }
    Ok(())
}

/// Ends a client's tracking: it asked for that, was reset, or is gone.
pub fn end(engine: &Engine, session: &mut Session) {
    session.caching = false;
    let Some(tracker) = session.tracker.take() else { return };
    engine.tracking().end(&tracker);
    let info = &session.info;
    info.tracks.store(false, Relaxed);
    info.broadcasts.store(false, Relaxed);
    info.redirection_broken.store(false, Relaxed);
    info.redirection.store(-1, Relaxed);
    info.prefix_bytes.store(0, Relaxed);
}

pub(crate) fn caching(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mode = cx.session.tracker.as_ref().ok_or(Error::CachingWithoutOpt)?.mode;
    match () {
        () if args.is(2, "yes") && mode != TrackingMode::OptIn => return Err(Error::CachingYesWithoutOptin),
        () if args.is(2, "no") && mode != TrackingMode::OptOut => return Err(Error::CachingNoWithoutOptout),
        () if args.is(2, "yes") || args.is(2, "no") => cx.session.caching = true,
        () => return Err(Error::Syntax),
    }
    cx.reply.ok();
    Ok(())
}

pub(crate) fn get_redirection(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(cx.session.info.redirection.load(Relaxed));
    Ok(())
}

pub(crate) fn tracking_info(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let info = &cx.session.info;
    let mut flags = Vec::new();
    match cx.session.tracker.as_deref() {
        None => flags.push("off"),
        Some(tracker) => {
            flags.push("on");
            let caching = cx.session.caching;
            match tracker.mode {
                TrackingMode::Reads => {}
                TrackingMode::Broadcast => flags.push("bcast"),
                TrackingMode::OptIn => {
                    flags.extend(["optin", "caching-yes"].into_iter().take(1 + usize::from(caching)))
                }
                TrackingMode::OptOut => {
                    flags.extend(["optout", "caching-no"].into_iter().take(1 + usize::from(caching)))
                }
            }
            if tracker.no_loop {
                flags.push("noloop");
            }
            if info.redirection_broken.load(Relaxed) {
                flags.push("broken_redirect");
            }
        }
    }
    let reply = &mut *cx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(info.redirection.load(Relaxed));
    reply.bulk(b"prefixes");
    let prefixes = cx.session.tracker.iter().flat_map(|tracker| &tracker.prefixes);
    reply.array(prefixes.clone().count());
    prefixes.for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

/// Returns the push about stale keys for a client; None if the client's protocol has no form for it.
pub fn encode(tracker: &Tracker, stale: &Stale, protocol: Protocol) -> Option<Vec<u8>> {
    let subscribes = |client: &ClientInfo| client.subscriptions.iter().any(|names| names.load(Relaxed) > 0);
    let mut reply = Reply::new(Vec::new(), protocol);
    if protocol == Protocol::Resp3 {
        reply.push(2);
        reply.bulk(b"invalidate");
    } else if tracker.redirect.as_deref().is_some_and(subscribes) {
        reply.push(3);
        reply.bulk(b"message");
        reply.bulk(b"__redis__:invalidate");
    } else {
        return None;
    }
    match stale {
        Stale::Everything => reply.null(),
        Stale::Keys(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
    }
    Some(reply.into_inner())
}

/// Returns the push about the end of the client that gets its invalidations.
pub fn encode_broken(tracker: &Tracker, protocol: Protocol) -> Option<Vec<u8>> {
    let redirect = tracker.redirect.as_ref().filter(|_| protocol == Protocol::Resp3)?;
    let mut reply = Reply::new(Vec::new(), protocol);
    reply.push(2);
    reply.bulk(b"tracking-redir-broken");
    reply.int(redirect.id as i64);
    Some(reply.into_inner())
}

#[cfg(test)]
mod tests {

    use crate::testing::Client;

    #[test]
    fn modes_exclude_each_other_and_prefixes_do_not_overlap() {
        let mut client = Client::new();
        client.is("CLIENT TRACKING on REDIRECT 99", "-ERR The client ID you want redirect to does not exist");
        client.is("CLIENT TRACKING on PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled");
        client.is("CLIENT TRACKING on BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST");
        client.is("CLIENT TRACKING x", "-ERR syntax error").is("CLIENT TRACKING on REDIRECT", "-ERR syntax error");
        client.is("CLIENT TRACKING on BCAST PREFIX ab PREFIX c", "+OK").is(
            "CLIENT TRACKING on BCAST PREFIX a",
            "-ERR Prefix 'a' overlaps with an existing prefix 'ab'. Prefixes for a single client must not overlap.",
        );
        assert!(client.run("CLIENT TRACKING on").starts_with("-ERR You can't switch BCAST mode"));
        client.is("CLIENT TRACKINGINFO", "[flags [on bcast] redirect :0 prefixes [ab c]]").is("CLIENT GETREDIR", ":0");
        assert!(client.run("CLIENT INFO").contains(" flags=tB "));
        client.is("RESET", "+RESET").is("CLIENT TRACKINGINFO", "[flags [off] redirect :-1 prefixes []]");
    }

    #[test]
    fn caching_is_for_the_next_command_or_transaction() {
        let mut client = Client::new();
        let tracked = |client: &Client| {
            let locks = client.engine().locks();
            (0..locks.len()).map(|shard| locks.one(shard).listeners.tracked.len()).sum::<usize>()
        };
        client.is("CLIENT TRACKING on OPTIN", "+OK").is("GET a", "nil");
        assert_eq!(tracked(&client), 0);
        client.is("CLIENT CACHING yes", "+OK").is("CLIENT ID", ":0").is("MGET a b", "[nil nil]").is("GET c", "nil");
        assert_eq!(tracked(&client), 2);
        client.is("CLIENT CACHING yes", "+OK").is("MULTI", "+OK").is("GET d", "+QUEUED").is("GET e", "+QUEUED");
        client.is("EXEC", "[nil nil]").is("GET f", "nil").is("SET a 1", "+OK");
        assert_eq!(tracked(&client), 3);
        client.is("FLUSHDB", "+OK");
        assert_eq!(tracked(&client), 0);
    }
}
