//! [`command::core::lazy_free`] with the commands of the rooms.

use crate::testing::Client;

#[test]
fn the_reply_follows_when_all_is_freed_that_is_not_to_be_freed_later() {
    let members = (0..5000).map(|n| format!("m{n}")).collect::<Vec<_>>().join(" ");
    for (directive, line, reply) in [
        ("lazyfree-lazy-user-del", "DEL k other", ":1"),
        ("lazyfree-lazy-server-del", "SET k v", "+OK"),
        ("lazyfree-lazy-server-del", "SUNIONSTORE k none", ":0"),
        ("lazyfree-lazy-expire", "GET k", "nil"),
    ] {
        let mut client = Client::new();
        let fill = |client: &mut Client| {
            client.run("UNLINK k");
            assert_eq!(client.run(&format!("SADD k {members}")), ":5000");
            client.is("PEXPIRE k 10", ":1");
            if line == "GET k" {
                client.later(20);
            }
        };
        fill(&mut client);
        client.is(line, reply);
        client.configure(directive, "no");
        fill(&mut client);
        let words: Vec<&str> = line.split(' ').collect();
        let mut begun = client.begin(&words);
        let steps = (1..).take_while(|_| !begun.step()).count();
        assert!(steps >= 4, "{line}: {steps}");
        fill(&mut client);
        client.is("MULTI", "+OK").is(line, "+QUEUED").is("EXEC", &format!("[{reply}]"));
    }
}
