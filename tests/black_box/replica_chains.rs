//! A replica of a replica: it has what the first primary has, in the databases in which that has it.

use crate::dialogue::ask;
use crate::harness::{Server, eventually};

const OPTIONS: [&str; 4] = ["--databases", "16", "--repl-diskless-sync-delay", "0"];

fn follow(replica: &Server, primary: &Server) {
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "ROLE").contains("\"connected\"")), "the link stands");
}

fn reads(server: &Server, database: u32, key: &str, value: &str) -> bool {
    let mut client = server.client();
    assert_eq!(ask(&mut client, &format!("SELECT {database}")), "OK");
    ask(&mut client, &format!("GET {key}")) == value
}

#[test]
fn a_stream_goes_on_in_the_database_that_it_has_selected() {
    for load in ["disabled", "swapdb", "flush-before-load"] {
        let options = [&OPTIONS[..], &["--repl-diskless-load", load]].concat();
        let [primary, middle, last] = std::array::from_fn(|_| Server::start(&options));
        let mut writer = primary.client();
        follow(&middle, &primary);
        assert_eq!((ask(&mut writer, "SELECT 9"), ask(&mut writer, "SET a 1")), ("OK".to_owned(), "OK".to_owned()));
        assert!(eventually(|| reads(&middle, 9, "a", "\"1\"")));
        // Its snapshot is of a moment at which the stream has selected 9 and does not say so again.
        follow(&last, &middle);
        assert_eq!(ask(&mut writer, "SET b 2"), "OK");
        assert!(eventually(|| reads(&last, 9, "b", "\"2\"")), "with repl-diskless-load {load}");
        assert!(reads(&last, 0, "b", "nil"));
    }
}
