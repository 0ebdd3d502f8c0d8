//! Writes that are acknowledged by replicas: processes that follow each other, one of which stands still or is gone.

use crate::dialogue::ask;
use crate::harness::{Server, bytes_of, eventually, expect_bytes, free_port, is_peer, owned, send};
use redis::Connection;

const OPTIONS: [&str; 8] = [
    "--min-replicas-to-acknowledge",
    "1",
    "--acknowledge-timeout",
    "400",
    "--acknowledge-lease",
    "300",
    "--repl-diskless-sync-delay",
    "0",
];

const OPEN: &str = "-UNACKNOWLEDGED Not enough replicas have confirmed what this tells of. The outcome is open: it may be \
                    kept or lost";

/// A field of INFO replication.
fn told(client: &mut Connection, field: &str) -> Option<String> {
    let info: String = redis::cmd("INFO").arg("replication").query(client).expect("INFO");
    info.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned()))
}

fn follow(replica: &Server, primary: &Server) {
    let order = format!("REPLICAOF 127.0.0.1 {}", primary.port);
    // One that has begun anew may be loading.
    assert!(eventually(|| ask(&mut replica.client(), &order) == "OK"));
}

/// A primary with so many replicas, all of which are in its set.
fn group(replicas: usize, options: &[&str]) -> (Server, Vec<Server>) {
    let options = [&OPTIONS[..], options].concat();
    let primary = Server::start(&options);
    let replicas: Vec<Server> = (0..replicas).map(|_| Server::start(&options)).collect();
    replicas.iter().for_each(|replica| follow(replica, &primary));
    expect_members(&primary, replicas.len());
    (primary, replicas)
}

fn expect_members(primary: &Server, count: usize) {
    let mut client = primary.client();
    let are_members = || told(&mut client, "in_sync_members").is_some_and(|ids| ids.split(',').count() == count);
    assert!(eventually(are_members), "the replicas are not in sync");
    // It is the first one, or the lease of the one before has ended.
    assert!(eventually(|| ask(&mut client, "SET settled 1") == "OK"));
}

#[test]
fn a_reply_waits_for_one_of_the_replicas() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(2, &[]);
    let mut client = primary.client();
    assert_eq!(ask(&mut client, "SET k 1"), "OK");
    replicas[0].signal("STOP");
    assert_eq!([ask(&mut client, "SET k 2"), ask(&mut client, "GET k")], ["OK", "\"2\""]);
    replicas[1].signal("STOP");
    assert_eq!(ask(&mut client, "SET k 3"), OPEN);
    assert_eq!(ask(&mut client, "GET k"), OPEN);
    assert_eq!([ask(&mut client, "PING"), ask(&mut client, "CLIENT ACKNOWLEDGE 0")], ["PONG", "OK"]);
    assert_eq!(ask(&mut client, "GET k"), "\"3\"");
    for replica in &replicas {
        replica.signal("CONT");
    }
    assert_eq!(ask(&mut client, "CLIENT ACKNOWLEDGE 2"), "OK");
    assert!(eventually(|| ask(&mut client, "SET k 4") == "OK"));
    for replica in &replicas {
        let mut reader = replica.client();
        assert_eq!(ask(&mut reader, "GET k"), "\"4\"", "it is there before the reply is");
        // The set may have been changed without it while it stood still.
        assert!(eventually(|| told(&mut reader, "in_sync_state").as_deref() == Some("in-sync")));
    }
}

#[test]
fn a_reply_waits_for_what_its_client_had_asked_for_when_its_command_ran() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(1, &[]);
    assert_eq!(ask(&mut primary.client(), "CONFIG SET min-replicas-to-acknowledge 0"), "OK");
    for order in ["CLIENT ACKNOWLEDGE 0\r\n", "RESET\r\n"] {
        let mut socket = primary.socket();
        send(&mut socket, b"CLIENT ACKNOWLEDGE 1\r\n");
        expect_bytes(&mut socket, b"+OK\r\n");
        send(&mut socket, b"SET k 0\r\n");
        expect_bytes(&mut socket, b"+OK\r\n");
        replicas[0].signal("STOP");
        send(&mut socket, format!("SET k 1\r\n{order}").as_bytes());
        expect_bytes(&mut socket, format!("{OPEN}\r\n").as_bytes());
        replicas[0].signal("CONT");
        let mut client = primary.client();
        assert_eq!(ask(&mut client, "CLIENT ACKNOWLEDGE 1"), "OK");
        assert!(eventually(|| ask(&mut client, "SET settled 1") == "OK"));
    }
}

