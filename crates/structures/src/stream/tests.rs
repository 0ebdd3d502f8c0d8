//! Streams against a map of entries.

use super::*;
use crate::listpack::Item;
use proptest::prelude::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn append(stream: &mut Stream, id: Id, fields: &Fields, limits: Limits) {
    stream.append(id, fields.iter().map(|(name, value)| (&name[..], &value[..])), limits);
}

fn collect(mut cursor: Cursor<'_>) -> Vec<(Id, Fields)> {
    let mut found = Vec::new();
    while let Some(id) = cursor.next() {
        let mut fields = Fields::new();
        let width = cursor.width();
        while let Some((name, value)) = cursor.field() {
            fields.push((Item::to_vec(name), Item::to_vec(value)));
        }
        assert_eq!(fields.len(), width);
        found.push((id, fields));
    }
    found
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, u64, Vec<(u8, u32)>),
    Delete(usize),
    MaxLen(u64, bool),
    MinId(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u64, 0..4u64, proptest::collection::vec((0..3u8, any::<u32>()), 1..4)).prop_map(|(a, b, c)| Step::Add(a, b, c)),
        3 => any::<usize>().prop_map(Step::Delete),
        1 => (0..30u64, any::<bool>()).prop_map(|(len, exactly)| Step::MaxLen(len, exactly)),
        1 => (0..60u64).prop_map(Step::MinId),
    ]
}

proptest! {
    #[test]
    fn a_stream_is_a_map_that_grows_at_its_end(
        steps in proptest::collection::vec(step(), 0..150), bytes in 0..300usize, entries in 0..9u64, seed: u64,
    ) {
        let limits = Limits { bytes, entries };
        let (mut stream, mut model) = (Stream::default(), BTreeMap::<Id, Fields>::new());
        for step in steps {
            match step {
                Step::Add(ms, seq, fields) => {
                    let id = if ms == 0 { Id::new(stream.last_id.ms, stream.last_id.seq + seq + 1) } else { Id::new(stream.last_id.ms + ms, seq) };
                    let fields: Fields = fields.iter().map(|(name, value)| (vec![b'a' + name], value.to_string().into_bytes())).collect();
                    append(&mut stream, id, &fields, limits);
                    model.insert(id, fields);
                }
                Step::Delete(index) => {
                    let id = model.keys().nth(index % (model.len() + 1)).copied().unwrap_or(Id::new(1, 9));
                    prop_assert_eq!(stream.delete(id), model.remove(&id).is_some());
                    prop_assert!(!stream.delete(id));
                }
                Step::MaxLen(len, exactly) => {
                    let removed = stream.trim(Bound::MaxLen(len), exactly, 0, References::Keep);
                    prop_assert!(stream.len() >= len.min(model.len() as u64));
                    prop_assert!(!exactly || stream.len() <= len);
                    for _ in 0..removed {
                        model.pop_first();
                    }
                }
                Step::MinId(ms) => {
                    let removed = stream.trim(Bound::MinId(Id::new(ms, 0)), true, 0, References::Keep);
                    let before = model.len();
                    model.retain(|id, _| *id >= Id::new(ms, 0));
                    prop_assert_eq!(removed as usize, before - model.len());
                }
            }
            prop_assert_eq!(stream.len() as usize, model.len());
        }
        let whole: Vec<(Id, Fields)> = model.clone().into_iter().collect();
        prop_assert_eq!(collect(stream.range(Id::MIN, Id::MAX)), whole.clone());
        let mut back = collect(stream.range_back(Id::MIN, Id::MAX));
        back.reverse();
        prop_assert_eq!(back, whole.clone());
        prop_assert_eq!(stream.first_id(), model.keys().next().copied());
        let pick = |salt: u64| Id::new(seed.rotate_left(salt as u32) % 60, seed.rotate_left(2 * salt as u32) % 3);
        for salt in 0..12 {
            let (start, end) = (pick(salt), pick(salt + 20));
            let part: Vec<_> = whole.iter().filter(|(id, _)| (start..=end).contains(id)).cloned().collect();
            prop_assert_eq!(stream.count(start, end, u64::MAX) as usize, part.len());
            prop_assert_eq!(stream.count(start, end, 3) as usize, part.len().min(3));
            let mut back = collect(stream.range_back(start, end));
            back.reverse();
            prop_assert_eq!(&back, &part);
            prop_assert_eq!(collect(stream.range(start, end)), part);
        }
        for (base, listpack) in stream.nodes() {
            prop_assert!(node::counts(listpack).0 > 0);
            prop_assert_eq!(&Listpack::from_bytes(listpack.as_bytes()).unwrap(), listpack);
            prop_assert!(entries == 0 || node::counts(listpack).0 + node::counts(listpack).1 <= entries);
            prop_assert!(base <= stream.last_id);
        }
    }
}
