//! A hash against a map with expiries, at every step; the small form and its end; a large one taken apart.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LIMITS: Limits = Limits { fields: 12, bytes: 20 };

/// Values with expiries by field.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

#[derive(Clone, Debug)]
enum Op {
    Set(Vec<u8>, Vec<u8>, FieldTtl),
    Remove(Vec<u8>),
    Expiry(Vec<u8>, Option<u64>),
    /// Time goes on, and up to so many fields are taken out.
    Later(u64, usize),
    Clone,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u8..24).prop_map(|n| format!("f{n}").into_bytes()),
        2 => (0u8..8).prop_map(|n| n.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..24),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        3 => proptest::collection::vec(any::<u8>(), 0..8),
        1 => proptest::collection::vec(any::<u8>(), 1000..1100),
    ]
}

fn ttl() -> impl Strategy<Value = FieldTtl> {
    prop_oneof![4 => Just(FieldTtl::Clear), 2 => Just(FieldTtl::Keep), 3 => (1u64..60).prop_map(FieldTtl::At)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => (name(), value(), ttl()).prop_map(|(name, value, ttl)| Op::Set(name, value, ttl)),
        10 => name().prop_map(Op::Remove),
        10 => (name(), proptest::option::of(1u64..60)).prop_map(|(name, at)| Op::Expiry(name, at)),
        6 => (0u64..6, 0usize..4).prop_map(|(ms, max)| Op::Later(ms, max)),
        1 => Just(Op::Clone),
    ]
}

fn over(field: &(Vec<u8>, Option<u64>), now: u64) -> bool {
    is_due(field.1, now)
}

fn apply(hash: &mut Hash, model: &mut Model, now: &mut u64, op: &Op) {
    match op {
        Op::Set(name, value, ttl) => {
            let old = model.get(name).cloned();
            let expected = match &old {
                None => Written::Added,
                Some(field) if over(field, *now) => Written::AddedOverDue,
                Some(_) => Written::Replaced,
            };
            assert_eq!(hash.set(name, value, *ttl, *now, LIMITS), expected);
            let kept = old.filter(|field| !over(field, *now)).and_then(|field| field.1);
            model.insert(name.clone(), (value.clone(), ttl.resolve(kept)));
        }
        Op::Remove(name) => {
            let there = model.get(name).is_some_and(|field| !over(field, *now));
            assert_eq!(hash.remove(name, *now), there);
            if there {
                model.remove(name);
            }
        }
        Op::Expiry(name, at) => {
            hash.set_expiry(name, *at);
            if let Some(field) = model.get_mut(name) {
                field.1 = *at;
            }
        }
        Op::Later(ms, max) => {
            *now += ms;
            for _ in 0..*max {
                let mut gone = None;
                let popped = hash.pop_due(*now, |name| gone = Some(name.to_vec()));
                let earliest = model.values().filter(|field| over(field, *now)).filter_map(|field| field.1).min();
                assert_eq!(popped, earliest.is_some());
                assert_eq!(gone.and_then(|name| model.remove(&name)).and_then(|field| field.1), earliest);
            }
        }
        Op::Clone => *hash = hash.clone(),
    }
}

fn check(hash: &Hash, model: &Model, now: u64) {
    let live: BTreeMap<_, _> = model.iter().filter(|(_, field)| !over(field, now)).collect();
    assert_eq!((hash.view().len(), hash.view().is_empty()), (model.len(), model.is_empty()));
    assert_eq!(hash.view().live_len(now), live.len());
    assert_eq!(hash.next_expiry(), model.values().filter_map(|field| field.1).min());
    assert_eq!(hash.view().volatile_len(), model.values().filter(|field| field.1.is_some()).count());
    for (name, field) in model {
        let expected = (!over(field, now)).then(|| (field.0.clone(), field.1));
        assert_eq!(hash.view().find(name, now).map(|(value, at)| (value.to_vec(), at)), expected);
    }
    let mut shown = BTreeMap::new();
    hash.view().visit(now, |name, value| assert!(shown.insert(name.to_vec(), value.to_vec()).is_none()));
    assert!(shown.iter().eq(live.iter().map(|(name, field)| (*name, &field.0))));
    let (mut walked, mut at) = (BTreeSet::new(), Some(0));
    while let Some(position) = at {
        at = hash.view().scan(position, position, now, |name, _| assert!(walked.insert(name.to_vec())));
    }
    assert!(walked.iter().eq(live.keys().copied()));
    if let Big(big) = &hash.0 {
        big.check();
    }
}