#[test]
fn a_silent_member_is_named_and_may_be_struck_off() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(1, &[]);
    let mut client = primary.client();
    replicas[0].signal("STOP");
    assert!(eventually(|| told(&mut client, "in_sync_state").as_deref() == Some("blocked")));
    let missing = told(&mut client, "in_sync_missing0").expect("a member that is missing");
    let id = missing.split(['=', ',']).nth(1).expect("its name").to_owned();
    assert!(missing.contains("addr=127.0.0.1:"), "{missing}");
    assert_eq!(ask(&mut client, &format!("CLIENT STRIKE {id}")), "OK");
    replicas[0].signal("CONT");
    assert!(eventually(|| ask(&mut client, "SET k 1") == "OK"));
}

#[test]
fn a_server_that_is_not_asked_any_more_leads_its_replicas_after_a_crash() {
    if is_peer() {
        return;
    }
    let options = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
    let (mut primary, replica) = (Server::start(&options), Server::start(&options));
    follow(&replica, &primary);
    let mut client = primary.client();
    assert!(eventually(|| told(&mut client, "connected_slaves").as_deref() == Some("1")));
    assert_eq!(ask(&mut client, "CLIENT ACKNOWLEDGE 1"), "OK");
    assert!(eventually(|| ask(&mut client, "SET k 1") == "OK"));
    drop(client);
    primary.crash();
    let mut client = primary.client();
    assert_eq!(ask(&mut client, "SET k 2"), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "GET k") == "\"2\""), "its replica is not refused");
    assert_eq!(ask(&mut client, "CLIENT ACKNOWLEDGE 1"), "OK");
    assert!(eventually(|| ask(&mut client, "SET k 3") == "OK"), "and counts again");
}

#[test]
fn orders_of_a_node_tell_of_no_data_and_wait_for_no_replica() {
    if is_peer() {
        return;
    }
    let bus = free_port().to_string();
    let server = Server::start(&[&OPTIONS[..], &["--cluster-enabled", "yes", "--cluster-port", &bus]].concat());
    let mut client = server.client();
    let orders = ["SET-CONFIG-EPOCH 3", "ADDSLOTSRANGE 0 16383", "MEET 127.0.0.1 1", "SETSLOT 1 STABLE", "SAVECONFIG"];
    for order in orders {
        assert_eq!(ask(&mut client, &format!("CLUSTER {order}")), "OK", "{order}");
    }
    assert!(eventually(|| ask(&mut client, "SET k 1") == OPEN));
    assert_eq!(ask(&mut client, "GET k"), OPEN);
    assert_eq!(ask(&mut client, "CLUSTER FLUSHSLOT 7629"), OPEN, "the slot had a key");
    assert!(server.stop().success());
}

#[test]
fn commands_that_touch_no_data_wait_for_no_replica_whichever_thread_replies() {
    if is_peer() {
        return;
    }
    let server = Server::start_with(|folder, port| {
        let config = folder.write("server.conf", &format!("port {port}\nsave \"\"\naclfile users.acl\n"));
        folder.write("users.acl", "");
        [owned(&[&config.to_string_lossy()]), owned(&OPTIONS)].concat()
    });
    let mut client = server.client();
    assert!(eventually(|| ask(&mut client, "SET k 1") == OPEN));
    let orders =
        ["ACL SAVE", "ACL LOAD", "CONFIG REWRITE", "CONFIG RESETSTAT", "SAVE", "CLIENT KILL TYPE pubsub", "WAIT 0 1"];
    for order in orders {
        let reply = ask(&mut client, order);
        assert!(reply == "OK" || reply.parse::<u32>().is_ok(), "{order}: {reply}");
    }
    assert_eq!(ask(&mut client, "WAIT 1 1"), "0", "a wait in vain tells the number of replicas");
    for queued in ["CONFIG REWRITE", "CLIENT KILL TYPE pubsub", "CLIENT UNPAUSE"] {
        assert_eq!([ask(&mut client, "MULTI"), ask(&mut client, queued)], ["OK", "QUEUED"]);
        let reply = ask(&mut client, "EXEC");
        assert_ne!(reply, OPEN, "{queued} in a transaction");
    }
    assert_eq!(ask(&mut client, "GET k"), OPEN);
    assert!(server.stop().success());
}

