//! CLIENT: the server's data about its clients, and clients' settings for themselves.
//!
//! The container and its subcommands are here; `client_list.rs` writes a client as a line and picks clients by filters,
//! `client_pause.rs` prevents commands from running for a while. In: the registry of clients and the session. Out:
//! lines, flags of sessions, and the ends of connections. It knows nothing of sockets.

pub mod client_list;
pub mod client_pause;

use crate::core::args::Args;
use crate::core::client_line::write_line;
use crate::core::command::{
    ADMIN, ALLOW_BUSY, Command, Flags, Group, KEEPS_CACHING, LOADING, NO_MULTI, NO_SCRIPT, SETTLES, STALE,
};
use crate::core::context::{Blocking, Context, Flow, Resumable};
use crate::core::help::HELP;
use crate::core::session::Replies;
use crate::pubsub::tracking;
use crate::replication::acknowledge;
use crate::replication::stream_catch_up::StreamCatchUp;
use crate::server::client::client_list::Filter;
use crate::server::connection::{is_clean, set_name};
use crate::server::worker_barrier::Others;
use cluster::proxy::CAPABILITY;
use engine::client_endings::Ending;
use engine::clients::registry::ClientInfo;
use engine::{Error, Word};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const COMMON: Flags = NO_SCRIPT.and(LOADING).and(STALE);
const EVEN_BUSY: Flags = COMMON.and(ALLOW_BUSY);

pub(crate) const COMMANDS: &[Command] = &[Command {
    name: "client",
    group: Group::Connection,
    since: "2.4.0",
    arity: -2,
    summary: "A container for client connection commands.",
    complexity: "Depends on subcommand.",
    flags: KEEPS_CACHING,
    subcommands: SUBCOMMANDS,
    ..Command::DEFAULT
}];

const SUB: Command =
    Command { group: Group::Connection, arity: 2, flags: EVEN_BUSY, complexity: "O(1)", ..Command::DEFAULT };
