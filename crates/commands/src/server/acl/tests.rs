//! Users through the commands: the effect of rules, and the rights that follow.

use crate::core::session::Session;
use crate::testing::Client;

/// Returns a client of the same engine, logged in as a user with these rules and the password `p`.
fn with_rules(rules: &str) -> Client {
    let mut client = Client::new();
    let rules = format!("on >p {rules}");
    let words: Vec<&str> = ["ACL", "SETUSER", "u"].into_iter().chain(rules.split(' ')).collect();
    assert_eq!(client.run_words(&words), "+OK");
    client.is("AUTH u p", "+OK").is("ACL WHOAMI", "-NOPERM User u has no permissions to run the 'acl|whoami' command");
    client
}

#[test]
fn a_user_is_shown_as_the_rules_that_make_it() {
    let mut client = Client::new();
    client.is("ACL LIST", "[user default on nopass ~* &* +@all]").is("ACL USERS", "[default]");
    for (rules, shown) in [
        ("", "off resetchannels -@all"),
        ("on nopass +@all -@dangerous +config|get", "on nopass resetchannels +@all -@dangerous +config|get"),
        ("~a* %R~b %W~c %RW~d resetchannels &x &y", "off ~a* %R~b %W~c ~d resetchannels &x &y -@all"),
        ("%R~a %W~a", "off ~a resetchannels -@all"),
        ("+get +set -get", "off resetchannels -@all +set -get"),
        ("+config|get +config -config|set", "off resetchannels -@all +config -config|set"),
        ("+@all -config", "off resetchannels +@all -config"),
        ("+select|0 +SELECT|1", "off resetchannels -@all +select|0 +select|1"),
        ("db=0,2", "off resetchannels db=0,2 -@all"),
        ("db=3 resetdbs", "off resetchannels resetdbs -@all"),
        ("allkeys allchannels allcommands", "off ~* &* +@all"),
        ("(+get ~a) (+set ~b)", "off resetchannels -@all (~a resetchannels -@all +get) (~b resetchannels -@all +set)"),
        ("(+get ~a) clearselectors", "off resetchannels -@all"),
        (">x", "off #2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 resetchannels -@all"),
        (">x >y <x nopass", "off nopass resetchannels -@all"),
        ("on allkeys +@all reset", "off resetchannels -@all"),
        ("sanitize-payload skip-sanitize-payload", "off resetchannels -@all"),
    ] {
        let words: Vec<&str> = ["ACL", "SETUSER", "u", "reset"].into_iter().chain(rules.split(' ')).collect();
        assert_eq!(client.run_words(&words), "+OK", "{rules}");
        client.is("ACL LIST", &format!("[user default on nopass ~* &* +@all user u {shown}]"));
    }
    client.is("ACL DELUSER u nobody", ":1").is("ACL GETUSER u", "nil");
}