#[test]
fn replies_stay_in_order_and_others_are_served_meanwhile() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(1, &[]);
    replicas[0].signal("STOP");
    let mut socket = primary.socket();
    send(&mut socket, b"MULTI\r\nSET k 1\r\nEXEC\r\nPING\r\n");
    let mut other = primary.client();
    assert_eq!(ask(&mut other, "CLIENT ACKNOWLEDGE 0"), "OK");
    assert!(eventually(|| ask(&mut other, "GET k") == "\"1\""), "the worker goes on");
    // Another tick's, which waits for nothing itself.
    send(&mut socket, b"ECHO x\r\n");
    let mut replies = String::new();
    while !replies.ends_with("$1\r\nx\r\n") {
        replies.push(char::from(bytes_of(&mut socket, 1)[0]));
    }
    // A worker with much to do may have written before EXEC ran: such replies contain no change.
    let told =
        replies.strip_prefix("+OK\r\n").map_or(&*replies, |rest| rest.strip_prefix("+QUEUED\r\n").unwrap_or(rest));
    let before = ["+OK\r\n", "+QUEUED\r\n"].iter().filter(|reply| replies.contains(**reply)).count();
    assert_eq!(told, format!("{OPEN}\r\n").repeat(4 - before) + "$1\r\nx\r\n");
    replicas[0].signal("CONT");
    let mut client = primary.client();
    assert!(eventually(|| ask(&mut client, "SET k 2") == "OK"));
    send(&mut socket, b"BLPOP l 0\r\nPING\r\n");
    assert_eq!(ask(&mut client, "RPUSH l v"), "1");
    expect_bytes(&mut socket, b"*2\r\n$1\r\nl\r\n$1\r\nv\r\n+PONG\r\n");
}

#[test]
fn durable_ones_wait_for_the_disk_of_a_replica() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(1, &["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = primary.client();
    assert_eq!(ask(&mut client, "CLIENT ACKNOWLEDGE 1 DURABLE"), "OK");
    assert!(eventually(|| ask(&mut client, "SET k 1") == "OK"));
    assert_eq!(ask(&mut replicas[0].client(), "CONFIG SET appendonly no"), "OK");
    assert_eq!(ask(&mut client, "SET k 2"), OPEN);
    assert_eq!([ask(&mut client, "CLIENT ACKNOWLEDGE 1"), ask(&mut client, "SET k 3")], ["OK", "OK"]);
}

#[test]
fn acknowledged_writes_survive_the_primary_which_does_not_come_back_as_one() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(2, &[]);
    let mut client = primary.client();
    let acknowledged = (0..100).take_while(|n| ask(&mut client, &format!("SET k {n}")) == "OK").count();
    assert_eq!(acknowledged, 100);
    primary.signal("STOP");
    let offset =
        |replica: &Server| told(&mut replica.client(), "slave_repl_offset").map(|text| text.parse::<u64>().ok());
    let best = usize::from(offset(&replicas[1]) > offset(&replicas[0]));
    let (new, other) = (&replicas[best], &replicas[1 - best]);
    assert_eq!(ask(&mut new.client(), "REPLICAOF NO ONE"), "OK");
    // Alone it does not know whether the other one has more.
    assert_eq!(ask(&mut new.client(), "GET k"), OPEN);
    assert!(eventually(|| told(&mut new.client(), "in_sync_state").as_deref() == Some("unconfirmed")));
    follow(other, new);
    let mut client = new.client();
    assert!(eventually(|| ask(&mut client, "GET k") == "\"99\""));
    assert_eq!(ask(&mut client, "SET k 100"), "OK");
    primary.signal("CONT");
    let mut old = primary.client();
    assert_eq!([ask(&mut old, "SET k x"), ask(&mut old, "GET k")], [OPEN, OPEN], "it has been replaced");
    follow(&primary, new);
    expect_members(new, 2);
    assert!(eventually(|| ask(&mut old, "GET k") == "\"100\""));
}

