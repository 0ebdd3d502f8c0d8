//! Tests of sketches: against a plain model of registers, and with bytes that other servers wrote.

use super::*;
use proptest::prelude::*;

/// The registers that elements lead to, without any encoding.
fn model(elements: &[Vec<u8>]) -> Box<[u8; REGISTERS]> {
    let mut registers = zeros();
    for element in elements {
        let (index, run) = place(element);
        registers[index] = registers[index].max(run);
    }
    registers
}

fn registers_of(bytes: &[u8]) -> Box<[u8; REGISTERS]> {
    let mut registers = Registers::default();
    registers.merge(bytes).unwrap();
    registers.values()
}

fn dense_of(registers: &[u8; REGISTERS]) -> Vec<u8> {
    let mut bytes = new();
    make_dense(&mut bytes).unwrap();
    dense::pack_groups(registers, &mut bytes[HEADER..]);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn both_encodings_hold_what_was_added(
        elements in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..80),
        sparse_max in 0usize..400,
    ) {
        let mut bytes = new();
        for element in &elements {
            let before = registers_of(&bytes);
            let changed = add(&mut bytes, element, sparse_max).unwrap();
            prop_assert_eq!(changed, registers_of(&bytes) != before);
        }
        let expected = model(&elements);
        prop_assert!(registers_of(&bytes) == expected);
        prop_assert_eq!(count(&bytes), count(&dense_of(&expected)));
        make_dense(&mut bytes).unwrap();
        prop_assert!(registers_of(&bytes) == expected);
    }

    #[test]
    fn merging_is_the_union(
        left in proptest::collection::vec(any::<u32>(), 0..300),
        right in proptest::collection::vec(any::<u32>(), 0..300),
        densely in any::<bool>(),
        both in any::<bool>(),
    ) {
        let sketch = |numbers: &[u32], dense: bool| {
            let mut bytes = new();
            for number in numbers {
                add(&mut bytes, &number.to_le_bytes(), 3000).unwrap();
            }
            if dense {
                make_dense(&mut bytes).unwrap();
            }
            bytes
        };
        let (mut target, other) = (sketch(&left, both), sketch(&right, densely || both));
        let mut all = Registers::default();
        let mut counted = Registers::for_count();
        for bytes in [&target, &other] {
            all.merge(bytes).unwrap();
            counted.merge(bytes).unwrap();
        }
        prop_assert!(counted.values() == all.values());
        prop_assert_eq!([all.count(), counted.count()], [count(&sketch(&[left.clone(), right.clone()].concat(), false)).unwrap(); 2]);
        all.store(&mut target, densely || both, 3000).unwrap();
        prop_assert!(registers_of(&target) == registers_of(&sketch(&[left, right].concat(), false)));
        prop_assert_eq!(cached_count(&target), None);
    }

    #[test]
    fn a_union_has_the_higher_of_any_two_registers(seed in any::<u64>(), equal in 0u8..64) {
        // Many are equal, so that a neighbour that takes part in a comparison shows.
        let draw = |of: u64| -> [u8; REGISTERS] {
            std::array::from_fn(|at| match murmur64a(&(at as u64).to_le_bytes(), seed ^ of).to_le_bytes() {
                [0..64, ..] => equal,
                [_, other, ..] => other & 63,
            })
        };
        let (left, right, third) = (draw(1), draw(2), draw(3));
        let sketches = [&left, &right, &third].map(dense_of);
        let (mut union, mut together) = (Registers::default(), Registers::default());
        sketches.iter().for_each(|bytes| union.merge(bytes).unwrap());
        together.merge_dense(sketches.iter().map(Vec::as_slice)).unwrap();
        let expected: [u8; REGISTERS] = std::array::from_fn(|at| left[at].max(right[at]).max(third[at]));
        prop_assert!(*union.values() == expected && *together.values() == expected);
        let mut target = new();
        union.store(&mut target, true, 3000).unwrap();
        prop_assert!(target[HEADER..] == dense_of(&expected)[HEADER..]);
    }

    #[test]
    fn corrupt_bytes_do_no_harm(tail in proptest::collection::vec(any::<u8>(), 0..64), encoding in 0u8..3) {
        let mut bytes = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        bytes[ENCODING] = encoding;
        bytes.extend_from_slice(&tail);
        let _ = (count(&bytes), describe(&bytes));
        let _ = add(&mut bytes.clone(), b"x", 3000);
        let _ = make_dense(&mut bytes.clone());
        let _ = Registers::default().merge(&bytes);
    }
}

#[test]
fn the_bytes_are_those_of_other_servers() {
    // PFADD h a b c, on Valkey 8.1.1.
    let mut bytes = new();
    for element in [b"a", b"b", b"c"] {
        assert_eq!(add(&mut bytes, element, 3000), Ok(true));
    }
    assert_eq!(describe(&bytes).unwrap(), "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603");
    assert_eq!(add(&mut bytes, b"a", 3000), Ok(false));
    assert_eq!((cached_count(&bytes), count(&bytes)), (None, Ok(3)));
    set_cached_count(&mut bytes, Some(3));
    assert_eq!(cached_count(&bytes), Some(3));
}

#[test]
fn a_sparse_sketch_turns_dense_when_it_grows() {
    let mut bytes = new();
    let mut len = bytes.len();
    for n in 0u32..2000 {
        add(&mut bytes, &n.to_le_bytes(), 1000).unwrap();
        if encoding(&bytes) == Some(Encoding::Sparse) {
            assert!(bytes.len() <= 1000);
            len = bytes.len();
        }
    }
    assert!(len > 900);
    assert_eq!((encoding(&bytes), bytes.len()), (Some(Encoding::Dense), DENSE_LEN));
}

#[test]
fn the_machine_counts_right() {
    assert_eq!(self_test(), Ok(()));
    set_simd(false);
    assert_eq!(self_test(), Ok(()));
    set_simd(true);
}
