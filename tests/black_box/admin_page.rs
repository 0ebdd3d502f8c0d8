//! The page of the admin plane from outside: its clients, the rights of commands through it, and its content when no
//! client is admitted.

use crate::admin::{ADA_SECRET, Answer, Watched};
use crate::harness::{eventually, is_peer};
use std::io::Read;
use std::net::TcpStream;

const HOST: &str = "Host: 127.0.0.1\r\n";

/// Sends commands as the page does.
fn command(watched: &Watched, head: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::of(&watched.converse(&format!(
        "POST /command HTTP/1.1\r\n{HOST}Content-Type: application/json\r\nContent-Length: {length}\r\n{head}\r\n{body}"
    )))
}

fn get(watched: &Watched, path: &str, head: &str) -> Answer {
    Answer::of(&watched.converse(&format!("GET {path} HTTP/1.1\r\n{HOST}{head}\r\n")))
}

fn as_ada() -> String {
    format!("Authorization: Basic {ADA_SECRET}\r\n")
}

#[test]
fn the_page_is_one_small_answer_with_a_policy() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&[]);
    let page = get(&watched, "/", "");
    assert_eq!((page.status, page.body.len() < 100_000), (200, true));
    for header in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "content-type: text/html; charset=utf-8",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    assert!(!page.head.contains("unsafe"));
    let live = get(&watched, "/live", "");
    assert_eq!(live.status, 200);
    assert!(live.body.contains("\"user\":\"default\"") && live.body.contains("\"used_memory\":\""), "{}", live.body);
}

#[test]
fn commands_are_those_of_any_client() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&[]);
    let answer = command(
        &watched,
        "",
        r#"{"db":3,"commands":[["SET","k\u0000ÿ","v"],["GET","k\u0000ÿ"],["NOPE"],["CLIENT","LIST"]]}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(
        answer.body.starts_with(r#"{"replies":[{"status":"OK"},"v",{"error":"ERR unknown command 'NOPE'"#),
        "{}",
        answer.body
    );
    assert!(
        answer.body.contains(" addr=127.0.0.1:") && answer.body.contains(" db=3 ") && answer.body.contains(" resp=3")
    );
    let mut client = watched.server.client();
    let _: () = redis::cmd("SELECT").arg(3).query(&mut client).expect("a reply");
    let value: String = redis::cmd("GET").arg(b"k\0\xff").query(&mut client).expect("a value");
    assert_eq!(value, "v");
    let calls = get(&watched, "/metrics", "").number("redis_commands_total{cmd=\"set\"}");
    assert_eq!(calls, Some(1.0), "it is counted as any");
}