const EACH_CLIENT: &str = "O(N) where N is the number of client connections";

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "acknowledge",
        since: "9.1.0",
        arity: -3,
        flags: COMMON.and(NO_MULTI),
        syntax: "replicas:int [DURABLE]",
        summary: "Makes replies wait until so many replicas have what they tell of.",
        run: acknowledge::acknowledge,
        ..SUB
    },
    Command {
        name: "caching",
        since: "6.0.0",
        arity: 3,
        syntax: "(mode: YES | NO)",
        summary: "Instructs the server whether to track the keys in the next request.",
        run: tracking::caching,
        ..SUB
    },
    Command {
        name: "capa",
        since: "8.0.0",
        arity: -3,
        syntax: "capability...",
        summary: "A client claims its capability.",
        run: capa,
        ..SUB
    },
    Command { name: "getname", since: "2.6.9", summary: "Returns the name of the connection.", run: get_name, ..SUB },
    Command {
        name: "getredir",
        since: "6.0.0",
        summary: "Returns the client ID to which the connection's tracking notifications are redirected.",
        run: tracking::get_redirection,
        ..SUB
    },
    Command { group: Group::Connection, since: "5.0.0", ..HELP },
    Command { name: "id", since: "5.0.0", summary: "Returns the unique client ID of the connection.", run: id, ..SUB },
    Command {
        name: "import-source",
        since: "8.1.0",
        arity: 3,
        flags: COMMON,
        syntax: "(enabled: ON | OFF)",
        summary: "Marks this client as an import source when the server is in import mode.",
        run: import_source,
        ..SUB
    },
    Command {
        name: "info",
        since: "6.2.0",
        flags: COMMON,
        summary: "Returns information about the connection.",
        tips: &["nondeterministic_output"],
        run: info,
        ..SUB
    },
    Command {
        name: "kill",
        since: "2.4.0",
        arity: -3,
        flags: COMMON.and(ADMIN),
        syntax: "(filter: old-format=ip:port~2.8.12 | (new-format: [ID client-id:int]...@2.8.12 | [TYPE client-type: NORMAL | MASTER@3.2.0 | PRIMARY@8.0.0 | SLAVE | REPLICA@5.0.0 | PUBSUB]@2.8.12 | [USER username] | [ADDR addr=ip:port] | [LADDR laddr=ip:port]@6.2.0 | [SKIPME skipme: YES | NO] | [MAXAGE maxage:int]@8.0.0 | [NAME name]@9.0.0 | [IDLE idle:int]@9.0.0 | [FLAGS flags]@9.0.0 | [LIB-NAME lib-name]@9.0.0 | [LIB-VER lib-ver]@9.0.0 | [DB db:int]@9.0.0 | [CAPA capa]@9.0.0 | [IP ip]@9.0.0 | [NOT-TYPE not-client-type: NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB]@9.0.0 | [NOT-ID not-client-id:int]...@9.0.0 | [NOT-USER not-username]@9.0.0 | [NOT-ADDR not-addr=ip:port]@9.0.0 | [NOT-LADDR not-laddr=ip:port]@9.0.0 | [NOT-NAME not-name]@9.0.0 | [NOT-FLAGS not-flags]@9.0.0 | [NOT-LIB-NAME not-lib-name]@9.0.0 | [NOT-LIB-VER not-lib-ver]@9.0.0 | [NOT-DB not-db:int]@9.0.0 | [NOT-CAPA not-capa]@9.0.0 | [NOT-IP not-ip]@9.0.0)...)",
        summary: "Terminates open connections.",
        complexity: EACH_CLIENT,
        history: &[
            ("2.8.12", "Added new filter format."),
            ("2.8.12", "`ID` option."),
            ("3.2.0", "Added `master` type in for `TYPE` option."),
            ("5.0.0", "Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward compatibility."),
            ("6.2.0", "`LADDR` option."),
            ("8.0.0", "`MAXAGE` option."),
            ("8.0.0", "Replaced `master` `TYPE` with `primary`. `master` still supported for backward compatibility."),
            ("8.1.0", "`ID` option accepts multiple IDs."),
            (
                "9.0.0",
                "Added filters NAME, IDLE, FLAGS, LIB-NAME, LIB-VER, DB, CAPA, and IP. And negative filters NOT-ID, NOT-TYPE, NOT-ADDR, NOT-LADDR, NOT-USER, NOT-FLAGS, NOT-NAME, NOT-LIB-NAME, NOT-LIB-VER, NOT-DB, NOT-CAPA, NOT-IP.",
            ),
        ],
        run: kill,
        ..SUB
    },
    Command {
        name: "list",
        since: "2.4.0",
        arity: -2,
        flags: COMMON.and(ADMIN),
        syntax: "[TYPE client-type: NORMAL | MASTER | REPLICA | PUBSUB]@5.0.0 [ID client-id:int]...@6.2.0 [USER username]@8.1.0 [ADDR addr=ip:port]@8.1.0 [LADDR laddr=ip:port]@8.1.0 [SKIPME skipme: YES | NO]@8.1.0 [MAXAGE maxage:int]@8.1.0 [NAME name]@9.0.0 [IDLE idle:int]@9.0.0 [FLAGS flags]@9.0.0 [LIB-NAME lib-name]@9.0.0 [LIB-VER lib-ver]@9.0.0 [DB db:int]@9.0.0 [CAPA capa]@9.0.0 [IP ip]@9.0.0 [NOT-TYPE not-client-type: NORMAL | MASTER | REPLICA | PUBSUB]@9.0.0 [NOT-ID not-client-id:int]...@9.0.0 [NOT-USER not-username]@9.0.0 [NOT-ADDR not-addr=ip:port]@9.0.0 [NOT-LADDR not-laddr=ip:port]@9.0.0 [NOT-NAME not-name]@9.0.0 [NOT-FLAGS not-flags]@9.0.0 [NOT-LIB-NAME not-lib-name]@9.0.0 [NOT-LIB-VER not-lib-ver]@9.0.0 [NOT-DB not-db:int]@9.0.0 [NOT-CAPA not-capa]@9.0.0 [NOT-IP not-ip]@9.0.0",
        summary: "Lists open connections.",
        complexity: EACH_CLIENT,
        tips: &["nondeterministic_output"],
        history: &[
            ("2.8.12", "Added unique client `id` field."),
            ("5.0.0", "Added optional `TYPE` filter."),
            ("6.0.0", "Added `user` field."),
            ("6.2.0", "Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter."),
            ("7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."),
            ("7.0.3", "Added `ssub` field."),
            ("8.0.0", "Replaced `master` `TYPE` with `primary`. `master` still supported for backward compatibility."),
            ("8.1.0", "Added filters USER, ADDR, LADDR, SKIPME, and MAXAGE."),
            (
                "9.0.0",
                "Added filters NAME, IDLE, FLAGS, LIB-NAME, LIB-VER, DB, CAPA, and IP. And negative filters NOT-ID, NOT-TYPE, NOT-ADDR, NOT-LADDR, NOT-USER, NOT-FLAGS, NOT-NAME, NOT-LIB-NAME, NOT-LIB-VER, NOT-DB, NOT-CAPA, NOT-IP.",
            ),
        ],
        run: list,
        ..SUB
    },
    Command {
        name: "no-evict",
        since: "7.0.0",
        arity: 3,
        flags: EVEN_BUSY.and(ADMIN),
        syntax: "(enabled: ON | OFF)",
        summary: "Sets the client eviction mode of the connection.",
        run: no_evict,
        ..SUB
    },
    Command {
        name: "no-touch",
        since: "7.2.0",
        arity: 3,
        syntax: "(enabled: ON | OFF)",
        summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
        run: no_touch,
        ..SUB
    },
    Command {
        name: "pause",
        since: "3.0.0",
        arity: -3,
        flags: COMMON.and(ADMIN).and(SETTLES),
        syntax: "timeout:int [mode: WRITE | ALL]@6.2.0",
        summary: "Suspends commands processing.",
        history: &[("6.2.0", "`CLIENT PAUSE WRITE` mode added along with the `mode` option.")],
        run: crate::server::client::client_pause::pause,
        ..SUB
    },
    Command {
        name: "reply",
        since: "3.2.0",
        arity: 3,
        flags: EVEN_BUSY.and(NO_MULTI),
        syntax: "(action: ON | OFF | SKIP)",
        summary: "Instructs the server whether to reply to commands.",
        run: reply,
        ..SUB
    },
    Command {
        name: "setinfo",
        since: "7.2.0",
        arity: 4,
        syntax: "(attr: LIB-NAME libname | LIB-VER libver)",
        summary: "Sets information specific to the client or connection.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        run: set_info,
        ..SUB
    },
    Command {
        name: "setname",
        since: "2.6.9",
        arity: 3,
        syntax: "connection-name",
        summary: "Sets the connection name.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        run: set_client_name,
        ..SUB
    },
    Command {
        name: "strike",
        since: "9.1.0",
        arity: 3,
        flags: COMMON.and(ADMIN).and(NO_MULTI),
        syntax: "member",
        summary: "Strikes a member off the in-sync set that will never come back.",
        run: acknowledge::strike,
        ..SUB
    },
    Command {
        name: "tracking",
        since: "6.0.0",
        arity: -3,
        flags: COMMON,
        syntax: "(status: ON | OFF) [REDIRECT client-id:int] [PREFIX prefix]+ [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        summary: "Controls server-assisted client-side caching for the connection.",
        complexity: "O(1). Some options may introduce additional complexity.",
        run: tracking::tracking,
        ..SUB
    },
    Command {
        name: "trackinginfo",
        since: "6.2.0",
        flags: COMMON,
        summary: "Returns information about server-assisted client-side caching for the connection.",
        run: tracking::tracking_info,
        ..SUB
    },
    Command {
        name: "unblock",
        since: "5.0.0",
        arity: -3,
        flags: COMMON.and(ADMIN),
        syntax: "client-id:int [unblock-type: TIMEOUT | ERROR]",
        summary: "Unblocks a client blocked by a blocking command from a different connection.",
        complexity: "O(log N) where N is the number of client connections",
        run: crate::blocking::unblock,
        ..SUB
    },
    Command {
        name: "unpause",
        since: "6.2.0",
        flags: COMMON.and(ADMIN),
        summary: "Resumes processing commands from paused clients.",
        complexity: "O(N) Where N is the number of paused clients",
        run: crate::server::client::client_pause::unpause,
        ..SUB
    },
];