#[test]
fn a_primary_that_has_forgotten_is_not_followed() {
    if is_peer() {
        return;
    }
    let (mut primary, replicas) = group(1, &["--save", ""]);
    assert_eq!(ask(&mut primary.client(), "SET k 1"), "OK");
    primary.restart();
    let mut old = primary.client();
    assert_eq!(ask(&mut old, "SET k 2"), OPEN);
    let mut kept = replicas[0].client();
    assert_eq!(ask(&mut kept, "GET k"), "\"1\"");
    assert_eq!(ask(&mut kept, "CONFIG SET replica-may-lose-acknowledged yes"), "OK");
    assert!(eventually(|| ask(&mut kept, "GET k") == "\"2\""), "an operator has decided");
    assert_eq!(ask(&mut old, "CONFIG SET replica-may-lose-acknowledged yes"), "OK");
    assert!(eventually(|| ask(&mut old, "SET k 3") == "OK"));
}

/// Ends a server as SIGTERM does, so that it can be restarted.
fn shut_down(server: &Server) {
    server.signal("TERM");
    let stat = format!("/proc/{}/stat", server.pid());
    assert!(eventually(|| std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z "))), "it goes on");
}

#[test]
fn a_primary_that_is_not_asked_any_more_is_blocked_by_nobody() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(1, &[]);
    let mut client = primary.client();
    let state = |client: &mut Connection| told(client, "in_sync_state").unwrap();
    assert_eq!(ask(&mut client, "CONFIG SET min-replicas-to-acknowledge 0"), "OK");
    replicas[0].signal("STOP");
    assert!(eventually(|| state(&mut client) == "off"));
    assert_eq!(ask(&mut client, "SET k 1"), "OK");
    assert_eq!(ask(&mut client, "CONFIG SET min-replicas-to-acknowledge 1"), "OK");
    assert!(eventually(|| state(&mut client) == "blocked"));
    assert_eq!(ask(&mut client, "SET k 2"), OPEN);
    replicas[0].signal("CONT");
    assert!(eventually(|| ask(&mut client, "SET k 3") == "OK"));
    assert!(eventually(|| state(&mut client) == "open"));
}

#[test]
fn writers_do_not_wait_for_a_replica_that_was_asked_to_take_over_and_stands_still() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(1, &[]);
    let mut client = primary.client();
    replicas[0].signal("STOP");
    let order = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 10", replicas[0].port);
    assert_eq!(ask(&mut client, &order), "OK");
    assert!(eventually(|| told(&mut client, "master_failover_state").as_deref() == Some("failover-in-progress")));
    assert_eq!(ask(&mut client, "SET k 1"), "-READONLY You can't write against a read only replica.");
    replicas[0].signal("CONT");
}

/// Makes the first replica the primary, by an order to the old one.
fn hand_over(primary: &Server, replica: &Server) {
    let order = format!("FAILOVER TO 127.0.0.1 {}", replica.port);
    assert_eq!(ask(&mut primary.client(), &order), "OK");
    assert!(eventually(|| told(&mut replica.client(), "role").as_deref() == Some("master")));
    let ends = || told(&mut primary.client(), "master_failover_state").as_deref() == Some("no-failover");
    assert!(eventually(ends));
}