#[test]
fn a_rule_that_is_wrong_changes_nothing() {
    let mut client = Client::new();
    client.is("ACL SETUSER u +get", "+OK");
    for (rules, error) in [
        ("+nope", "'+nope': Unknown command or category name in ACL"),
        ("+@nope", "'+@nope': Unknown command or category name in ACL"),
        ("on -config|nope", "'-config|nope': Unknown command or category name in ACL"),
        ("+config|get|x", "'+config|get|x': Allowing first-arg of a subcommand is not supported"),
        ("+select|", "'+select|': Syntax error"),
        ("%~a", "'%~a': Syntax error"),
        ("%RR~a", "'%RR~a': Syntax error"),
        ("what", "'what': Syntax error"),
        (
            "#x",
            "'#x': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
        ("<x", "'<x': The password you are trying to remove from the user does not exist"),
        ("db=", "'db=': Syntax error"),
        ("db=1,,2", "'db=1,,2': Syntax error"),
        ("db=-1", "'db=-1': The provided database ID is out of range"),
        (
            "~* ~a",
            "'~a': Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
        ),
        (
            "&* &a",
            "'&a': Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels",
        ),
    ] {
        let words: Vec<&str> = ["ACL", "SETUSER", "u", "+set"].into_iter().chain(rules.split(' ')).collect();
        assert_eq!(client.run_words(&words), format!("-ERR Error in ACL SETUSER modifier {error}"));
        assert!(client.run("ACL LIST").ends_with("user u off resetchannels -@all +get]"), "{rules}");
    }
    client.is("ACL SETUSER u (+get", "-ERR Unmatched parenthesis in acl selector starting at '(+get'.");
    client.is("ACL DELUSER default", "-ERR The 'default' user cannot be removed");
}

#[test]
fn denied_commands_have_no_effect() {
    let no_key = "-NOPERM No permissions to access a key";
    let mut client = with_rules("+get +set +mget +eval +multi +exec +sort ~a* %R~r %W~w");
    client.is("SET a1 1", "+OK").is("GET a1", "1").is("SET b 1", no_key).is("MGET a1 b", no_key);
    client.is("SET w 1", "+OK").is("GET w", no_key).is("SET r 1", no_key).is("GET r", "nil").is("SET w 2 GET", no_key);
    client.is("DEL a1", "-NOPERM User u has no permissions to run the 'del' command");
    client.is("SORT a1 BY x_*", "-ERR BY option of SORT denied due to insufficient ACL permissions.");
    client.is("SORT a1 GET #", "-ERR GET option of SORT denied due to insufficient ACL permissions.");
    client.is("MULTI", "+OK").is("SET a2 2", "+QUEUED").is("SET b 2", no_key);
    client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.").is("GET a2", "nil");
    let script = "return redis.call('set', ARGV[1], 1)";
    let denied = client.run_words(&["EVAL", script, "0", "b"]);
    assert!(denied.starts_with("-ERR ACL failure in script: No permissions to access a key script:"), "{denied}");
    assert_eq!(client.run_words(&["EVAL", script, "1", "b", "b"]), no_key);
    let check =
        "return {redis.acl_check_cmd('set','a',1), redis.acl_check_cmd('set','b',1), redis.acl_check_cmd('del','a')}";
    assert_eq!(client.run_words(&["EVAL", check, "0"]), "[:1 nil nil]");
}

#[test]
fn rights_taken_from_a_user_are_gone_at_once() {
    let mut client = with_rules("+@all ~* -acl|whoami");
    client.is("SET k 1", "+OK").is("MULTI", "+OK").is("SET k 2", "+QUEUED").is("GET k", "+QUEUED");
    let engine = client.shared_engine().clone();
    let context = crate::core::acl_catalog::rule_context(&engine);
    engine.users().set(b"u", &[b"-set".to_vec()], context).expect("a rule");
    client.is(
        "EXEC",
        "[-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
         is no longer allowed for the following reason: no permission to execute the command or subcommand 1]",
    );
    engine.users().remove(b"u", context).expect("it was there");
    client.is("GET k", "-NOAUTH Authentication required.").is("RESET", "+RESET").is("GET k", "1");
}

#[test]
fn the_default_user_is_one_like_others() {
    let mut client = Client::new();
    client.is("CONFIG SET requirepass secret", "+OK");
    client.is("ACL GETUSER default", "[flags [on] passwords [2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b] commands +@all keys ~* channels &* databases alldbs selectors []]");
    client.is("RESET", "+RESET").is("GET k", "-NOAUTH Authentication required.");
    client.is("AUTH secret", "+OK").is("ACL SETUSER default nopass -set", "+OK").is("GET k", "nil");
    client.is("SET k 1", "-NOPERM User default has no permissions to run the 'set' command");
    client.is("ACL SETUSER default off", "+OK").is("GET k", "nil").is("RESET", "+RESET");
    client.is("GET k", "-NOAUTH Authentication required.");
    client.is("AUTH default x", "-WRONGPASS invalid username-password pair or user is disabled.");
}