#[test]
fn rights_are_those_of_the_user() {
    if is_peer() {
        return;
    }
    let users = ["--user ada on >secret -@all +info +get +select %R~a*", "--user default off"];
    let words = users.iter().flat_map(|user| user.split(' '));
    let watched = Watched::start(&words.collect::<Vec<&str>>());
    let answer = command(&watched, &as_ada(), r#"{"commands":[["GET","a"],["GET","b"],["SET","a","b"]]}"#);
    assert!(answer.body.starts_with(r#"{"replies":[null,{"error":"NOPERM "#), "{}", answer.body);
    assert_eq!(answer.body.matches("NOPERM").count(), 2, "{}", answer.body);
    let live = get(&watched, "/live", &as_ada());
    assert!(live.body.contains("\"may\":[\"get\"]") && live.body.contains("\"user\":\"ada\""), "{}", live.body);
    for path in ["/", "/live"] {
        assert_eq!(get(&watched, path, "").status, 401);
    }
    assert_eq!(command(&watched, "", r#"{"commands":[["PING"]]}"#).status, 401);
}

#[test]
fn a_user_who_may_not_select_gets_nothing_from_the_wrong_database() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&"--user ada on >secret ~* +info +set -select".split(' ').collect::<Vec<&str>>());
    let answer = command(&watched, &as_ada(), r#"{"db":1,"commands":[["SET","k","v"]]}"#);
    assert_eq!(answer.status, 502, "{}", answer.body);
    assert!(answer.body.contains("NOPERM") && answer.body.contains("\"replies\":[]"), "{}", answer.body);
    let keys: i64 = redis::cmd("DBSIZE").query(&mut watched.server.client()).expect("a reply");
    assert_eq!(keys, 0);
}

#[test]
fn other_pages_and_other_names_are_refused() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--admin-host-names", "db1.example.org db2"]);
    let body = r#"{"commands":[["PING"]]}"#;
    let of = |head: &str| command(&watched, head, body).status;
    assert_eq!((of("Origin: http://127.0.0.1\r\n"), of("Sec-Fetch-Site: same-origin\r\n")), (200, 200));
    assert_eq!((of("Origin: http://evil.org\r\n"), of("Sec-Fetch-Site: cross-site\r\n")), (403, 403));
    let named = |name: &str| watched.converse(&format!("GET /live HTTP/1.1\r\nHost: {name}\r\n\r\n"));
    for (name, status) in
        [("db1.example.org:9121", 200), ("DB2", 200), ("evil.org", 421), ("localhost:1", 200), ("[::1]", 200)]
    {
        assert_eq!(Answer::of(&named(name)).status, status, "{name}");
    }
    let form = watched.converse(&format!(
        "POST /command HTTP/1.1\r\n{HOST}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(Answer::of(&form).status, 415);
}

#[test]
fn bodies_and_replies_are_bounded() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&[]);
    // A body that is announced as too large need not be sent.
    let announced =
        format!("POST /command HTTP/1.1\r\n{HOST}Content-Type: application/json\r\nContent-Length: 2000000\r\n\r\n{{");
    assert_eq!(Answer::of(&watched.converse(&announced)).status, 413);
    let mut client = watched.server.client();
    let _: () = redis::cmd("SETRANGE").arg("large").arg(5_000_000).arg("x").query(&mut client).expect("a reply");
    let answer = command(&watched, "", r#"{"commands":[["PING"],["GET","large"],["PING"]]}"#);
    assert_eq!(answer.status, 502);
    assert!(answer.body.contains("too large") && answer.body.contains("[{\"status\":\"PONG\"}]"), "{}", answer.body);
    for line in [r#"["BLPOP","k","0"]"#, r#"["SUBSCRIBE","c"]"#, r#"["MONITOR"]"#, r#"["CLIENT","REPLY","OFF"]"#] {
        let answer = command(&watched, "", &format!("{{\"commands\":[{line}]}}"));
        assert_eq!(answer.status, 422, "{line}");
    }
    assert!(eventually(|| watched.get("/metrics").number("redis_connected_clients") == Some(1.0)), "nothing is left");
}

#[test]
fn a_command_that_does_not_reply_in_time_is_given_up() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&[]);
    let mut client = watched.server.client();
    let _: () = redis::cmd("CLIENT").arg("PAUSE").arg(600_000).arg("WRITE").query(&mut client).expect("a reply");
    let answer = command(&watched, "", r#"{"commands":[["GET","k"],["SET","k","v"]]}"#);
    assert_eq!(answer.status, 504, "{}", answer.body);
    assert!(
        answer.body.contains("not replied in time") && answer.body.contains("\"replies\":[null]"),
        "{}",
        answer.body
    );
    assert!(
        eventually(|| watched.get("/metrics").number("redis_connected_clients") == Some(1.0)),
        "its client is gone"
    );
}

#[test]
fn numbers_come_when_no_client_is_let_in() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--maxclients", "2"]);
    let clients: Vec<TcpStream> = (0..2).map(|_| watched.server.socket()).collect();
    let full = || watched.get("/metrics").number("redis_connected_clients") == Some(2.0);
    assert!(eventually(full));
    let answer = command(&watched, "", r#"{"commands":[["PING"]]}"#);
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("max number of clients reached"), "{}", answer.body);
    assert_eq!(get(&watched, "/live", "").status, 200);
    assert_eq!(get(&watched, "/", "").status, 200);
    drop(clients);
    assert!(eventually(|| command(&watched, "", r#"{"commands":[["PING"]]}"#).status == 200));
}

#[test]
fn numbers_come_while_a_script_runs_away() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--busy-reply-threshold", "100", "--threads", "1"]);
    let mut busy = watched.server.socket();
    crate::harness::send(&mut busy, b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n");
    let told = || command(&watched, "", r#"{"commands":[["GET","k"]]}"#).body.contains("BUSY");
    assert!(eventually(told));
    assert_eq!(get(&watched, "/live", "").status, 200);
    let killed = command(&watched, "", r#"{"commands":[["SCRIPT","KILL"]]}"#);
    assert!(killed.body.contains("OK"), "{}", killed.body);
    let mut reply = [0; 4];
    busy.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"-ERR");
}
