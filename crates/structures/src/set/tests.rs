//! Tests of sets in all forms, against a plain model.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

type Model = BTreeSet<Vec<u8>>;

const LIMITS: Limits = Limits { intset_entries: 8, listpack_entries: 6, listpack_value: 10 };

/// Asserts the invariants and that the set shows what the model does.
fn check(set: &Set, model: &Model) {
    let shown: Vec<Vec<u8>> = set.iter().map(Item::to_vec).collect();
    assert_eq!((set.len(), shown.len()), (model.len(), model.len()));
    assert_eq!(&shown.into_iter().collect::<Model>(), model);
    if let Set::Big(members) = set {
        assert_eq!(members.block_bytes, members.table.iter().map(|member| member.allocated()).sum::<usize>());
    }
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u8..12).prop_map(|n| n.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        2 => (0u8..12).prop_map(|n| format!("m{n}").into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..14),
    ]
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Vec<u8>),
    InsertItem(Vec<u8>),
    Remove(Vec<u8>),
    TakeRandom(u64),
    Reserve(usize),
    MakeInts,
    Clone,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => member().prop_map(Op::Insert),
        10 => member().prop_map(Op::InsertItem),
        10 => member().prop_map(Op::Remove),
        5 => any::<u64>().prop_map(Op::TakeRandom),
        1 => (0usize..10).prop_map(Op::Reserve),
        1 => Just(Op::MakeInts),
        1 => Just(Op::Clone),
    ]
}

fn apply(set: &mut Set, model: &mut Model, op: &Op) {
    match op {
        Op::Insert(member) => assert_eq!(set.insert(member, &LIMITS), model.insert(member.clone())),
        Op::InsertItem(member) => {
            assert_eq!(set.insert_item(Item::of(member), &LIMITS), model.insert(member.clone()));
        }
        Op::Remove(member) => assert_eq!(set.remove(member), model.remove(member)),
        Op::TakeRandom(random) => match set.take_random(*random) {
            Some(taken) => assert!(model.remove(&taken.item().to_vec())),
            None => assert!(model.is_empty()),
        },
        Op::Reserve(members) => set.reserve(*members, &LIMITS),
        Op::MakeInts => {
            let fit = model.len() <= LIMITS.intset_entries && model.iter().all(|m| decimal::parse(m).is_some());
            set.make_ints(&LIMITS);
            assert!(!fit || set.encoding() == "intset");
        }
        Op::Clone => *set = set.clone(),
    }
}

proptest! {
    #[test]
    fn behaves_as_a_set(
        ops in proptest::collection::vec(op(), 0..120), first in member(), expected in 0usize..10, random: u64,
    ) {
        let (mut set, mut model) = (Set::for_members(&first, expected, &LIMITS), Model::new());
        for op in &ops {
            let before = set.encoding();
            apply(&mut set, &mut model, op);
            check(&set, &model);
            let compact = |encoding: &str| encoding != "hashtable";
            prop_assert!(compact(before) || !compact(set.encoding()) || matches!(op, Op::MakeInts));
            let (len, longest) = (model.len(), model.iter().map(Vec::len).max().unwrap_or(0));
            match set.encoding() {
                "intset" => prop_assert!(len <= LIMITS.intset_entries),
                "listpack" => prop_assert!(
                    len <= LIMITS.listpack_entries && longest <= LIMITS.listpack_value
                ),
                _ => {}
            }
            if let Op::Insert(member) | Op::Remove(member) = op {
                let item = Item::of(member);
                prop_assert_eq!(set.contains(member), model.contains(member));
                prop_assert_eq!(set.contains_item(item), model.contains(member));
            }
        }
        match set.random(random) {
            Some(member) => prop_assert!(model.contains(&member.to_vec())),
            None => prop_assert!(model.is_empty()),
        }
        while !set.drain_step(3) {}
        prop_assert!(set.is_empty());
    }
}

#[test]
fn the_form_follows_what_is_put_in() {
    let form = |members: &[&str]| {
        let mut set = Set::for_members(members[0].as_bytes(), 1, &LIMITS);
        members.iter().for_each(|member| _ = set.insert(member.as_bytes(), &LIMITS));
        set.encoding()
    };
    assert_eq!(form(&["1", "2"]), "intset");
    assert_eq!(form(&["1", "2", "3", "4", "5", "6", "7", "8"]), "intset");
    assert_eq!(form(&["1", "2", "3", "4", "5", "6", "7", "8", "9"]), "hashtable");
    assert_eq!(form(&["1", "x"]), "listpack");
    assert_eq!(form(&["x", "1"]), "listpack");
    assert_eq!(form(&["1", "2", "3", "4", "5", "x"]), "listpack");
    assert_eq!(form(&["1", "2", "3", "4", "5", "6", "x"]), "hashtable");
    assert_eq!(form(&["1", "eleven long"]), "hashtable");
    assert_eq!(form(&["12345678901", "x"]), "hashtable", "an integer is too long for a listpack");
    assert_eq!(Set::for_members(b"1", 9, &LIMITS).encoding(), "hashtable");
    let limits = Limits { intset_entries: 0, ..LIMITS };
    assert_eq!(Set::for_members(b"1", 1, &limits).encoding(), "listpack");
}

#[test]
fn a_walk_in_steps_visits_every_member_once_while_the_set_grows_and_shrinks() {
    let mut set = Set::big();
    (0..2000u32).for_each(|n| _ = set.insert(format!("stays {n}").as_bytes(), &LIMITS));
    let (mut at, mut done, mut seen, mut step) = (Some(0), 0, Vec::new(), 0u32);
    while let Some(here) = at {
        at = set.scan(here, done, |member| seen.push(member.to_vec()));
        done = at.unwrap_or(0);
        step += 1;
        for n in 0..100 {
            let other = format!("other {n} {}", step % 100);
            if step % 200 < 100 {
                set.insert(other.as_bytes(), &LIMITS);
            } else {
                set.remove(other.as_bytes());
            }
        }
    }
    seen.retain(|member| member.starts_with(b"stays"));
    assert_eq!(seen.len(), 2000);
    assert_eq!(seen.into_iter().collect::<Model>().len(), 2000);
}

#[test]
fn members_are_chosen_evenly() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    for mut set in [Set::default(), Set::small(), Set::big()] {
        (0..6u32).for_each(|n| _ = set.insert(n.to_string().as_bytes(), &LIMITS));
        let mut counts = std::collections::HashMap::<Vec<u8>, usize>::new();
        (0..6000).for_each(|_| *counts.entry(set.random(next()).unwrap().to_vec()).or_default() += 1);
        assert!(counts.len() == 6 && counts.values().all(|n| (800..1200).contains(n)), "{counts:?}");
    }
}

#[test]
fn a_large_set_takes_less_than_thirty_bytes_a_member() {
    let mut set = Set::big();
    (0..100_000u32).for_each(|n| _ = set.insert(format!("member:{n:08}").as_bytes(), &LIMITS));
    assert!(set.memory_usage() <= 28 * set.len(), "{}", set.memory_usage() / set.len());
    assert_eq!(size_of::<Set>(), 16);
}
