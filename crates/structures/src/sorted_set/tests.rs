//! Sorted sets against a list that is sorted when needed.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Scores by member, and pairs sorted when needed.
#[derive(Default)]
struct Model(BTreeMap<Vec<u8>, f64>);

impl Model {
    fn sorted(&self) -> Vec<(&[u8], f64)> {
        let mut pairs: Vec<_> = self.0.iter().map(|(member, score)| (&member[..], *score)).collect();
        pairs.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then(a.0.cmp(b.0)));
        pairs
    }
}

/// Asserts the invariants and that the set shows what the model does.
fn check(set: &SortedSet, model: &Model) {
    let pairs = model.sorted();
    let shown: Vec<_> = set.iter().collect();
    assert_eq!(shown, pairs);
    // To the sign of zero.
    assert!(shown.iter().zip(&pairs).all(|(a, b)| a.1.to_bits() == b.1.to_bits()));
    assert_eq!(set.len(), pairs.len());
    if let Form::Indexed(set) = &set.0 {
        indexed::check(set);
    }
}

/// Small ones, so that both forms are seen.
const LIMITS: Limits = Limits { members: 40, bytes: 60 };

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => (0u8..90).prop_map(|n| format!("member:{n}").into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..61),
        2 => proptest::collection::vec(Just(0u8), 0..6),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-4i32..4).prop_map(f64::from),
        1 => Just(-0.0),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        // Equal in the bits that the tree holds.
        2 => (0u32..4).prop_map(|n| 1.7e12 + f64::from(n)),
        2 => (0u32..4).prop_map(|n| -1.7e12 - f64::from(n)),
        1 => any::<f64>().prop_filter("a score is a number", |score| !score.is_nan()),
    ]
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Vec<u8>, f64),
    InsertLong(usize, f64),
    Remove(Vec<u8>),
    RemoveAt(usize),
    RemoveRange(usize, usize),
    Clone,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        80 => (member(), score()).prop_map(|(member, score)| Op::Insert(member, score)),
        1 => (60usize..300, score()).prop_map(|(len, score)| Op::InsertLong(len, score)),
        10 => member().prop_map(Op::Remove),
        30 => any::<usize>().prop_map(Op::RemoveAt),
        2 => (0usize..50, 0usize..20).prop_map(|(start, len)| Op::RemoveRange(start, len)),
        1 => Just(Op::Clone),
    ]
}

fn insert(set: &mut SortedSet, model: &mut Model, member: &[u8], score: f64) {
    let expected = match model.0.get(member) {
        None => Inserted::Added,
        Some(old) if *old == score => Inserted::Same,
        Some(_) => Inserted::Moved,
    };
    assert_eq!(set.insert(member, score, LIMITS), expected);
    if expected != Inserted::Same {
        // The sign of zero is kept once the set is indexed.
        let kept = if set.encoding() == "skiplist" { score } else { score + 0.0 };
        model.0.insert(member.to_vec(), kept);
    }
}

fn apply(set: &mut SortedSet, model: &mut Model, op: &Op) {
    match op {
        Op::Insert(member, score) => insert(set, model, member, *score),
        Op::InsertLong(len, score) => insert(set, model, &vec![b'x'; *len], *score),
        Op::Remove(member) => assert_eq!(set.remove(member), model.0.remove(member)),
        Op::RemoveAt(at) => {
            let member = model.0.keys().nth(at % model.0.len().max(1)).cloned();
            if let Some(member) = member {
                assert_eq!(set.remove(&member), model.0.remove(&member));
            }
        }
        Op::RemoveRange(start, len) => {
            let sorted = model.sorted().into_iter().skip(*start).take(*len);
            let expected: Vec<_> = sorted.map(|(member, score)| (member.to_vec(), score)).collect();
            let mut removed = Vec::new();
            let count = set.remove_range(*start..start + len, |member, score| removed.push((member.to_vec(), score)));
            assert_eq!((&removed, count), (&expected, expected.len()));
            model.0.retain(|member, _| !expected.iter().any(|(gone, _)| gone == member));
        }
        Op::Clone => *set = set.clone(),
    }
}