#[test]
fn a_replica_that_a_role_is_handed_to_acknowledges_before_third_servers_are_told() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(2, &[]);
    hand_over(&primary, &replicas[0]);
    let mut client = replicas[0].client();
    assert!(eventually(|| ask(&mut client, "SET k 1") == "OK"));
    assert_eq!(told(&mut replicas[1].client(), "master_port"), Some(primary.port.to_string()));
    assert!(
        eventually(|| ask(&mut replicas[1].client(), "GET k") == "\"1\""),
        "it gets the stream by way of the old one"
    );
    // The third one takes the place of the old primary in the set.
    primary.signal("KILL");
    follow(&replicas[1], &replicas[0]);
    assert!(eventually(|| ask(&mut client, "SET k 2") == "OK"));
}

#[test]
fn a_third_server_that_died_before_it_was_told_of_a_hand_over_is_shown_and_may_be_struck_off() {
    if is_peer() {
        return;
    }
    // It is a member for as long as a silence, however slow the machine is.
    let (primary, replicas) = group(2, &["--acknowledge-lease", "1500"]);
    let third = told(&mut replicas[1].client(), "in_sync_id").expect("its name");
    replicas[1].signal("STOP");
    hand_over(&primary, &replicas[0]);
    replicas[1].signal("KILL");
    let mut client = replicas[0].client();
    assert!(eventually(|| ask(&mut client, "SET k 1") == "OK"));
    assert!(
        eventually(|| told(&mut client, "in_sync_untold0").is_some()),
        "{:?}",
        told(&mut client, "in_sync_members")
    );
    let shown = told(&mut client, "in_sync_untold0").unwrap();
    assert!(shown.starts_with(&format!("id={third},addr=unknown,seconds=")), "{shown}");
    let log = || replicas[0].folder.read("stdout");
    assert!(eventually(|| log().contains(&format!("send CLIENT STRIKE {third} on this server"))), "{}", log());
    assert_eq!(ask(&mut client, &format!("CLIENT STRIKE {third}")), "OK");
    let is_member = |client: &mut Connection| told(client, "in_sync_members").is_some_and(|ids| ids.contains(&third));
    assert!(eventually(|| !is_member(&mut client) && told(&mut client, "in_sync_untold0").is_none()));
}

#[test]
fn a_primary_leads_again_when_the_replica_that_it_handed_its_role_to_is_killed() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(2, &[]);
    hand_over(&primary, &replicas[0]);
    replicas[0].signal("KILL");
    assert!(eventually(|| ask(&mut primary.client(), "REPLICAOF NO ONE") == "OK"));
    assert!(eventually(|| ask(&mut primary.client(), "SET k 1") == "OK"));
}

/// The first member that a primary waits for: its name.
fn missing(client: &mut Connection) -> Option<String> {
    let line = told(client, "in_sync_missing0")?;
    Some(line.strip_prefix("id=")?.split(',').next()?.to_owned())
}

#[test]
fn the_only_replica_is_killed_and_comes_back_and_writes_go_on() {
    if is_peer() {
        return;
    }
    let (primary, mut replicas) = group(1, &[]);
    let mut client = primary.client();
    assert_eq!([ask(&mut client, "SET k 1"), told(&mut client, "in_sync_state").unwrap()], ["OK", "open"]);
    replicas[0].restart_after(|_| {
        assert!(eventually(|| told(&mut client, "in_sync_state").as_deref() == Some("blocked")));
        assert!(eventually(|| missing(&mut client).is_some()));
        assert_eq!(ask(&mut client, "SET k 2"), OPEN);
    });
    follow(&replicas[0], &primary);
    assert!(eventually(|| ask(&mut client, "SET k 3") == "OK"));
    assert_eq!(missing(&mut client), None);
    replicas[0].restart();
    replicas[0].restart();
    follow(&replicas[0], &primary);
    assert!(eventually(|| ask(&mut client, "SET k 4") == "OK"));
    assert!(eventually(|| ask(&mut replicas[0].client(), "GET k") == "\"4\""));
}