proptest! {
    #[test]
    fn behaves_as_a_map_whose_fields_run_out(ops in proptest::collection::vec(op(), 0..150), random in any::<u64>()) {
        let (mut hash, mut model, mut now) = (Hash::default(), Model::new(), 1);
        for op in &ops {
            apply(&mut hash, &mut model, &mut now, op);
            check(&hash, &model, now);
        }
        prop_assert!(hash.view().get(b"no such field", now).is_none());
        if let Some((name, value)) = hash.view().random(random, now) {
            prop_assert_eq!(&model[&name.to_vec()].0, &value.to_vec());
        }
        while !hash.drain_step(3) {}
    }
}

#[test]
fn the_small_form_is_left_once_and_for_all() {
    let filled = |fields: usize| {
        let mut hash = Hash::default();
        (0..fields).for_each(|n| _ = hash.set(n.to_string().as_bytes(), b"v", FieldTtl::Clear, 0, LIMITS));
        hash
    };
    let mut hash = filled(12);
    assert_eq!(hash.view().encoding(), "listpack");
    hash.set(b"13th", b"v", FieldTtl::Keep, 0, LIMITS);
    assert_eq!(hash.view().encoding(), "hashtable");
    (1..12).for_each(|n| assert!(hash.remove(n.to_string().as_bytes(), 0)));
    assert_eq!(
        (hash.view().encoding(), hash.clone().view().encoding(), hash.view().len()),
        ("hashtable", "hashtable", 2)
    );
    for (name, value) in [(&[b'x'; 21][..], &b""[..]), (b"", &[b'x'; 21])] {
        let mut hash = filled(1);
        hash.set(name, value, FieldTtl::Clear, 0, LIMITS);
        assert_eq!(hash.view().encoding(), "hashtable");
    }
    for (fields, longest, encoding) in [(12, 20, "listpack"), (13, 1, "hashtable"), (1, 21, "hashtable")] {
        let mut hash = filled(3);
        hash.reserve(fields, longest, 0, LIMITS);
        assert_eq!(hash.view().encoding(), encoding);
    }
    let mut hash = filled(2);
    hash.set_expiry(b"none", Some(5));
    hash.set_expiry(b"1", None);
    assert_eq!(hash.view().encoding(), "listpack");
    hash.set_expiry(b"1", Some(5));
    assert_eq!((hash.view().encoding(), hash.next_expiry()), ("hashtable", Some(5)));
}

#[test]
fn a_large_hash_is_small_for_its_size_and_goes_away_in_steps() {
    let mut hash = Hash::default();
    for n in 0..50_000 {
        hash.set(format!("field:{n:09}").as_bytes(), b"12345678", FieldTtl::Clear, 0, LIMITS);
    }
    assert!(hash.memory_usage(10) <= 44 * hash.view().len(), "{}", hash.memory_usage(10) / hash.view().len());
    (0..1000).for_each(|n| hash.set_expiry(format!("field:{n:09}").as_bytes(), Some(9)));
    assert_eq!((hash.view().live_len(9), hash.view().live_len(8)), (49_000, 50_000));
    let copy = hash.clone();
    let mut steps = 0;
    while !hash.drain_step(100) {
        steps += 1;
    }
    assert!(steps > 500);
    assert_eq!((hash.view().len(), copy.view().len(), copy.view().volatile_len()), (0, 50_000, 1000));
}

#[test]
fn every_field_of_a_small_hash_is_drawn() {
    let mut hash = Hash::default();
    (0..10).for_each(|n| _ = hash.set(format!("f{n}").as_bytes(), b"v", FieldTtl::Clear, 0, LIMITS));
    let drawn: BTreeSet<_> =
        (0..10).filter_map(|n| hash.view().random(u64::MAX / 10 * n + 7, 0)).map(|(name, _)| name.to_vec()).collect();
    assert_eq!(drawn.len(), 10);
    assert!(Hash::default().view().random(5, 0).is_none());
}
