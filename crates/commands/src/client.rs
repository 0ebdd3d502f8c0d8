//! CLIENT: what the server knows of its clients, and what a client says of itself.

use crate::args::Args;
use crate::client_list::{Filter, write_line};
use crate::connection::{is_clean, set_name};
use crate::cx::{Cx, Flow};
use crate::dispatch::before_nul;
use crate::help::help;
use crate::row::{ADMIN, ALLOW_BUSY, Command, Flags, Group, LOADING, NO_MULTI, NO_SCRIPT, ROW, STALE};
use crate::session::Replies;
use engine::Error;
use engine::clients::ClientInfo;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const COMMON: Flags = NO_SCRIPT.and(LOADING).and(STALE);
const EVEN_BUSY: Flags = COMMON.and(ALLOW_BUSY);

pub const COMMANDS: &[Command] = &[Command {
    name: "client",
    group: Group::Connection,
    since: "2.4.0",
    arity: -2,
    summary: "Commands about client connections.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..ROW
}];

const SUB: Command = Command { group: Group::Connection, arity: 2, flags: EVEN_BUSY, complexity: "O(1)", ..ROW };
const EACH_CLIENT: &str = "O(N) where N is the number of client connections";
const FILTERS: &str = "[[NOT-]TYPE NORMAL | MASTER | PRIMARY | SLAVE | REPLICA | PUBSUB] [[NOT-]ID client-id [client-id ...]] [[NOT-]USER username] [[NOT-]ADDR addr] [[NOT-]LADDR laddr] [SKIPME YES | NO] [MAXAGE maxage] [[NOT-]NAME name] [IDLE idle] [[NOT-]FLAGS flags] [[NOT-]LIB-NAME lib-name] [[NOT-]LIB-VER lib-ver] [[NOT-]DB db] [[NOT-]CAPA capa] [[NOT-]IP ip]";

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "capa",
        since: "8.0.0",
        arity: -3,
        syntax: "capability [capability ...]",
        summary: "Tells the server what the client is able to do; REDIRECT: follow to another server.",
        run: capa,
        ..SUB
    },
    Command { name: "getname", since: "2.6.9", summary: "Answers the connection's name.", run: get_name, ..SUB },
    Command {
        name: "getredir",
        since: "6.0.0",
        summary: "Answers the id of the client that gets this one's invalidations.",
        run: get_redirection,
        ..SUB
    },
    Command {
        name: "help",
        since: "5.0.0",
        flags: LOADING.and(STALE),
        summary: "Lists the subcommands.",
        run: help,
        ..SUB
    },
    Command { name: "id", since: "5.0.0", summary: "Answers the connection's id.", run: id, ..SUB },
    Command {
        name: "info",
        since: "6.2.0",
        flags: COMMON,
        summary: "Answers what CLIENT LIST says of this connection.",
        tips: &["nondeterministic_output"],
        run: info,
        ..SUB
    },
    Command {
        name: "kill",
        since: "2.4.0",
        arity: -3,
        flags: COMMON.and(ADMIN),
        syntax: "ip:port | filter value [filter value ...]",
        summary: "Closes connections: that of an address, or those that CLIENT LIST lists for these filters, without this one.",
        complexity: EACH_CLIENT,
        run: kill,
        ..SUB
    },
    Command {
        name: "list",
        since: "2.4.0",
        arity: -2,
        flags: COMMON.and(ADMIN),
        syntax: FILTERS,
        summary: "Lists the connections for which all filters hold, one a line.",
        complexity: EACH_CLIENT,
        tips: &["nondeterministic_output"],
        run: list,
        ..SUB
    },
    Command {
        name: "no-evict",
        since: "7.0.0",
        arity: 3,
        flags: EVEN_BUSY.and(ADMIN),
        syntax: "ON | OFF",
        summary: "Keeps the connection when clients are disconnected for their memory.",
        run: no_evict,
        ..SUB
    },
    Command {
        name: "no-touch",
        since: "7.2.0",
        arity: 3,
        syntax: "ON | OFF",
        summary: "Keeps the connection's reads from marking keys as used.",
        run: no_touch,
        ..SUB
    },
    Command {
        name: "reply",
        since: "3.2.0",
        arity: 3,
        flags: EVEN_BUSY.and(NO_MULTI),
        syntax: "ON | OFF | SKIP",
        summary: "Chooses whether this connection gets replies.",
        run: reply,
        ..SUB
    },
    Command {
        name: "setinfo",
        since: "7.2.0",
        arity: 4,
        syntax: "LIB-NAME libname | LIB-VER libver",
        summary: "Tells which library the client uses.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        run: set_info,
        ..SUB
    },
    Command {
        name: "setname",
        since: "2.6.9",
        arity: 3,
        syntax: "connection-name",
        summary: "Names the connection.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        run: set_client_name,
        ..SUB
    },
];

