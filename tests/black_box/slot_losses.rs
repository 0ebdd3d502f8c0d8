//! A node that loses slots while it cannot remove their keys.

use crate::dialogue::ask;
use crate::harness::{eventually, expect_bytes, is_peer, send};
use crate::stopped_nodes::two_nodes;

/// The script holds a lock that the removal of any slot's keys has to pass.
#[test]
fn clients_that_wait_and_messages_do_not_wait_for_keys_that_go() {
    if is_peer() {
        return;
    }
    let [node, other] = two_nodes();
    let (mut client, mut taker) = (node.client(), other.client());
    assert!(eventually(|| ask(&mut client, "SET b 1") == "OK"));
    let [id, own] = [&mut client, &mut taker].map(|client| ask(client, "CLUSTER MYID").trim_matches('"').to_owned());
    let (mut first, mut second, mut subscriber, mut script) =
        (node.socket(), node.socket(), node.socket(), node.socket());
    // The slots of `b` and `g`.
    let [slot, next] = [3300, 7233];
    send(&mut first, b"XREAD BLOCK 0 STREAMS {b}s $\r\n");
    send(&mut second, b"BLPOP g 0\r\n");
    send(&mut subscriber, b"SUBSCRIBE news\r\n");
    expect_bytes(&mut subscriber, b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert!(eventually(|| ask(&mut client, "INFO clients").contains("blocked_clients:2")));
    assert_eq!(ask(&mut client, "CONFIG SET busy-reply-threshold 1"), "OK");
    send(&mut script, b"EVAL \"while redis.call('EXISTS', KEYS[1]) == 0 do end\" 1 c\r\n");
    assert!(eventually(|| ask(&mut client, "GET c").contains("BUSY")));
    let mut take = |slot: u16| {
        assert_eq!(ask(&mut taker, &format!("CLUSTER SETSLOT {slot} IMPORTING {id}")), "OK");
        assert_eq!(ask(&mut taker, &format!("CLUSTER SETSLOT {slot} NODE {own}")), "OK");
    };
    take(slot);
    expect_bytes(&mut first, format!("-MOVED {slot} 127.0.0.1:{}\r\n", other.port).as_bytes());
    take(next);
    expect_bytes(&mut second, format!("-MOVED {next} 127.0.0.1:{}\r\n", other.port).as_bytes());
    assert_eq!(ask(&mut taker, "PUBLISH news 1"), "0");
    expect_bytes(&mut subscriber, b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\n1\r\n");
    assert_eq!(ask(&mut client, "SCRIPT KILL"), "OK");
    assert!(eventually(|| ask(&mut client, &format!("CLUSTER COUNTKEYSINSLOT {slot}")) == "0"));
    assert!(node.stop().success() && other.stop().success());
}