proptest! {
    #[test]
    fn behaves_as_a_sorted_list(
        ops in proptest::collection::vec(op(), 0..400),
        probes in proptest::collection::vec((member(), score()), 10),
    ) {
        let (mut set, mut model) = (SortedSet::default(), Model::default());
        for op in &ops {
            apply(&mut set, &mut model, op);
            check(&set, &model);
        }
        let pairs = model.sorted();
        for (rank, (member, score)) in pairs.iter().enumerate() {
            prop_assert_eq!(set.rank_and_score(member), Some((rank, *score)));
            prop_assert_eq!(set.score(member), Some(*score));
            prop_assert_eq!(set.rank_of_bound(*score, member), rank);
        }
        for (member, score) in &probes {
            prop_assert_eq!(set.score(member), model.0.get(member).copied());
            prop_assert_eq!(set.rank(member).is_some(), model.0.contains_key(member));
            let before = pairs.partition_point(|pair| (pair.1, pair.0) < (*score, &member[..]));
            prop_assert_eq!(set.rank_of_bound(*score, member), before);
            prop_assert_eq!(set.rank_of_score(*score), pairs.partition_point(|pair| pair.1 < *score));
            prop_assert_eq!(set.rank_after_score(*score), pairs.partition_point(|pair| pair.1 <= *score));
        }
        let (start, end) = (pairs.len() / 3, pairs.len() * 2 / 3);
        let reversed: Vec<_> = set.range(start..end).rev().collect();
        prop_assert!(reversed.iter().eq(pairs[start..end].iter().rev()));
        let mut both = set.range(start..end);
        let mut left = &pairs[start..end];
        while let (Some(first), [expected, rest @ ..]) = (both.next(), left) {
            prop_assert_eq!(first, *expected);
            left = rest;
            if let [rest @ .., expected] = left {
                prop_assert_eq!(both.next_back(), Some(*expected));
                left = rest;
            }
        }
        prop_assert_eq!((both.next(), both.next_back(), left.len()), (None, None, 0));
        let (mut scanned, mut at) = (Model::default(), Some(0));
        while let Some(position) = at {
            at = set.scan(position, |member, score| _ = scanned.0.insert(member.to_vec(), score));
        }
        prop_assert_eq!(&scanned.sorted(), &pairs);
        let (count, limits) = (pairs.len(), |members| Limits { members, bytes: 1000 });
        for (members, encoding) in [(count, "listpack"), (count.saturating_sub(1), "skiplist")] {
            let built = SortedSet::from_sorted(set.iter(), limits(members));
            prop_assert!(built.encoding() == encoding || count == 0);
            prop_assert!(built.iter().eq(set.iter()));
        }
        while !set.drain_step(7) {}
    }
}

#[test]
fn the_form_changes_once_and_for_all() {
    let limits = Limits::default();
    let mut set = SortedSet::default();
    (0..128u32).for_each(|n| _ = set.insert(&n.to_le_bytes(), 0.0, limits));
    assert_eq!(set.encoding(), "listpack");
    set.insert(b"one more", 0.0, limits);
    assert_eq!(set.encoding(), "skiplist");
    set.remove(b"one more");
    assert_eq!((set.encoding(), set.clone().encoding()), ("skiplist", "skiplist"));
    let mut set = SortedSet::default();
    set.insert(&[b'x'; 64], 0.0, limits);
    assert_eq!(set.encoding(), "listpack");
    set.insert(&[b'x'; 65], 0.0, limits);
    assert_eq!(set.encoding(), "skiplist");
    for (members, longest, encoding) in [(128, 64, "listpack"), (129, 64, "skiplist"), (1, 65, "skiplist")] {
        let mut set = SortedSet::default();
        set.reserve(members, longest, limits);
        set.insert(b"first", -0.0, limits);
        assert_eq!(set.encoding(), encoding);
        let keeps_sign = set.score(b"first").is_some_and(f64::is_sign_negative);
        assert_eq!(keeps_sign, encoding == "skiplist");
    }
}