fn id(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(cx.session.info.id as i64);
    Ok(())
}

fn get_name(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    match cx.session.info.details().name {
        name if name.is_empty() => cx.reply.null(),
        name => cx.reply.bulk(&name),
    }
    Ok(())
}

fn set_client_name(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_name(cx, &args[2])?;
    cx.reply.ok();
    Ok(())
}

fn set_info(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (is_name, is_version) = (args.is(2, "lib-name"), args.is(2, "lib-ver"));
    if !is_name && !is_version {
        return Err(Error::UnrecognizedOption(Word::up_to_nul(&args[2])));
    }
    if !is_clean(&args[3]) {
        return Err(Error::ClientInfo(Word::of(&args[2])));
    }
    cx.session.info.edit_details(|details| {
        let field = if is_name { &mut details.lib_name } else { &mut details.lib_ver };
        *field = args[3].to_vec();
    });
    cx.reply.ok();
    Ok(())
}

/// Sets the capabilities that are known; others may come from a client of a newer server.
fn capa(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if (2..args.len()).any(|index| args.is(index, "redirect")) {
        cx.session.info.redirects.store(true, Relaxed);
    }
    if (2..args.len()).any(|index| args.is(index, CAPABILITY)) {
        cx.session.info.wants_moved.store(true, Relaxed);
    }
    cx.reply.ok();
    Ok(())
}

