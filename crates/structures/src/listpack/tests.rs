//! The listpack against a vector of byte strings, its bytes against those of other servers.

use super::*;
use proptest::prelude::*;

fn element() -> impl Strategy<Value = Vec<u8>> {
    let digits = |range: std::ops::RangeInclusive<i64>| range.prop_map(|n| n.to_string().into_bytes());
    prop_oneof![
        3 => digits(-3..=130),
        1 => digits(-4100..=4100),
        1 => digits(-40_000..=40_000),
        1 => digits(-0x81_0000..=0x81_0000),
        1 => digits(-0x8100_0000..=0x8100_0000),
        1 => digits(i64::MIN..=i64::MAX),
        4 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => proptest::collection::vec(any::<u8>(), 55..140),
        1 => (4080usize..4110, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        1 => (16_370usize..16_390, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

#[derive(Debug, Clone)]
enum Op {
    PushBack(Vec<u8>),
    PushFront(Vec<u8>),
    PushPair(Vec<u8>, Vec<u8>),
    InsertBefore(usize, Vec<u8>),
    InsertAfter(usize, Vec<u8>),
    Replace(usize, Vec<u8>),
    Remove(usize),
    RemoveRange(usize, usize),
    SplitAndSwap(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => element().prop_map(Op::PushBack),
        2 => element().prop_map(Op::PushFront),
        1 => (element(), element()).prop_map(|(a, b)| Op::PushPair(a, b)),
        2 => (any::<usize>(), element()).prop_map(|(at, e)| Op::InsertBefore(at, e)),
        2 => (any::<usize>(), element()).prop_map(|(at, e)| Op::InsertAfter(at, e)),
        2 => (any::<usize>(), element()).prop_map(|(at, e)| Op::Replace(at, e)),
        3 => any::<usize>().prop_map(Op::Remove),
        1 => (any::<usize>(), 0usize..4).prop_map(|(at, count)| Op::RemoveRange(at, count)),
        1 => any::<usize>().prop_map(Op::SplitAndSwap),
    ]
}

/// The element at `at`, counted around the end; None in an empty listpack.
fn pick(listpack: &Listpack, model: &[Vec<u8>], at: usize) -> Option<(usize, Pos)> {
    let index = at.checked_rem(model.len())?;
    // Every other time from the other end.
    let seek = if at.is_multiple_of(2) { index as isize } else { index as isize - model.len() as isize };
    Some((index, listpack.seek(seek).expect("an element at every index")))
}

fn apply(listpack: &mut Listpack, model: &mut Vec<Vec<u8>>, op: Op) {
    match op {
        Op::PushBack(e) => {
            let grown = listpack.byte_len() + Listpack::entry_size(&e);
            listpack.push_back(&e);
            assert_eq!(listpack.byte_len(), grown);
            model.push(e);
        }
        Op::PushFront(e) => {
            listpack.push_front(&e);
            model.insert(0, e);
        }
        Op::PushPair(a, b) => {
            listpack.push_all([&a, &b]);
            model.extend([a, b]);
        }
        Op::InsertBefore(at, e) => {
            let Some((index, pos)) = pick(listpack, model, at) else { return };
            listpack.insert_before(pos, &e);
            assert_eq!(listpack.at(pos), e[..]);
            model.insert(index, e);
        }
        Op::InsertAfter(at, e) => {
            let Some((index, pos)) = pick(listpack, model, at) else { return };
            let new = listpack.insert_after(pos, &e);
            assert_eq!((listpack.prev(new), listpack.at(new).to_vec()), (Some(pos), e.clone()));
            model.insert(index + 1, e);
        }
        Op::Replace(at, e) => {
            let Some((index, pos)) = pick(listpack, model, at) else { return };
            listpack.replace(pos, &e);
            model[index] = e;
        }
        Op::Remove(at) => {
            let Some((index, pos)) = pick(listpack, model, at) else { return };
            let after = listpack.remove(pos);
            model.remove(index);
            assert_eq!(after.map(|pos| listpack.at(pos).to_vec()), model.get(index).cloned());
        }
        Op::RemoveRange(at, count) => {
            let Some((index, _)) = pick(listpack, model, at) else { return };
            listpack.remove_range(index as isize, count);
            model.drain(index..(index + count).min(model.len()));
        }
        Op::SplitAndSwap(at) => {
            let index = at % (model.len() + 1);
            let mut tail = listpack.split_off(index);
            assert_eq!((listpack.len(), tail.len()), (index, model.len() - index));
            tail.append(listpack);
            *listpack = tail;
            model.rotate_left(index);
        }
    }
}

/// Asserts the invariants and that the listpack shows what the model does.
fn check(listpack: &Listpack, model: &[Vec<u8>]) {
    assert_eq!(Listpack::from_bytes(listpack.as_bytes()).as_ref(), Ok(listpack));
    assert_eq!(listpack.len(), model.len());
    assert!(listpack.iter().map(Item::to_vec).eq(model.iter().cloned()));
    let elements = Elements::of(listpack.body());
    assert!(elements.len() == model.len() && elements.is_empty() == model.is_empty());
    assert!(elements.iter().eq(listpack.iter()));
    assert_eq!(Listpack::from_body(listpack.body()).as_bytes(), listpack.as_bytes());
    for element in model.iter().take(3) {
        let found = elements.find(element, 1).map(Iterator::count);
        assert_eq!(
            found,
            listpack
                .first()
                .and_then(|first| listpack.find_from(first, element, 1))
                .map(|pos| listpack.iter_from(pos).count())
        );
    }
    assert!(listpack.iter().rev().map(Item::to_vec).eq(model.iter().rev().cloned()));
    let mut pos = listpack.first();
    for element in model {
        let here = pos.expect("as many positions as elements");
        assert!(listpack.at(here) == element[..] && listpack.at(here).len() == element.len());
        pos = listpack.next(here);
    }
    assert!(pos.is_none());
    assert_eq!(listpack.last().map(|pos| listpack.at(pos).to_vec()), model.last().cloned());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn behaves_as_a_vector(ops in proptest::collection::vec(op(), 0..40), probe in element(), skip in 0usize..3) {
        let (mut listpack, mut model) = (Listpack::new(), Vec::new());
        for op in ops {
            apply(&mut listpack, &mut model, op);
            check(&listpack, &model);
        }
        for wanted in model.iter().chain([&probe]) {
            let expected = model.iter().step_by(skip + 1).position(|e| e == wanted).map(|at| at * (skip + 1));
            let found = listpack.find(wanted, skip);
            prop_assert_eq!(found, expected.and_then(|at| listpack.seek(at as isize)));
        }
        let len = model.len() as isize;
        prop_assert!(listpack.seek(len).is_none() && listpack.seek(-len - 1).is_none());
        prop_assert_eq!(listpack.seek(-len), listpack.first());
    }

    #[test]
    fn damaged_bytes_are_refused_or_read(
        elements in proptest::collection::vec(element(), 0..6),
        at in any::<usize>(), byte in any::<u8>(), cut in 0usize..4,
    ) {
        let mut bytes = elements.iter().collect::<Listpack>().as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut);
        fuzz(&bytes);
    }

    #[test]
    fn any_elements_with_a_true_header_are_refused_or_read(body in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut bytes = ((body.len() + 7) as u32).to_le_bytes().to_vec();
        bytes.extend(0xffffu16.to_le_bytes());
        bytes.extend(&body);
        bytes.push(END);
        fuzz(&bytes);
    }
}

/// The encodings at their bounds, as DUMP of Valkey 8.1 shows them.
#[test]
fn elements_have_the_bytes_of_other_servers() {
    let cases: &[(&[u8], &[u8])] = &[
        (b"0", &[0, 1]),
        (b"127", &[0x7f, 1]),
        (b"128", &[0xc0, 0x80, 2]),
        (b"-1", &[0xdf, 0xff, 2]),
        (b"4095", &[0xcf, 0xff, 2]),
        (b"-4096", &[0xd0, 0, 2]),
        (b"4096", &[0xf1, 0, 0x10, 3]),
        (b"-32768", &[0xf1, 0, 0x80, 3]),
        (b"32768", &[0xf2, 0, 0x80, 0, 4]),
        (b"8388608", &[0xf3, 0, 0, 0x80, 0, 5]),
        (b"2147483648", &[0xf4, 0, 0, 0, 0x80, 0, 0, 0, 0, 9]),
        (b"", &[0x80, 1]),
        (b"a", &[0x81, b'a', 2]),
        (b"01", &[0x82, b'0', b'1', 3]),
    ];
    for (element, bytes) in cases {
        let listpack: Listpack = [element].into_iter().collect();
        assert_eq!(&listpack.as_bytes()[HEADER..listpack.byte_len() - 1], *bytes, "{:?}", element.escape_ascii());
        assert_eq!(Listpack::entry_size(element), bytes.len());
    }
    let framed = |len: usize| {
        let listpack: Listpack = [vec![b'x'; len]].into_iter().collect();
        let bytes = listpack.as_bytes();
        let head = bytes[HEADER..].iter().take_while(|b| **b != b'x').count();
        (bytes[HEADER..HEADER + head].to_vec(), bytes[HEADER + head + len..bytes.len() - 1].to_vec())
    };
    assert_eq!(framed(63), (vec![0xbf], vec![64]));
    assert_eq!(framed(64), (vec![0xe0, 64], vec![66]));
    assert_eq!(framed(126), (vec![0xe0, 126], vec![1, 0x80]));
    assert_eq!(framed(4095), (vec![0xef, 0xff], vec![0x20, 0x81]));
    assert_eq!(framed(4096), (vec![0xf0, 0, 0x10, 0, 0], vec![0x20, 0x85]));
    // 16382 is the last length of two bytes.
    assert_eq!(framed(16_377), (vec![0xf0, 0xf9, 0x3f, 0, 0], vec![0x7f, 0xfe]));
    assert_eq!(framed(16_378), (vec![0xf0, 0xfa, 0x3f, 0, 0], vec![0, 0xff, 0xff]));
}

#[test]
fn more_elements_than_the_header_counts() {
    let mut listpack: Listpack = (0..70_000u32).map(|n| n.to_string()).collect();
    assert_eq!(listpack.len(), 70_000);
    assert_eq!(listpack.as_bytes()[COUNT_AT..HEADER], [0xff, 0xff]);
    assert_eq!(listpack.seek(69_999), listpack.last());
    assert_eq!(listpack.seek(-70_000), listpack.first());
    assert!(listpack.seek(70_000).is_none() && listpack.seek(-70_001).is_none());
    let tail = listpack.split_off(65_000);
    assert_eq!((listpack.len(), listpack.stored_count(), tail.len()), (65_000, 65_000, 5_000));
    listpack.append(&tail);
    assert_eq!((listpack.len(), listpack.stored_count()), (70_000, UNCOUNTED));
    listpack.remove_range(100, 60_000);
    assert_eq!(listpack.len(), 10_000);
    assert!(Listpack::from_bytes(listpack.as_bytes()).is_ok());
}

#[test]
fn a_listpack_is_eight_bytes_and_small_ones_waste_nothing() {
    assert_eq!(size_of::<Option<Listpack>>(), 8);
    assert_eq!(Listpack::new().memory_usage(), 8);
    let listpack: Listpack = ["1", "2", "3", "4"].into_iter().collect();
    assert_eq!((listpack.byte_len(), listpack.memory_usage()), (15, 16));
}

#[test]
fn room_ends_at_a_gibibyte() {
    let listpack = Listpack::new();
    assert!(listpack.has_room(SAFE_LEN - 7) && !listpack.has_room(SAFE_LEN - 6) && !listpack.has_room(usize::MAX));
}

#[test]
fn a_builder_makes_what_pushing_makes() {
    let words: Vec<Vec<u8>> = (0..200i64)
        .map(|n| if n % 3 == 0 { (n * n * 1000 - 9).to_string().into_bytes() } else { vec![b'w'; n as usize] })
        .collect();
    for count in [0, 1, 2, 200] {
        let mut builder = Builder::with_room(0);
        words[..count].iter().for_each(|word| builder.push(Item::of(word)));
        let pushed: Listpack = words[..count].iter().map(Vec::as_slice).collect();
        assert_eq!(builder.finish(), pushed.as_bytes());
    }
}