fn id(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(cx.session.info.id as i64);
    Ok(())
}

fn get_name(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    match cx.session.info.details().name {
        name if name.is_empty() => cx.reply.null(),
        name => cx.reply.bulk(&name),
    }
    Ok(())
}

fn set_client_name(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    set_name(cx, &args[2])?;
    cx.reply.ok();
    Ok(())
}

fn set_info(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (is_name, is_version) = (args.is(2, "lib-name"), args.is(2, "lib-ver"));
    if !is_name && !is_version {
        return Err(Error::new([b"ERR Unrecognized option '", before_nul(&args[2]), b"'"].concat()));
    }
    if !is_clean(&args[3]) {
        let text = [&args[2], b" cannot contain spaces, newlines or special characters."].concat();
        return Err(Error::new([b"ERR ", &text[..]].concat()));
    }
    cx.session.info.edit_details(|details| {
        let field = if is_name { &mut details.lib_name } else { &mut details.lib_ver };
        *field = args[3].to_vec();
    });
    cx.reply.ok();
    Ok(())
}

/// Nobody's invalidations go to another client.
fn get_redirection(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(-1);
    Ok(())
}

/// Capabilities that nothing here knows may come from a client of a newer server.
fn capa(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if (2..args.len()).any(|index| args.is(index, "redirect")) {
        cx.session.info.redirects.store(true, Relaxed);
    }
    cx.reply.ok();
    Ok(())
}

fn on_or_off(args: &Args<'_>) -> Result<bool, Error> {
    match () {
        () if args.is(2, "on") => Ok(true),
        () if args.is(2, "off") => Ok(false),
        () => Err(Error::SYNTAX),
    }
}

fn no_evict(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.session.info.no_evict.store(on_or_off(args)?, Relaxed);
    cx.reply.ok();
    Ok(())
}

fn no_touch(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let on = on_or_off(args)?;
    cx.session.no_touch = on;
    cx.session.info.no_touch.store(on, Relaxed);
    cx.reply.ok();
    Ok(())
}

/// The dispatcher takes the replies back.
fn reply(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
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
        return Err(Error::SYNTAX);
    }
    Ok(())
}

fn info(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let mut text = Vec::new();
    write_line(&mut text, &cx.session.info, cx.now_ms());
    cx.reply.verbatim(b"txt", &text);
    Ok(())
}

fn list(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut text = Vec::new();
    for client in chosen(cx, &Filter::parse(args, false, cx.engine.databases())?) {
        write_line(&mut text, &client, cx.now_ms());
    }
    cx.reply.verbatim(b"txt", &text);
    Ok(())
}

fn chosen(cx: &Cx<'_>, filter: &Filter) -> Vec<Arc<ClientInfo>> {
    let (me, now) = (cx.session.info.id, cx.now_ms());
    let mut clients = cx.engine.clients().all();
    clients.retain(|client| filter.admits(client, me, now));
    clients
}

fn kill(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    // One argument is an address, the form from before there were filters.
    if args.len() == 3 {
        let clients = cx.engine.clients().all();
        let found = clients.iter().find(|client| client.addr.as_bytes() == &args[2]);
        end(cx, found.ok_or(Error::text("ERR No such client"))?);
        cx.reply.ok();
        return Ok(());
    }
    let clients = chosen(cx, &Filter::parse(args, true, cx.engine.databases())?);
    for client in &clients {
        end(cx, client);
    }
    cx.reply.int(clients.len() as i64);
    Ok(())
}

/// A client is gone from the lists at once; its worker closes the connection when it comes to it.
fn end(cx: &mut Cx<'_>, client: &ClientInfo) {
    if client.id == cx.session.info.id {
        cx.flow = Flow::Close;
    } else {
        cx.engine.clients().remove(client.id);
        cx.engine.host().kill(client.worker, client.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch;
    use crate::session::Session;
    use crate::testing::Client;
    use resp::Reply;

    fn connect(client: &Client, addr: &str) -> u64 {
        let clients = client.engine().clients();
        let info = ClientInfo::new(clients.next_id(), addr, "127.0.0.1:6379", 7, 0, client.now_ms() - 5000);
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
