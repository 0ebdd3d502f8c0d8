//! Behaviour at `maxmemory`: evicted keys, notified clients, and refused commands.

use crate::dialogue::{ask, ask_integer, dialogue};
use crate::harness::{eventually, on_each_thread_count};

/// Bytes of a value; so many of them are more than there may be.
const VALUE: usize = 10_000;
const KEYS: usize = 600;

fn used(client: &mut redis::Connection) -> usize {
    field(client, "memory", "used_memory")
}

fn field(client: &mut redis::Connection, section: &str, name: &str) -> usize {
    let info: String = redis::cmd("INFO").arg(section).query(client).expect("INFO");
    let found = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")[..]));
    found.and_then(|value| value.trim().parse().ok()).expect("the field")
}

/// Allows two megabytes more than there is.
fn limit(client: &mut redis::Connection, policy: &str) -> usize {
    let limit = used(client) + (2 << 20);
    ask(client, &format!("CONFIG SET maxmemory-policy {policy} maxmemory {limit}"));
    limit
}

fn set(client: &mut redis::Connection, name: &str, options: &[&str]) {
    let value = vec![b'x'; VALUE];
    redis::cmd("SET").arg(name).arg(&value[..]).arg(options).query::<()>(client).expect("OK");
}

#[test]
fn keys_that_are_used_often_stay() {
    on_each_thread_count(&["--lfu-log-factor", "0"], |server| {
        let mut client = server.client();
        let limit = limit(&mut client, "allkeys-lfu");
        for n in 0..10 {
            set(&mut client, &format!("hot{n}"), &[]);
            (0..50).for_each(|_| _ = ask(&mut client, &format!("STRLEN hot{n}")));
        }
        (0..KEYS).for_each(|n| set(&mut client, &format!("cold{n}"), &[]));
        let hot = (0..10).filter(|n| ask_integer(&mut client, &format!("EXISTS hot{n}")) == 1).count();
        assert_eq!(hot, 10);
        assert!(used(&mut client) < limit + (1 << 20));
        // Nothing goes between the two that are compared.
        ask(&mut client, "CONFIG SET maxmemory 0");
        let evicted = field(&mut client, "stats", "evicted_keys");
        assert_eq!(evicted, KEYS + 10 - ask_integer(&mut client, "DBSIZE") as usize);
        assert!(evicted > KEYS / 2 && evicted < KEYS, "{evicted}");
    });
}

#[test]
fn keys_that_end_soonest_go_first_and_keys_without_end_stay() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        limit(&mut client, "volatile-ttl");
        (0..20).for_each(|n| set(&mut client, &format!("stays{n}"), &[]));
        (0..KEYS).for_each(|n| set(&mut client, &format!("ends{n}"), &["EX", &format!("{}", 10_000 - n)]));
        let present: Vec<bool> = (0..KEYS).map(|n| ask_integer(&mut client, &format!("EXISTS ends{n}")) == 1).collect();
        let (sooner, later) = present.split_at(KEYS - 100);
        let (sooner, later) = (sooner.iter().filter(|p| **p).count(), later.iter().filter(|p| **p).count());
        // The last ones to be set end soonest, so that all but a few of them have gone.
        assert!(later < 20 && sooner > 50, "{later} of 100 and {sooner}");
        let stays = (0..20).filter(|n| ask_integer(&mut client, &format!("EXISTS stays{n}")) == 1).count();
        assert_eq!(stays, 20);
    });
}

#[test]
fn without_anything_to_evict_what_needs_memory_is_refused() {
    const REFUSAL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        dialogue(&mut client, &[("SET k v", "OK"), ("CONFIG SET maxmemory 1", "OK")]);
        for policy in ["noeviction", "volatile-lru", "volatile-random", "volatile-ttl", "volatile-lfu"] {
            ask(&mut client, &format!("CONFIG SET maxmemory-policy {policy}"));
            let refused = redis::cmd("SET").arg("other").arg("v").query::<()>(&mut client).expect_err("too much");
            assert!(refused.to_string().contains(&REFUSAL[4..]), "{policy}: {refused}");
            dialogue(&mut client, &[("GET k", "\"v\""), ("EXISTS k", "1"), ("TTL k", "-1")]);
        }
        ask(&mut client, "CONFIG SET maxmemory-policy allkeys-random");
        assert!(eventually(|| ask_integer(&mut client, "DBSIZE") == 0), "the key goes");
        dialogue(&mut client, &[("CONFIG SET maxmemory 0", "OK"), ("SET other v", "OK")]);
    });
}

#[test]
fn a_large_value_that_is_being_freed_is_not_made_up_for_with_others() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        ask(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0");
        for part in 0..50 {
            let mut add = redis::cmd("SADD");
            add.arg("large");
            (0..2000).for_each(|n| _ = add.arg(format!("member {}", part * 2000 + n)));
            add.query::<()>(&mut client).expect("a set");
        }
        (0..100).for_each(|n| set(&mut client, &format!("small{n}"), &[]));
        // Nearly all of the excess is the set's, which has a deadline and so is the only one that may go.
        ask(&mut client, "EXPIRE large 10000");
        let limit = used(&mut client) - (1 << 20);
        ask(&mut client, &format!("CONFIG SET maxmemory-policy volatile-lru maxmemory {limit}"));
        assert!(eventually(|| ask_integer(&mut client, "EXISTS large") == 0), "it goes");
        ask(&mut client, "CONFIG SET maxmemory-policy allkeys-lru");
        set(&mut client, "one more", &[]);
        assert_eq!(ask_integer(&mut client, "DBSIZE"), 101);
    });
}
