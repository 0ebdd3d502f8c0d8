//! [`command::core::cluster_proxy::routing_policy`] of the commands of the rooms.

use crate::core::acl_catalog::categories;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{Begin, Command, FindKeys, Group};

/// Commands that set all of their keys or none, which no proxy can do at several nodes.
const ALL_OR_NOTHING: &[&str] = &["msetex", "msetnx"];

/// Returns the policy that the tips of COMMAND INFO tell other proxies.
fn told(command: &Command) -> Routing {
    let has = |tip: &str| command.tips.contains(&tip);
    let merge = match command.tips.iter().find_map(|tip| tip.strip_prefix("response_policy:")) {
        Some("agg_sum") => Merge::Sum,
        Some("all_succeeded") if has("request_policy:multi_shard") => Merge::AllOk,
        Some("all_succeeded") => Merge::Alike,
        Some("agg_logical_and") => Merge::InAll,
        Some("special") => Merge::Any,
        _ => Merge::Elements,
    };
    if command.group == Group::Scripting && command.keys.is_empty() {
        return if matches!(merge, Merge::Alike | Merge::InAll) { Routing::Everywhere(merge) } else { Routing::Slot };
    }
    if has("request_policy:multi_shard") && !ALL_OR_NOTHING.contains(&command.name) {
        let [key] = command.keys else { panic!("{} has one kind of keys", command.name) };
        assert_eq!(key.begin, Begin::Index(1), "{}", command.name);
        let FindKeys::Range { step, .. } = key.find else { panic!("{} has keys behind each other", command.name) };
        return Routing::EachKey { words: step, merge };
    }
    let is_about_keys = command.keys.is_empty() && categories(command).any(|name| name == "keyspace");
    match is_about_keys {
        true if has("request_policy:all_shards") => Routing::Primaries(merge),
        true if command.name == "scan" => Routing::Pages,
        _ => Routing::Slot,
    }
}

#[test]
fn every_policy_is_the_one_that_its_tips_tell() {
    for command in crate::all().flat_map(|command| [command].into_iter().chain(command.subcommands)) {
        assert_eq!(command.routing, told(command), "{}", command.name);
    }
}
