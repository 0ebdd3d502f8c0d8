//! Streams against a map of entries.

use super::*;
use crate::listpack::{Item, Listpack};
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

/// Nodes as other servers have them: the entries that were added to each. A node without a live entry is removed.
#[derive(Default)]
struct Nodes {
    nodes: BTreeMap<Id, Vec<(Id, Fields)>>,
}

impl Nodes {
    fn remove_dead(&mut self, live: &BTreeMap<Id, Fields>) {
        self.nodes.retain(|_, entries| entries.iter().any(|(id, _)| live.contains_key(id)));
    }

    fn add(&mut self, id: Id, fields: &Fields, live: &BTreeMap<Id, Fields>, limits: Limits) {
        self.remove_dead(live);
        let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        let open = self.nodes.last_entry().filter(|last| {
            let len = listpack(*last.key(), last.get(), live).byte_len();
            let has_room = limits.entries == 0 || (last.get().len() as u64) < limits.entries;
            has_room && len + bytes < if limits.bytes == 0 { MAX_BYTES } else { limits.bytes }
        });
        match open {
            Some(mut last) => last.get_mut().push((id, fields.clone())),
            None => _ = self.nodes.insert(id, vec![(id, fields.clone())]),
        }
    }
}

/// A node in the form of dumps.
fn listpack(base: Id, entries: &[(Id, Fields)], live: &BTreeMap<Id, Fields>) -> Listpack {
    let is_live = |id: &Id| live.contains_key(id);
    let names = |fields: &Fields| fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let master = names(&entries[0].1);
    let mut listpack = Listpack::new();
    let count = entries.iter().filter(|(id, _)| is_live(id)).count();
    for n in [count, entries.len() - count, master.len()] {
        listpack.push_back(n.to_string().as_bytes());
    }
    master.iter().for_each(|name| listpack.push_back(name));
    listpack.push_back(b"0");
    for (id, fields) in entries {
        let same = names(fields) == master;
        let before = listpack.len();
        let flags = if same { 2 } else { 0 } + i64::from(!is_live(id));
        let numbers = [flags, id.ms as i64 - base.ms as i64, id.seq as i64 - base.seq as i64];
        numbers.iter().for_each(|n| listpack.push_back(n.to_string().as_bytes()));
        if !same {
            listpack.push_back(fields.len().to_string().as_bytes());
        }
        for (name, value) in fields {
            if !same {
                listpack.push_back(name);
            }
            listpack.push_back(value);
        }
        listpack.push_back((listpack.len() - before).to_string().as_bytes());
    }
    listpack
}

#[derive(Clone, Debug)]
enum Step {
    /// Names, values, and how long these are.
    Add(u64, u64, Vec<(u8, u32, usize)>),
    Delete(usize),
    MaxLen(u64, bool),
    MinId(u64),
}

/// The length of a value that is no number; 0: it is one.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0usize), 3 => 1..20usize, 1 => prop_oneof![60..70usize, 120..130usize, 4090..4100usize, Just(17_000)]]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u64, 0..4u64, proptest::collection::vec((0..3u8, any::<u32>(), length()), 1..4)).prop_map(|(a, b, c)| Step::Add(a, b, c)),
        3 => any::<usize>().prop_map(Step::Delete),
        1 => (0..30u64, any::<bool>()).prop_map(|(len, exactly)| Step::MaxLen(len, exactly)),
        1 => (0..60u64).prop_map(Step::MinId),
    ]
}

proptest! {
    #[test]
    fn a_stream_is_a_map_that_grows_at_its_end(
        steps in proptest::collection::vec(step(), 0..150), bytes in prop_oneof![0..300usize, Just(4096)], entries in 0..9u64, seed: u64,
    ) {
        let limits = Limits { bytes, entries };
        let (mut stream, mut model) = (Stream::default(), BTreeMap::<Id, Fields>::new());
        let mut nodes = Nodes::default();
        for step in steps {
            match step {
                Step::Add(ms, seq, fields) => {
                    let id = if ms == 0 { Id::new(stream.last_id.ms, stream.last_id.seq + seq + 1) } else { Id::new(stream.last_id.ms + ms, seq) };
                    let value = |n: u32, len| if len == 0 { (n >> (n % 32)).to_string().into_bytes() } else { vec![b'v'; len] };
                    let fields: Fields = fields.iter().map(|(name, n, len)| (vec![b'a' + name], value(*n, *len))).collect();
                    append(&mut stream, id, &fields, limits);
                    nodes.add(id, &fields, &model, limits);
                    model.insert(id, fields);
                }
                Step::Delete(index) => {
                    let id = model.keys().nth(index % (model.len() + 1)).copied().unwrap_or(Id::new(1, 9));
                    prop_assert_eq!(stream.delete(id), model.remove(&id).is_some());
                    prop_assert!(!stream.delete(id));
                }
                Step::MaxLen(len, exactly) => {
                    let removed = stream.trim(Bound::MaxLen(len), exactly, 0, References::Keep).removed;
                    prop_assert!(stream.len() >= len.min(model.len() as u64));
                    prop_assert!(!exactly || stream.len() <= len);
                    for _ in 0..removed {
                        model.pop_first();
                    }
                }
                Step::MinId(ms) => {
                    let removed = stream.trim(Bound::MinId(Id::new(ms, 0)), true, 0, References::Keep).removed;
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
        nodes.remove_dead(&model);
        prop_assert_eq!(stream.node_count(), nodes.nodes.len());
        for ((base, node), (id, entries)) in stream.nodes().zip(&nodes.nodes) {
            let expected = listpack(*id, entries, &model);
            prop_assert_eq!(base, *id);
            prop_assert_eq!(&node.listpack()[..], expected.as_bytes());
            prop_assert_eq!(node.listpack_len(), expected.byte_len());
        }
    }
}
