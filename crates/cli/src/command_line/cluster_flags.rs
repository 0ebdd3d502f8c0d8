//! The options of `--cluster`: a row each, and the words that belong to it.

use super::option_flag::{Draft, Flag, UsageError, error, natural, switch, unrecognized, utf8, value, words};
use crate::options::Mode;

pub const CLUSTER_FLAGS: &[Flag] = &[
    words(
        &["--cluster"],
        "<command>",
        "Create, check, mend or change a cluster; --cluster help lists the commands.",
        |draft, rest| {
            let [name, ..] = rest else { return Err(unrecognized(b"--cluster")) };
            if matches!(draft.mode, Some(Mode::Cluster(_))) {
                return Err(error("Option --cluster is given twice."));
            }
            draft.mode = Some(Mode::Cluster(String::from_utf8_lossy(name).into_owned()));
            Ok(1)
        },
    ),
    switch(&["--cluster-yes"], "Ask nothing.", |draft| draft.cluster.yes = true),
    value(&["--cluster-replicas"], "<n>", "create: replicas of each primary.", |draft, text| {
        draft.cluster.replicas = usize_of(text, "--cluster-replicas")?;
        Ok(())
    }),
    value(
        &["--cluster-from"],
        "<nodes>",
        "reshard: who gives slots; import: host:port of the server.",
        |draft, text| {
            draft.cluster.from = Some(utf8(text, "--cluster-from")?);
            Ok(())
        },
    ),
    value(&["--cluster-to"], "<node>", "reshard: who gets them.", |draft, text| {
        draft.cluster.to = Some(utf8(text, "--cluster-to")?);
        Ok(())
    }),
    value(&["--cluster-slots"], "<n>", "reshard: how many.", |draft, text| {
        draft.cluster.slots = Some(usize_of(text, "--cluster-slots")?).filter(|slots| *slots > 0);
        Ok(())
    }),
    value(&["--cluster-timeout"], "<ms>", "How long one MIGRATE may take (default 60000).", |draft, text| {
        draft.cluster.timeout = natural(text, "--cluster-timeout")?;
        Ok(())
    }),
    value(&["--cluster-pipeline"], "<n>", "Keys of one MIGRATE (default 10).", |draft, text| {
        draft.cluster.pipeline = natural(text, "--cluster-pipeline")?.max(1);
        Ok(())
    }),
    switch(&["--cluster-replace"], "Overwrite keys that are there already.", |draft| draft.cluster.replace = true),
    switch(&["--cluster-copy"], "import: leave the keys in the server, too.", |draft| draft.cluster.copy = true),
    switch(&["--cluster-use-atomic-slot-migration"], "Move slots by CLUSTER MIGRATESLOTS.", |draft| {
        draft.cluster.atomic = true;
    }),
    words(&["--cluster-weight"], "<node=w ...>", "rebalance: shares of nodes (default 1).", |draft, rest| {
        if !draft.cluster.weights.is_empty() {
            return Err(error(
                "WARNING: you cannot use --cluster-weight more than once.\nYou can set more weights by adding them \
                 as a space-separated list, ie:\n--cluster-weight n1=w n2=w",
            ));
        }
        let are_weights = |word: &&Vec<u8>| !word.starts_with(b"--") && word.contains(&b'=');
        let weights: Vec<_> = rest.iter().take_while(are_weights).collect();
        if weights.is_empty() {
            return Err(unrecognized(b"--cluster-weight"));
        }
        draft.cluster.weights = weights.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Ok(weights.len())
    }),
    value(&["--cluster-threshold"], "<percent>", "rebalance: what imbalance is let be (default 2).", |draft, text| {
        draft.cluster.threshold = finite(text).ok_or_else(|| error("Invalid threshold for --cluster-threshold."))?;
        Ok(())
    }),
    switch(
        &["--cluster-use-empty-primaries", "--cluster-use-empty-masters"],
        "rebalance: give slots to primaries without any, too.",
        |draft| draft.cluster.use_empty_primaries = true,
    ),
    switch(&["--cluster-simulate"], "rebalance: only show what would move.", |draft| draft.cluster.simulate = true),
    switch(&["--cluster-search-multiple-owners"], "check, fix: look for keys of a slot in every primary.", |draft| {
        draft.cluster.search_multiple_owners = true;
    }),
    switch(
        &["--cluster-fix-with-unreachable-primaries", "--cluster-fix-with-unreachable-masters"],
        "fix: take the slots of primaries that cannot be reached.",
        |draft| draft.cluster.fix_with_unreachable_primaries = true,
    ),
    switch(&["--cluster-replica", "--cluster-slave"], "add-node: as a replica.", |draft| {
        draft.cluster.as_replica = true;
    }),
    value(
        // `--cluster help` has the second one, as valkey-cli's has.
        &["--cluster-primary-id", "--cluster-primaries-id", "--cluster-master-id"],
        "<node>",
        "add-node: whose replica.",
        |draft, text| {
            draft.cluster.primary_id = Some(utf8(text, "--cluster-primary-id")?);
            Ok(())
        },
    ),
    switch(&["--cluster-only-primaries", "--cluster-only-masters"], "call: primaries only.", |draft| {
        draft.cluster.only_primaries = true;
    }),
    switch(&["--cluster-only-replicas"], "call: replicas only.", |draft| draft.cluster.only_replicas = true),
    value(&["--cluster-from-user"], "<name>", "import: user of the server.", |draft, text| {
        draft.cluster.from_user = Some(text.to_vec());
        Ok(())
    }),
    value(&["--cluster-from-pass"], "<password>", "import: password of the server.", |draft, text| {
        draft.cluster.from_password = Some(text.to_vec());
        Ok(())
    }),
    switch(&["--cluster-from-askpass"], "import: ask for that password.", |draft| {
        draft.cluster.ask_from_password = true;
    }),
];

/// Takes the words up to the next option as arguments of the subcommand, which may have them once.
pub fn take_arguments<'a>(draft: &mut Draft, rest: &'a [Vec<u8>]) -> Result<&'a [Vec<u8>], UsageError> {
    let count = rest.iter().take_while(|word| !word.starts_with(b"-")).count();
    let (arguments, rest) = rest.split_at(count);
    match arguments {
        [] => {}
        [extra, ..] if !draft.cluster.arguments.is_empty() => return Err(unrecognized(extra)),
        _ => draft.cluster.arguments = arguments.to_vec(),
    }
    Ok(rest)
}

fn usize_of(text: &[u8], option: &str) -> Result<usize, UsageError> {
    let number = natural(text, option)?;
    usize::try_from(number).map_err(|_| error(&format!("Invalid number for {option}.")))
}

fn finite(text: &[u8]) -> Option<f32> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|number: &f32| number.is_finite())
}
