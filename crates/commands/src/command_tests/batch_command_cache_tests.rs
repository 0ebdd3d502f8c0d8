//! [`command::batch::command_cache`] with the commands of the rooms.

use crate::batch::command_cache::*;
use crate::core::args::{Args, RetainedArgs};
use crate::core::command_table::accepted;
use resp::Span;
use resp::encode_command;

#[test]
fn zeros_are_no_familiar_request() {
    let mut command_cache = CommandCache::default();
    let mut spans = vec![Span::default()];
    assert!(command_cache.parse(&[0; 64], &mut spans).is_none() && spans.len() == 1);
}

#[test]
fn cached_commands_are_the_ones_that_a_lookup_finds() {
    crate::install(&[]);
    let mut command_cache = CommandCache::default();
    let requests = [
        "GET key-of-some-length",
        "get other-key-of-some-length",
        "GET",
        "SET key-of-some-length value",
        "SET key-of-some-length value NX",
        "CONFIG GET maxmemory-policy",
        "CONFIG SET maxmemory-policy noeviction",
        "CLIENT ID",
        "NOSUCH command of this name",
        "OBJECT ENCODING key",
    ];
    for _ in 0..3 {
        for request in requests {
            let words: Vec<&str> = request.split(' ').collect();
            let mut bytes = Vec::new();
            encode_command(&mut bytes, &words);
            let len = bytes.len();
            encode_command(&mut bytes, &["PING"]);
            let mut spans = vec![Span::default()];
            let (end, entry) = command_cache.parse(&bytes, &mut spans).expect("a whole short request");
            let args = Args::parsed(&bytes, &spans[1..], RetainedArgs::default());
            assert_eq!((end, args.len()), (len, words.len()));
            assert!(args.iter().eq(words.iter().map(|word| word.as_bytes())));
            let found = accepted(&words[..].into());
            assert_eq!(entry.map(|entry| &entry.full_name), found.map(|entry| &entry.full_name), "{request}");
        }
    }
}
