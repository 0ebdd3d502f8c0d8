//! Quotas: a client that uses more than its user may waits or is refused, all of its work is done in the end, and no
//! other client waits.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, eventually, expect_bytes, on_each_thread_count, read_to_close, send};
use redis::Connection;
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn admin(server: &Server) -> Connection {
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "ACL SETUSER admin on nopass ~* &* +@all"), "OK");
    assert_eq!(ask(&mut admin, "AUTH admin x"), "OK");
    admin
}

fn set(admin: &mut Connection, user: &str, rules: &str) {
    assert_eq!(ask(admin, &format!("ACL SETUSER {user} on nopass ~* &* +@all {rules}")), "OK");
}

fn logged_in(server: &Server, user: &str) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, format!("AUTH {user} x\r\n").as_bytes());
    expect_bytes(&mut socket, b"+OK\r\n");
    socket
}

#[test]
fn a_pipeline_waits_for_its_quota_and_others_do_not() {
    on_each_thread_count(&[], |server| {
        let mut admin = admin(server);
        set(&mut admin, "slow", "quota:ops=100");
        let mut sockets: Vec<TcpStream> = (0..4).map(|_| logged_in(server, "slow")).collect();
        assert_eq!(ask(&mut admin, "SET n 0"), "OK");
        // Together more than they may use at once.
        let (each, began) = (40, Instant::now());
        for socket in &mut sockets {
            send(socket, "INCR n\r\n".repeat(each).as_bytes());
        }
        loop {
            let done: usize = ask(&mut admin, "GET n").trim_matches('"').parse().expect("a number");
            let may_be_done = 101 + began.elapsed().as_millis() as usize / 10;
            assert!(done <= may_be_done, "{done} of {may_be_done}");
            if done == 4 * each {
                break;
            }
        }
        for socket in &mut sockets {
            send(socket, b"QUIT\r\n");
            let replies = read_to_close(socket);
            assert_eq!(replies.lines().filter(|line| line.starts_with(':')).count(), each, "{replies}");
        }
        assert!(ask(&mut admin, "ACL LIST").contains("quota:ops=100"));
        assert!(ask(&mut admin, "ACL GETUSER slow").contains("quota:ops=100"));
    });
}

#[test]
fn a_client_that_connects_anew_has_no_more_than_others() {
    on_each_thread_count(&[], |server| {
        let mut admin = admin(server);
        set(&mut admin, "slow", "quota:ops=100 quota:bytes=1mb");
        let began = Instant::now();
        for _ in 0..6 {
            let mut socket = server.socket();
            send(&mut socket, format!("AUTH slow x\r\n{}QUIT\r\n", "INCR n\r\n".repeat(50)).as_bytes());
            assert!(read_to_close(&mut socket).ends_with("+OK\r\n"));
        }
        assert_eq!(ask(&mut admin, "GET n"), "\"300\"");
        // It had a second's worth at once.
        assert!(began.elapsed() > Duration::from_millis(1900), "{:?}", began.elapsed());
    });
}

#[test]
fn long_replies_are_paid_for_before_the_next_command_runs() {
    on_each_thread_count(&[], |server| {
        let mut admin = admin(server);
        set(&mut admin, "slow", "quota:bytes=100kb");
        assert_eq!(ask(&mut admin, &format!("SETRANGE long {} x", (150 << 10) - 1)), (150 << 10).to_string());
        let mut socket = logged_in(server, "slow");
        send(&mut socket, b"GET long\r\nINCR n\r\n");
        let began = Instant::now();
        assert!(eventually(|| ask(&mut admin, "GET n") == "\"1\""));
        // It had a second's worth at once.
        assert!(began.elapsed() > Duration::from_millis(400), "{:?}", began.elapsed());
        // Without a quota it continues at once.
        set(&mut admin, "slow", "resetquota");
        send(&mut socket, b"INCR n\r\n");
        assert!(eventually(|| ask(&mut admin, "GET n") == "\"2\""));
    });
}

#[test]
fn a_user_has_so_many_connections_and_a_closed_one_is_none() {
    on_each_thread_count(&[], |server| {
        let mut admin = admin(server);
        set(&mut admin, "few", "quota:connections=3");
        let mut sockets: Vec<TcpStream> = (0..3).map(|_| logged_in(server, "few")).collect();
        let mut late = server.client();
        let refused = ask(&mut late, "AUTH few x");
        assert!(refused.starts_with("-QUOTA "), "{refused}");
        sockets.pop();
        assert!(eventually(|| ask(&mut late, "AUTH few x") == "OK"));
        assert_eq!(ask_integer(&mut admin, "CLIENT KILL USER few"), 3);
        sockets.clear();
        assert!(eventually(|| {
            let mut client = server.client();
            ask(&mut client, "AUTH few x") == "OK"
        }));
    });
}

#[test]
fn keys_of_a_prefix_stop_growing_and_go_on_when_there_is_room() {
    on_each_thread_count(&[], |server| {
        let mut admin = admin(server);
        set(&mut admin, "app", "quota:memory:app:=100kb");
        let mut app = server.client();
        assert_eq!(ask(&mut app, "AUTH app x"), "OK");
        let mut n = 0;
        let full = eventually(|| {
            n += 1;
            ask(&mut app, &format!("SET app:{n} {}", "x".repeat(1000))).starts_with("-QUOTA ")
        });
        assert!(full, "after {n}");
        assert_eq!(ask(&mut app, "SET other v"), "OK");
        assert!(ask(&mut app, "LPUSH app:list x").starts_with("-QUOTA "));
        assert!(ask(&mut app, "EVAL return(redis.call('set',KEYS[1],'x')) 1 app:1").starts_with("-QUOTA "));
        assert_eq!(ask(&mut admin, "SET app:admin v"), "OK");
        assert!(ask_integer(&mut app, "DELPREFIX app:") >= 100);
        assert!(eventually(|| ask(&mut app, "SET app:1 v") == "OK"));
    });
}

#[test]
fn quotas_outlast_a_restart() {
    let mut server = Server::start_with(|folder, port| {
        folder.write("users.acl", "user default on nopass ~* &* +@all\n");
        let acl = folder.path().join("users.acl");
        vec!["--port".to_owned(), port.to_string(), "--aclfile".to_owned(), acl.display().to_string()]
    });
    let mut client = server.client();
    set(&mut client, "app", "quota:ops=5k quota:memory:a=b:=1mb");
    let list = ask(&mut client, "ACL LIST");
    assert!(list.contains("quota:ops=5000 quota:memory:a=b:=1048576"), "{list}");
    assert_eq!(ask(&mut client, "ACL SAVE"), "OK");
    server.restart();
    let mut client = server.client();
    assert_eq!(ask(&mut client, "ACL LIST"), list);
    assert!(ask(&mut client, "ACL SETUSER app quota:ops=many").contains("Error in ACL SETUSER modifier"));
    assert_eq!(ask(&mut client, "ACL LIST"), list);
}