fn on_or_off(args: &Args<'_>) -> Result<bool, Error> {
    match () {
        () if args.is(2, "on") => Ok(true),
        () if args.is(2, "off") => Ok(false),
        () => Err(Error::Syntax),
    }
}

fn no_evict(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.session.info.no_evict.store(on_or_off(args)?, Relaxed);
    cx.reply.ok();
    Ok(())
}

fn import_source(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if !cx.engine.is_importing() && !args.is(2, "off") {
        return Err(Error::NotInImportMode);
    }
    let on = on_or_off(args)?;
    cx.session.import_source = on;
    cx.session.info.import_source.store(on, Relaxed);
    cx.reply.ok();
    Ok(())
}

fn no_touch(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let on = on_or_off(args)?;
    cx.session.no_touch = on;
    cx.session.info.no_touch.store(on, Relaxed);
    cx.reply.ok();
    Ok(())
}

/// Sets the mode of replies; the dispatcher drops them.
fn reply(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.is(2, "on") {
        cx.session.replies = Replies::On;
        cx.reply.ok();
    } else if args.is(2, "off") {
        cx.session.replies = Replies::Off;
    } else if args.is(2, "skip") {
        if cx.session.replies != Replies::Off {
            cx.session.replies = Replies::SkipNext;
        }
    } else {
        return Err(Error::Syntax);
    }
    Ok(())
}

fn info(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let mut text = Vec::new();
    write_line(&mut text, &cx.session.info, cx.now_ms());
    cx.reply.verbatim(b"txt", &text);
    Ok(())
}

fn list(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let filter = Filter::parse(args, false, cx.engine)?;
    // A client that is alone has no earlier requests of others to wait for.
    let waits = cx.blocking == Blocking::Allowed && cx.engine.clients().len() > 1;
    let others = if waits { Others::ask(cx.engine) } else { Others::none() };
    let mut listing = List { filter, others, stream: StreamCatchUp::begin(cx) };
    if !listing.step(cx) {
        cx.flow = Flow::more(listing);
    }
    Ok(())
}

/// A list of clients that includes their earlier requests, and for replicas the bytes that they were sent of these.
struct List {
    filter: Filter,
    others: Others,
    stream: Option<StreamCatchUp>,
}

impl Resumable for List {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.others.are_done(cx.engine) || self.stream.as_ref().is_some_and(|stream| !stream.is_done(cx.engine)) {
            return false;
        }
        let mut text = Vec::new();
        for client in chosen(cx, &self.filter) {
            write_line(&mut text, &client, cx.now_ms());
        }
        cx.reply.verbatim(b"txt", &text);
        true
    }
}

fn chosen(cx: &Context<'_>, filter: &Filter) -> Vec<Arc<ClientInfo>> {
    let (me, now) = (cx.session.info.id, cx.now_ms());
    let mut clients = cx.engine.clients().all();
    clients.retain(|client| filter.admits(client, me, now));
    clients
}

fn kill(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    // One argument is an address, the form from before there were filters.
    if args.len() == 3 {
        let clients = cx.engine.clients().all();
        let found = clients.iter().find(|client| client.addr.as_bytes() == &args[2]);
        end(cx, found.ok_or(Error::NoSuchClient)?);
        cx.reply.ok();
        return Ok(());
    }
    let clients = chosen(cx, &Filter::parse(args, true, cx.engine)?);
    for client in &clients {
        end(cx, client);
    }
    cx.reply.int(clients.len() as i64);
    Ok(())
}

