//! ACL LOG: the refused commands and logins.

use crate::core::args::Args;
use crate::core::context::Context;
use crate::server::acl::acl_commands::wrong_use;
use engine::Error;

/// Entries that are shown unless the client gives a number.
const SHOWN: i64 = 10;

pub fn log(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let log = &cx.engine.users().log;
    let count = match args.len() {
        2 => SHOWN,
        3 if args.is(2, "reset") => {
            log.clear();
            cx.reply.ok();
            return Ok(());
        }
        3 => args.int(2)?,
        _ => return Err(wrong_use(args)),
    };
    let entries = log.last(usize::try_from(count).unwrap_or(0));
    let (reply, now) = (&mut *cx.reply, cx.now.unix_ms());
    reply.array(entries.len());
    for entry in entries {
        reply.map(10);
        reply.bulk(b"count");
        reply.int(entry.count as i64);
        reply.bulk(b"reason");
        reply.bulk(entry.denied.name().as_bytes());
        reply.bulk(b"context");
        reply.bulk(entry.context.as_bytes());
        reply.bulk(b"object");
        reply.bulk(&entry.object);
        reply.bulk(b"username");
        reply.bulk(&entry.username);
        reply.bulk(b"age-seconds");
        reply.double((now.0 - entry.updated_at.0) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
        reply.bulk(b"entry-id");
        reply.int(entry.id as i64);
        reply.bulk(b"timestamp-created");
        reply.int(entry.created_at.0);
        reply.bulk(b"timestamp-last-updated");
        reply.int(entry.updated_at.0);
    }
    Ok(())
}