#[test]
fn a_hundred_thousand_members_stay_small_and_go_away() {
    let limits = Limits::default();
    let mut set = SortedSet::default();
    for n in 0..100_000u32 {
        let scattered = n.wrapping_mul(0x9e37_79b1);
        set.insert(format!("member:{n:08}").as_bytes(), f64::from(scattered), limits);
    }
    assert!(set.memory_usage() <= 54 * set.len(), "{}", set.memory_usage() / set.len());
    let all = set.clone();
    while !set.drain_step(1000) {}
    assert_eq!(all.len(), 100_000);
    assert_eq!(all.rank(b"member:00000000"), Some(0));
}

#[test]
fn a_set_parts_with_nearly_all_of_its_pairs() {
    let limits = Limits::default();
    let all: Vec<(String, f64)> = (0..5000).map(|n| (format!("member:{n:04}"), f64::from(n / 2 - 700))).collect();
    fn owned<'a>(pairs: impl Iterator<Item = (&'a [u8], f64)>) -> Vec<(Vec<u8>, f64)> {
        pairs.map(|(member, score)| (member.to_vec(), score)).collect()
    }
    let pairs = |range: Range<usize>| all[range].iter().map(|(member, score)| (member.as_bytes(), *score));
    for (ranks, parts) in [
        (0..4000, true),
        (1000..5000, true),
        (500..4990, true),
        (0..5000, true),
        (0..usize::MAX, true),
        (0..3999, false),
        (0..0, false),
        (7000..9000, false),
    ] {
        let mut set = SortedSet::from_sorted(pairs(0..5000), limits);
        let before = set.part_with(ranks.clone());
        assert_eq!(before.as_ref().map(SortedSet::len), parts.then_some(5000), "{ranks:?}");
        if let Some(before) = before {
            let ranks = ranks.start..ranks.end.min(5000);
            assert_eq!(owned(before.iter()), owned(pairs(0..5000)));
            assert_eq!(owned(set.iter()), owned(pairs(0..ranks.start).chain(pairs(ranks.end..5000))));
            assert_eq!(
                (set.encoding(), set.score(b"member:0600")),
                ("skiplist", (!ranks.contains(&600)).then_some(-400.0))
            );
        }
        let Form::Indexed(set) = &set.0 else { panic!("it stays indexed") };
        indexed::check(set);
    }
    let mut few = SortedSet::from_sorted(pairs(0..900), limits);
    assert!(few.part_with(0..890).is_none() && few.len() == 900);
}

#[test]
fn members_that_ascend_are_found_by_name() {
    for members in [10, 1000] {
        let mut set = SortedSet::default();
        (0..members).for_each(|n| _ = set.insert(format!("{n:04}").as_bytes(), f64::from(n / 3), Limits::default()));
        for n in 0..members {
            let name = format!("{n:04}");
            assert_eq!(set.partition_by_member(|member| member < name.as_bytes()), n as usize);
            assert_eq!(set.partition_by_member(|member| member <= name.as_bytes()), n as usize + 1);
        }
    }
}

#[test]
fn a_set_can_go_to_another_thread() {
    fn is_send<T: Send + Sync>() {}
    is_send::<SortedSet>();
}

#[test]
fn members_that_come_twice_are_found() {
    for count in [2, 20, 127, 128, 129, 300] {
        let names: Vec<String> = (0..count).map(|n| format!("member {n}")).collect();
        let pairs = |last: usize| -> Vec<(&[u8], f64)> {
            let all = names[..count - 1].iter().chain([&names[last]]);
            all.enumerate().map(|(score, name)| (name.as_bytes(), score as f64)).collect()
        };
        let built =
            |last| SortedSet::from_sorted_unsure(pairs(last).into_iter(), Limits { members: 1000, bytes: 60 }).1;
        assert!(built(count - 1) && !built(0) && !built(count / 2 - 1), "{count}");
    }
}