#[test]
fn a_member_that_never_comes_back_is_struck_off() {
    if is_peer() {
        return;
    }
    let (primary, replicas) = group(1, &[]);
    let mut client = primary.client();
    assert!(ask(&mut client, "CLIENT STRIKE 0123").starts_with("-ERR No such member"));
    replicas.into_iter().for_each(|replica| _ = replica.stop());
    let other = Server::start(&OPTIONS);
    follow(&other, &primary);
    assert!(eventually(|| missing(&mut client).is_some()), "it is waited for");
    assert_eq!(ask(&mut client, "SET k 1"), OPEN);
    let id = missing(&mut client).unwrap();
    let order = format!("CLIENT STRIKE {id} on this server: if a member is promoted after that, all writes");
    let is_back = format!(
        "is back by another name. Start these members, or, if they will never return with their data, \
                           send {order}"
    );
    assert!(eventually(|| primary.folder.read("stdout").contains(&is_back)), "{}", primary.folder.read("stdout"));
    assert!(ask(&mut other.client(), &format!("CLIENT STRIKE {id}")).starts_with("-ERR This server may lack"));
    assert_eq!(ask(&mut client, &format!("CLIENT STRIKE {id}")), "OK");
    assert!(eventually(|| ask(&mut client, "SET k 2") == "OK"));
}

#[test]
fn a_primary_that_was_shut_down_goes_on_and_so_does_a_promoted_replica_that_was() {
    if is_peer() {
        return;
    }
    let (mut primary, mut replicas) = group(1, &["--save", "3600 1"]);
    assert_eq!(ask(&mut primary.client(), "SET k 1"), "OK");
    shut_down(&primary);
    primary.restart();
    let mut client = primary.client();
    assert!(eventually(|| ask(&mut client, "SET k 2") == "OK"), "{:?}", told(&mut client, "in_sync_state"));
    assert_eq!(ask(&mut client, "GET k"), "\"2\"");
    // All end, and the replica is promoted: it has what was acknowledged.
    let mut kept = replicas.remove(0);
    [&kept, &primary].into_iter().for_each(shut_down);
    kept.restart();
    primary.restart();
    assert_eq!(ask(&mut kept.client(), "REPLICAOF NO ONE"), "OK");
    follow(&primary, &kept);
    let mut client = kept.client();
    assert!(eventually(|| ask(&mut client, "SET k 3") == "OK"), "{:?}", told(&mut client, "in_sync_state"));
}

/// Options of servers whose only copy on the disk is a log.
const LOGGED: [&str; 2] = ["--appendonly", "yes"];

/// A primary and its replica, which follows by its configuration, after so many acknowledged writes.
fn logged_pair(writes: usize, options: &[&str]) -> (Server, Server) {
    let options = [&OPTIONS[..], &LOGGED, options].concat();
    let primary = Server::start(&options);
    let address = format!("127.0.0.1 {}", primary.port);
    let replica = Server::start(&[&options[..], &["--replicaof", &address]].concat());
    expect_members(&primary, 1);
    let mut client = primary.client();
    let acknowledged = (0..writes).take_while(|n| ask(&mut client, &format!("SET k{n} {n}")) == "OK").count();
    assert_eq!(acknowledged, writes);
    // A replica continues in the database that the stream has selected.
    assert_eq!([ask(&mut client, "SELECT 5"), ask(&mut client, "SET k five")], ["OK", "OK"]);
    (primary, replica)
}

fn expect_writes(primary: &Server, writes: usize) {
    let mut client = primary.client();
    let goes_on = || ask(&mut client, "SET more 1") == "OK";
    assert!(eventually(goes_on), "{:?}", told(&mut primary.client(), "in_sync_state"));
    for n in 0..writes {
        assert_eq!(ask(&mut client, &format!("GET k{n}")), format!("\"{n}\""));
    }
    assert_eq!([ask(&mut client, "SELECT 5"), ask(&mut client, "GET k")], ["OK", "\"five\""]);
}

