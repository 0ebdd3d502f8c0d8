//! REPLCONF: properties that a server declares before it follows this one.

use crate::core::args::Args;
use crate::core::command::{ADMIN, ALLOW_BUSY, Command, Group, LOADING, NO_SCRIPT, STALE, SYSTEM};
use crate::core::context::Context;
use engine::config::Directive;
use engine::{Error, Word};
use replication::replica_handshake::BadOption;

pub const COMMANDS: &[Command] = &[Command {
    name: "replconf",
    group: Group::Server,
    since: "3.0.0",
    arity: -1,
    flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE).and(ALLOW_BUSY).and(SYSTEM),
    summary: "An internal command for configuring the replication stream.",
    complexity: "O(1)",
    run: replconf,
    ..Command::DEFAULT
}];

fn replconf(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    for index in (1..args.len()).step_by(2) {
        if args.is(index, "ack") || args.is(index, "getack") {
            // These words count on a link only, and get no reply there.
            return Ok(());
        }
        if args.is(index, "set-cluster-node-id") {
            if !cx.engine.is_clustered() {
                return Err(Error::ClusterDisabled);
            }
            if !cx.engine.host().knows_node(&args[index + 1]) {
                return Err(Error::UnknownNode(Word::of(&args[index + 1])));
            }
        }
        if args.is(index, "set-rdb-client-id") {
            let client = args.int(index + 1)?;
            if !u64::try_from(client).is_ok_and(|client| cx.engine.replication().awaits_psync(client)) {
                return Err(text(&format!("ERR Unrecognized RDB client id {client}")));
            }
        }
        let config = cx.engine.config().snapshot();
        let mut dual_channel = config.flag(Directive::DUAL_CHANNEL_REPLICATION_ENABLED);
        // The snapshot goes to a socket, by either name that a replica has for it.
        if dual_channel && !config.flag(Directive::REPL_DISKLESS_SYNC) {
            dual_channel = false;
            if args.is(index + 1, "dual-channel") {
                cx.engine.host().notice("Dual channel capability ignored: repl-diskless-sync disabled");
            }
        }
        let said = cx.session.handshake.get_or_insert_default();
        said.set(&args[index], &args[index + 1], dual_channel).map_err(refusal)?;
    }
    cx.reply.ok();
    Ok(())
}

fn refusal(option: BadOption) -> Error {
    let text = match option {
        BadOption::NotAnInteger => return Error::NotAnInteger,
        BadOption::NotABit => "ERR value is out of range, value must between 0 and 1".to_owned(),
        BadOption::Unrecognized(name) => format!("ERR Unrecognized REPLCONF option: {}", name.escape_ascii()),
        BadOption::AddressTooLong(bytes) => {
            format!("ERR REPLCONF ip-address provided by replica instance is too long: {bytes} bytes")
        }
        BadOption::UnsupportedFilter(word) => {
            format!("ERR Unsupported rdb-filter-only option: {}", word.escape_ascii())
        }
        BadOption::Version(text) => format!("ERR Unrecognized version format: {}", text.escape_ascii()),
    };
    self::text(&text)
}

fn text(text: &str) -> Error {
    Error::Verbatim(Word::of(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_replica_says_what_it_is() {
        let mut client = Client::new();
        client.is("REPLCONF", "+OK").is("REPLCONF listening-port", "-ERR syntax error");
        client.is("REPLCONF listening-port 6380 ip-address 10.0.0.1", "+OK").is("REPLCONF capa eof capa psync2", "+OK");
        let (fits, too_long) = ("x".repeat(255), "x".repeat(256));
        client.is(&format!("REPLCONF ip-address {fits}"), "+OK").is(
            &format!("REPLCONF ip-address {too_long}"),
            "-ERR REPLCONF ip-address provided by replica instance is too long: 256 bytes",
        );
        client.is("REPLCONF nope 1", "-ERR Unrecognized REPLCONF option: nope");
        client.is("REPLCONF version 9.x", "-ERR Unrecognized version format: 9.x").is("REPLCONF version 9.0.0", "+OK");
        client.is("REPLCONF rdb-only 2", "-ERR value is out of range, value must between 0 and 1");
        client.is("REPLCONF set-rdb-client-id 7", "-ERR Unrecognized RDB client id 7");
        client.is("REPLCONF listening-port x", "-ERR value is not an integer or out of range");
    }

    #[test]
    fn a_snapshot_takes_a_connection_of_its_own_only_where_it_goes_to_sockets() {
        for (diskless, expected) in [("yes", true), ("no", false)] {
            let mut client = Client::new();
            client.is("CONFIG SET dual-channel-replication-enabled yes", "+OK");
            client.is(&format!("CONFIG SET repl-diskless-sync {diskless}"), "+OK");
            client.is("REPLCONF capa eof capa dual-channel capa rdb-channel-repl", "+OK");
            let said = client.session().handshake.clone().unwrap_or_default();
            assert_eq!((said.dual_channel, said.rdb_channel_repl), (expected, expected), "{diskless}");
        }
    }
}
