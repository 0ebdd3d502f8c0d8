//! [`command::core::dispatch`] with the commands of the rooms.

use crate::testing::Client;
use engine::keyspace::record::LogUser;

/// Returns the client's view of the log after these commands.
fn seen_to(client: &mut Client, lines: &[&str]) -> u64 {
    client.session().seen_to = 0;
    lines.iter().for_each(|line| _ = client.run(line));
    client.session().seen_to
}

#[test]
fn a_reader_has_seen_the_changes_of_its_shards_and_no_others() {
    let mut writer = Client::new();
    let _log = writer.log();
    let mut reader = writer.beside();
    assert_eq!(seen_to(&mut reader, &["GET a", "DBSIZE"]), 0);
    let first = seen_to(&mut writer, &["SET a 1"]);
    let second = seen_to(&mut writer, &["SET b 1"]);
    assert!(0 < first && first < second);
    for (lines, seen) in [
        (&["GET c"][..], 0),
        (&["GET a"], first),
        (&["GET b", "GET a"], second),
        (&["MGET c a"], first),
        (&["MGET a b c"], second),
        (&["MULTI", "GET a", "GET c", "EXEC"], first),
        (&["MULTI", "GET a", "DBSIZE", "EXEC"], second),
        (&["DBSIZE"], second),
        (&["PING"], 0),
        (&["KEYS *"], second),
        (&["EXISTS {a}c"], first),
    ] {
        assert_eq!(seen_to(&mut reader, lines), seen, "{lines:?}");
    }
    let third = seen_to(&mut writer, &["SET c 1 PX 5"]);
    assert!(second < third);
    // The first command that finds the key gone logs that, and has seen it.
    reader.later(6);
    let last = seen_to(&mut reader, &["GET c"]);
    assert!(third < last && reader.session().logged_at == 0);
    assert_eq!(seen_to(&mut writer, &["GET c"]), last);
    assert_eq!(writer.session().logged_at, third);
}

#[test]
fn a_reply_waits_for_what_was_logged_without_the_lock_of_a_shard() {
    let mut client = Client::new();
    let _log = client.log();
    client.engine().set_logging(LogUser::Replicas, true);
    let mut other = client.beside();
    let lib = |name: &str| format!("#!lua name={name}\nserver.register_function('{name}', function() return 1 end)");
    let load = |client: &mut Client, words: &[&str]| {
        let before = client.engine().change_log().appended();
        let reply = client.run_words(words);
        let (end, session) = (client.engine().change_log().appended(), client.session());
        assert!(end > before && session.logged_at == end && session.seen_to == end, "{words:?}: {reply}");
    };
    load(&mut client, &["FUNCTION", "LOAD", &lib("one")]);
    load(&mut client, &["FUNCTION", "LOAD", "REPLACE", &lib("one")]);
    let last = client.engine().change_log().appended();
    client.is("FCALL one 1 k", ":1");
    assert_eq!(seen_to(&mut other, &["FCALL one 1 k"]), last, "the reply tells of the library");
    for words in [&["FUNCTION", "DELETE", "one"][..], &["FUNCTION", "FLUSH"], &["FLUSHALL"], &["SWAPDB", "0", "1"]] {
        load(&mut client, words);
    }
    client.is("MULTI", "+OK");
    client.run_words(&["FUNCTION", "LOAD", &lib("two")]);
    load(&mut client, &["EXEC"]);
    let changed = client.session().logged_at;
    // Records for replicas only change nothing on the disk.
    let told = "redis.set_repl(redis.REPL_REPLICA); return redis.call('SET', 'k', 'v')";
    for words in [&["PUBLISH", "c", "m"][..], &["EVAL", told, "0"], &["EVAL", told, "1", "k"]] {
        client.run_words(words);
        let (end, session) = (client.engine().change_log().appended(), client.session());
        assert_eq!((session.told_at, session.logged_at, session.seen_to), (end, changed, end), "{words:?}");
    }
}

#[test]
fn a_command_that_takes_its_locks_late_is_logged_if_there_is_a_log_by_then() {
    for line in ["FLUSHALL", "SWAPDB 0 1", "FUNCTION FLUSH"] {
        let client = Client::new();
        let (engine, mut other) = (client.engine(), client.beside());
        let all = engine.locks().escalated();
        let log = std::thread::scope(|scope| {
            let running = scope.spawn(|| other.run(line));
            std::thread::sleep(std::time::Duration::from_millis(20));
            let log = client.log();
            drop(all);
            running.join().expect("a reply");
            log
        });
        assert_eq!(log.take().len(), 1, "{line}");
    }
}