#[test]
fn channels_and_databases_have_rights_of_their_own() {
    let no_channel = "-NOPERM No permissions to access a channel";
    let mut client = with_rules("+@all -acl|whoami ~* resetchannels &a* &[x]");
    client.is("PUBLISH a1 m", ":0").is("PUBLISH b m", no_channel).is("SPUBLISH b m", no_channel);
    client.is("SUBSCRIBE a b", no_channel).is("PSUBSCRIBE a1*", no_channel).is("UNSUBSCRIBE b", "[unsubscribe b :0]");
    client.is("PUBLISH x m", ":0").is("PSUBSCRIBE x", no_channel);
    let no_db = "-NOPERM No permissions to access database";
    let mut client = with_rules("+@all -acl|whoami ~* &* db=0,2");
    client.is("SELECT 1", no_db).is("SELECT 2", "+OK").is("SET k 1", "+OK").is("MOVE k 1", no_db).is("MOVE k 0", ":1");
    client.is("COPY k k2 DB 1", no_db).is("SWAPDB 0 1", no_db).is("FLUSHALL", no_db).is("FLUSHDB", "+OK");
    client.is("SELECT 99", "-ERR DB index is out of range");
}

#[test]
fn denials_are_logged_alike_ones_together() {
    let mut client = with_rules("+get +acl ~a -acl|whoami");
    let no_key = "-NOPERM No permissions to access a key";
    client.is("GET b", no_key).is("GET b", no_key).is("GET c", no_key);
    client.is("AUTH u wrong", "-WRONGPASS invalid username-password pair or user is disabled.");
    let log = client.run("ACL LOG");
    for part in [
        "count :1 reason auth context toplevel object AUTH username u",
        "count :1 reason key context toplevel object c username u",
        "count :2 reason key context toplevel object b username u",
        "count :1 reason command context toplevel object acl|whoami username u",
    ] {
        assert!(log.contains(part), "{part} in {log}");
    }
    client.is("ACL LOG RESET", "+OK").is("ACL LOG", "[]");
    let info = client.shared_engine().users().log.count(engine::acl::denial_log::Denied::Key);
    assert_eq!(info, 3);
}

#[test]
fn a_dry_run_tells_and_does_nothing() {
    let mut client = Client::new();
    client.is("ACL SETUSER u +get +publish ~a* &y", "+OK");
    client.is("ACL DRYRUN u GET a", "+OK").is("ACL DRYRUN u GET b", "User u has no permissions to access the 'b' key");
    client.is("ACL DRYRUN u SET a 1", "User u has no permissions to run the 'set' command");
    client.is("ACL DRYRUN u PUBLISH x m", "User u has no permissions to access the 'x' channel");
    client.is("ACL SETUSER v +get ~* db=1", "+OK");
    client.is("ACL DRYRUN v gEt a", "User v has no permissions to access database gEt");
    client.is("ACL DRYRUN nobody GET a", "-ERR User 'nobody' not found");
    client.is("ACL DRYRUN u NOPE", "-ERR Command 'NOPE' not found");
    client.is("ACL DRYRUN u GET", "-ERR wrong number of arguments for 'get' command");
}

#[test]
fn passwords_are_made_and_categories_listed() {
    let mut client = Client::new();
    assert_eq!(client.run("ACL GENPASS").len(), 64);
    assert_eq!(client.run("ACL GENPASS 5").len(), 2);
    assert_ne!(client.run("ACL GENPASS"), client.run("ACL GENPASS"));
    for wrong in ["0", "-1", "4097"] {
        client.is(&format!("ACL GENPASS {wrong}"), "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096");
    }
    assert!(client.run("ACL CAT").starts_with("[keyspace read write set"));
    assert!(client.run("ACL CAT transaction").contains("multi"));
    client.is("ACL CAT nope", "-ERR Unknown category 'nope'");
    client.is("ACL LOAD", "-ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users in the configuration.");
}

const FULL: &str = "-QUOTA User u has as many connections as it may have";

#[test]
fn a_user_has_no_more_connections_than_it_may() {
    let mut admin = Client::new();
    admin.is("ACL SETUSER u on nopass ~* +@all quota:connections=2", "+OK");
    let (mut one, mut two, mut three) = (admin.beside(), admin.beside(), admin.beside());
    one.is("AUTH u x", "+OK").is("AUTH u x", "+OK").is("SET k v", "+OK");
    two.is("HELLO 2 AUTH u x", &two_hello(&mut admin)).is("GET k", "v");
    three.is("AUTH u x", FULL).is("GET k", "v").is("ACL WHOAMI", "default");
    one.is("RESET", "+RESET");
    three.is("AUTH u x", "+OK");
    one.is("AUTH u x", FULL);
    drop(three);
    one.is("AUTH u x", "+OK");
    admin.is("ACL SETUSER u quota:connections=0", "+OK");
    admin.beside().is("AUTH u x", "+OK");
}