/// Removes a client from the lists at once; its worker closes the connection later.
fn end(cx: &mut Context<'_>, client: &ClientInfo) {
    if client.id == cx.session.info.id {
        cx.flow = Flow::Close;
    } else {
        cx.engine.end_client(client, Ending::AtOnce);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::dispatch;
    use crate::core::session::Session;
    use crate::testing::Client;
    use engine::time::UnixMs;
    use resp::Reply;

    fn connect(client: &Client, addr: &str) -> u64 {
        let clients = client.engine().clients();
        let info = ClientInfo::new(clients.next_id(), addr, "127.0.0.1:6379", 7, 0, UnixMs(client.now_ms().0 - 5000));
        clients.add(&Arc::new(info));
        clients.all().last().unwrap().id
    }

    #[test]
    fn a_client_names_itself_and_its_library() {
        let mut client = Client::new();
        client.is("CLIENT GETNAME", "nil").is("CLIENT SETNAME x", "+OK").is("CLIENT GETNAME", "x");
        client.is("CLIENT SETINFO lib-name py", "+OK").is("CLIENT SETINFO LIB-VER 1.2", "+OK");
        client.is("CLIENT SETINFO x y", "-ERR Unrecognized option 'x'");
        client.is("CLIENT SETNAME n\0\n", "+OK");
        assert!(client.run("CLIENT INFO").contains(" name=n age="), "a NUL ends the name in the line");
        client.is("CLIENT SETNAME x", "+OK");
        let line = client.run("CLIENT INFO");
        assert!(line.contains(" name=x ") && line.contains(" lib-name=py lib-ver=1.2 "), "{line}");
        assert!(line.contains(" cmd=NULL ") && line.ends_with(" tot-cmds=9\n"), "{line}");
        client.is("CLIENT NO-EVICT on", "+OK").is("CLIENT NO-TOUCH on", "+OK").is("CLIENT CAPA redirect", "+OK");
        assert!(client.run("CLIENT INFO").contains(" flags=eT capa=r "));
        client.is("CLIENT NO-TOUCH x", "-ERR syntax error").is("CLIENT ID", ":0").is("CLIENT GETREDIR", ":-1");
    }

    #[test]
    fn lists_admit_whom_all_filters_admit() {
        let mut client = Client::new();
        let first = connect(&client, "10.0.0.1:5000");
        connect(&client, "10.0.0.2:5000");
        let mut count = |line: &str| client.run(line).lines().count();
        assert_eq!(count("CLIENT LIST"), 2);
        assert_eq!(count(&format!("CLIENT LIST ID {first} 99")), 1);
        assert_eq!(count(&format!("CLIENT LIST NOT-ID {first}")), 1);
        assert_eq!(count("CLIENT LIST ADDR 10.0.0.2:5000 TYPE normal MAXAGE 5"), 1);
        assert_eq!(count("CLIENT LIST IP 10.0.0.1"), 1);
        assert_eq!(count("CLIENT LIST TYPE replica"), 0);
        assert_eq!(count("CLIENT LIST MAXAGE 6"), 0);
        for (line, error) in [
            ("CLIENT LIST ID 0", "-ERR client-id should be greater than 0"),
            ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'"),
            ("CLIENT LIST USER x", "-ERR No such user 'x'"),
            ("CLIENT LIST MAXAGE 0", "-ERR maxage should be greater than 0"),
            ("CLIENT LIST DB 16", "-ERR DB number should be between 0 and 15"),
            ("CLIENT LIST FLAGS Q", "-ERR Unknown flags found in the provided filter: Q"),
            ("CLIENT LIST NAME", "-ERR syntax error"),
            ("CLIENT LIST NOT-MAXAGE 1", "-ERR syntax error"),
        ] {
            client.is(line, error);
        }
    }

    #[test]
    fn killed_clients_are_counted_and_gone() {
        let mut client = Client::new();
        let id = connect(&client, "10.0.0.1:5000");
        connect(&client, "10.0.0.2:5000");
        client.is(&format!("CLIENT KILL ID {id}"), ":1").is(&format!("CLIENT KILL ID {id}"), ":0");
        client.is("CLIENT KILL 10.0.0.2:5000", "+OK").is("CLIENT KILL 10.0.0.2:5000", "-ERR No such client");
        assert!(client.engine().clients().is_empty());
    }

    #[test]
    fn replies_are_withheld() {
        let client = Client::new();
        let (engine, now, mut session) = (client.engine(), client.now(), Session::local());
        let mut said = |line: &str| {
            let mut args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
            let mut reply = Reply::default();
            dispatch::execute(engine, &mut session, &mut args, now, &mut reply);
            String::from_utf8(reply.take()).unwrap()
        };
        assert_eq!(said("CLIENT REPLY SKIP"), "");
        assert_eq!((said("PING"), said("PING").as_str()), (String::new(), "+PONG\r\n"));
        assert_eq!(said("CLIENT REPLY OFF"), "");
        assert_eq!(said("NOPE") + &said("PING") + &said("CLIENT REPLY SKIP") + &said("PING"), "");
        assert_eq!(said("CLIENT REPLY ON"), "+OK\r\n");
        assert_eq!(said("PING"), "+PONG\r\n");
    }
}
