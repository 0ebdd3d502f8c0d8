//! [`command::core::chunked_reply`] with the commands of the rooms.

use crate::testing::Client;

/// Returns a list, a sorted set and a set of `len` elements with long names.
fn filled(len: usize) -> (Client, Vec<String>) {
    let mut client = Client::new();
    let elements: Vec<String> = (0..len).map(|n| format!("e{n:040}")).collect();
    client.run(&format!("RPUSH l {}", elements.join(" ")));
    client.run(&format!("SADD s {}", elements.join(" ")));
    let pairs: Vec<String> = elements.iter().enumerate().map(|(n, element)| format!("{n} {element}")).collect();
    client.run(&format!("ZADD z {}", pairs.join(" ")));
    (client, elements)
}

fn sorted(reply: &str) -> Vec<String> {
    let mut words: Vec<String> = reply.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect();
    words.sort_unstable();
    words
}

#[test]
fn popped_elements_are_gone_at_once_and_replied_later() {
    let all = 5000;
    for count in [4990, all, 9999] {
        for (key, pop) in [("l", "LPOP l"), ("l", "RPOP l"), ("z", "ZPOPMIN z"), ("z", "ZPOPMAX z"), ("s", "SPOP s")] {
            let (mut client, elements) = filled(all);
            let mut other = client.beside();
            let line = format!("{pop} {count}");
            let mut popping = client.begin(&line.split(' ').collect::<Vec<_>>());
            assert!(!popping.step(), "{line}");
            let left = all - count.min(all);
            let len = match key {
                "l" => "LLEN l",
                "z" => "ZCARD z",
                _ => "SCARD s",
            };
            other.is(len, &format!(":{left}")).is(&format!("EXISTS {key}"), &format!(":{}", usize::from(left > 0)));
            let rest = sorted(&other.run(if key == "s" { "SMEMBERS s" } else { "EXISTS none" }));
            match key {
                "l" => other.is("RPUSH l new", &format!(":{}", left + 1)),
                "z" => other.is("ZADD z 1 new", ":1"),
                _ => other.is("SADD s new", ":1"),
            };
            let reply = popping.end();
            let pair = |n: usize| format!("{} {n}", elements[n]);
            let expected: Vec<String> = match pop {
                "LPOP l" => elements[..all - left].to_vec(),
                "RPOP l" => elements[left..].iter().rev().cloned().collect(),
                "ZPOPMIN z" => (0..all - left).map(pair).collect(),
                "ZPOPMAX z" => (left..all).rev().map(pair).collect(),
                _ => {
                    let mut members = sorted(&reply);
                    assert_eq!(members.len(), all - left);
                    members.extend(rest.into_iter().filter(|_| left > 0));
                    members.sort_unstable();
                    assert_eq!(members, sorted(&elements.join(" ")), "{line}");
                    continue;
                }
            };
            assert!(reply == format!("[{}]", expected.join(" ")), "{line}");
        }
    }
}

#[test]
fn a_chunked_reply_of_a_sorted_set_shows_what_is_removed_meanwhile() {
    for removal in
        ["ZREMRANGEBYRANK z 5 4995", "ZREMRANGEBYSCORE z -inf +inf", "ZPOPMIN z 4995", "ZREMRANGEBYRANK z 9 99"]
    {
        let (mut client, elements) = filled(5000);
        let mut other = client.beside();
        let mut listing = client.begin(&["ZRANGE", "z", "0", "-1"]);
        assert!(!listing.step());
        other.run(removal);
        other.is("ZADD z 3000.5 new", ":1");
        assert!(listing.end() == format!("[{}]", elements.join(" ")), "{removal}");
    }
}

#[test]
fn a_transaction_and_who_has_waited_get_it_whole() {
    let (mut client, elements) = filled(5000);
    client.is("MULTI", "+OK").is("LPOP l 4999", "+QUEUED").is("LLEN l", "+QUEUED");
    let popped = elements[..4999].join(" ");
    assert!(client.run("EXEC") == format!("[[{popped}] :1]"));
    client.is("LMPOP 2 none l LEFT COUNT 5000", &format!("[l [{}]]", elements[4999]));
}