fn two_hello(client: &mut Client) -> String {
    client.run("HELLO 2")
}

#[test]
fn a_client_that_has_not_logged_in_counts_with_its_first_command() {
    let mut admin = Client::new();
    admin.is("ACL SETUSER admin on nopass ~* +@all", "+OK").is("AUTH admin x", "+OK");
    admin.is("ACL SETUSER default quota:connections=1", "+OK");
    let (mut one, mut two) = (admin.beside(), admin.beside());
    one.is("PING", "+PONG").is("PING", "+PONG");
    let full = FULL.replace("User u", "User default");
    two.is("PING", &full).is("PING", &full).is("AUTH admin x", "+OK").is("PING", "+PONG");
    drop(one);
    admin.beside().is("PING", "+PONG");
    two.is("ACL SETUSER default resetquota", "+OK");
    let (mut three, mut four) = (admin.beside(), admin.beside());
    three.is("PING", "+PONG");
    four.is("PING", "+PONG");
}

#[test]
fn keys_of_a_prefix_do_not_grow_while_they_take_too_much() {
    let mut admin = Client::new();
    admin.is("ACL SETUSER u on nopass ~* +@all quota:memory:cache:=1kb", "+OK");
    let engine = admin.shared_engine().clone();
    // The loop is long enough for all keys to be looked at, however long that takes.
    let measure = || (0..100).for_each(|_| engine.measure_prefixes());
    let mut user = admin.beside();
    user.is("AUTH u x", "+OK").is("SET other v", "+OK").is("SET cache:s v", "+OK");
    for n in 0..100 {
        user.is(&format!("SET cache:{n} value"), "+OK");
    }
    measure();
    let full = "-QUOTA User u may not add to keys that begin with 'cache:', which take as much memory as they may";
    for line in ["SET cache:s w", "RPUSH cache:l x", "MSET a 1 cache:b 2"] {
        user.is(line, full);
    }
    user.is("RENAME cache:s cache:t", "+OK")
        .is("GET cache:t", "v")
        .is("SET other w", "+OK")
        .is("COPY other cache:o", full)
        .is("COPY cache:t o", ":1");
    user.is("MULTI", "+OK").is("SET cache:1 x", full);
    user.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    let script = ["EVAL", "return redis.call('set', KEYS[1], 'x')", "1", "cache:1"];
    assert!(user.run_words(&script).starts_with(full), "{}", user.run_words(&script));
    let script =
        ["EVAL", "redis.call('set', KEYS[1], 'x') return redis.call('set', KEYS[2], 'x')", "2", "o", "cache:1"];
    assert!(user.run_words(&script).starts_with(full), "what it has written before is no matter");
    admin.is("SET cache:x v", "+OK");
    assert!(admin.run("ACL GETUSER u").contains("quota:memory:cache:=1024"), "{}", admin.run("ACL GETUSER u"));
    user.is("DELPREFIX cache:", ":102");
    measure();
    user.is("SET cache:1 x", "+OK");
}

#[test]
fn a_session_that_is_no_users_may_do_nothing() {
    let mut client = Client::new();
    client.is("SET k v", "+OK");
    let info = client.session().info.clone();
    *client.session() = Session::new(info);
    for line in ["GET k", "SET k w", "PING", "EVAL return(1) 0", "MULTI", "ACL WHOAMI", "HELLO 3", "NOSUCH"] {
        assert!(client.run(line).starts_with("-NOAUTH "), "{line}: {}", client.run(line));
    }
    client.is("AUTH default x", "+OK").is("GET k", "v");
}

#[test]
fn the_destination_of_sort_is_checked_whatever_stands_before_it() {
    let mut user = with_rules("+@all -acl|whoami ~mine* ~by ~get ~limit");
    let no_key = "-NOPERM No permissions to access a key";
    for before in ["by", "get", "limit"] {
        user.is(&format!("SORT mine STORE {before} STORE other"), no_key);
        user.is(&format!("SORT mine STORE other STORE {before}"), ":0");
    }
    user.is("SORT mine BY store STORE other", no_key).is("SORT mine LIMIT 0 1 STORE other", no_key);
}