#[test]
fn servers_with_logs_that_are_all_shut_down_serve_again_by_themselves() {
    if is_peer() {
        return;
    }
    // The log is rewritten again and again, also when the servers end.
    let rewrites = ["--auto-aof-rewrite-min-size", "1", "--auto-aof-rewrite-percentage", "1"];
    let (mut primary, mut replica) = logged_pair(100, &rewrites);
    for round in 0..2 {
        [&replica, &primary].iter().for_each(|server| server.signal("TERM"));
        [&replica, &primary].into_iter().for_each(shut_down);
        primary.restart();
        replica.restart();
        expect_writes(&primary, 100);
        assert!(eventually(|| told(&mut replica.client(), "in_sync_state").as_deref() == Some("in-sync")), "{round}");
        assert!(eventually(|| ask(&mut replica.client(), "GET more") == "\"1\""));
        assert_eq!(told(&mut primary.client(), "in_sync_missing0"), None);
    }
    // The replica has all of it, too.
    [&primary, &replica].into_iter().for_each(shut_down);
    replica.restart();
    primary.restart();
    assert!(eventually(|| ask(&mut replica.client(), "REPLICAOF NO ONE") == "OK"));
    follow(&primary, &replica);
    expect_writes(&replica, 100);
}

/// The promoted server has read its history from its files, and has not followed any server since.
#[test]
fn a_replica_is_promoted_before_it_has_a_link_after_all_servers_were_shut_down() {
    if is_peer() {
        return;
    }
    let (mut primary, mut first) = logged_pair(10, &[]);
    let options = [&OPTIONS[..], &LOGGED].concat();
    let address = format!("127.0.0.1 {}", primary.port);
    let mut second = Server::start(&[&options[..], &["--replicaof", &address]].concat());
    expect_members(&primary, 2);
    [&primary, &first, &second].into_iter().for_each(shut_down);
    first.restart();
    assert!(eventually(|| ask(&mut first.client(), "REPLICAOF NO ONE") == "OK"));
    primary.restart();
    second.restart();
    [&primary, &second].into_iter().for_each(|server| follow(server, &first));
    expect_writes(&first, 10);
}

/// Starts a server again after the end of its log has been cut off.
fn restart_with_shorter_log(server: &mut Server) {
    server.restart_after(|folder| {
        let manifest = folder.read("appendonlydir/appendonly.aof.manifest");
        let last = manifest.lines().last().and_then(|line| line.split(' ').nth(1)).expect("a file of changes");
        let log = format!("appendonlydir/{last}");
        let text = folder.read(&log);
        let last_command = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\nfive\r\n";
        folder.write(&log, text.strip_suffix(last_command).expect("the last command"));
    });
}

#[test]
fn a_server_whose_log_is_not_that_of_the_shutdown_acknowledges_nothing() {
    if is_peer() {
        return;
    }
    let (mut primary, mut replica) = logged_pair(10, &[]);
    [&replica, &primary].into_iter().for_each(shut_down);
    restart_with_shorter_log(&mut primary);
    replica.restart();
    let mut client = primary.client();
    assert!(eventually(|| told(&mut client, "in_sync_state").as_deref() == Some("unconfirmed")));
    assert_eq!(ask(&mut client, "GET k0"), OPEN);
    let mut kept = replica.client();
    assert!(eventually(|| ask(&mut kept, "GET k9") == "\"9\""), "the replica keeps its data from it");
    assert_eq!(ask(&mut client, "GET k0"), OPEN);
    // The replica's log is that of the shutdown.
    assert!(eventually(|| ask(&mut kept, "REPLICAOF NO ONE") == "OK"));
    follow(&primary, &replica);
    expect_writes(&replica, 10);
}

#[test]
fn servers_whose_logs_have_both_changed_wait_for_an_operator() {
    if is_peer() {
        return;
    }
    let (mut primary, mut replica) = logged_pair(10, &[]);
    [&replica, &primary].into_iter().for_each(shut_down);
    restart_with_shorter_log(&mut primary);
    restart_with_shorter_log(&mut replica);
    let mut client = primary.client();
    assert!(eventually(|| told(&mut client, "in_sync_state").as_deref() == Some("unconfirmed")));
    assert_eq!([ask(&mut client, "GET k0"), ask(&mut client, "SET k0 x")], [OPEN, OPEN]);
    assert_eq!(ask(&mut client, "CONFIG SET replica-may-lose-acknowledged yes"), "OK");
    assert!(eventually(|| ask(&mut client, "SET k0 y") == "OK"), "{:?}", told(&mut client, "in_sync_state"));
}
