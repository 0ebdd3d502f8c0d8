//! `math.random`: each interpreter has its own sequence, and the same seed gives the same one on every platform and
//! server.
//!
//! The generator is that of POSIX's `lrand48`: `x = x * 0x5DEECE66D + 0xB` modulo 2^48; the upper 31 bits are the
//! result.

use super::lua_arguments::FunctionWords;
use super::lua_memory;
use mlua::{Lua, MultiValue, Table};
use std::cell::Cell;
use std::rc::Rc;

const MAX: f64 = i32::MAX as f64;

#[derive(Default)]
struct Generator(Cell<u64>);

impl Generator {
    fn seed(&self, seed: u32) {
        self.0.set(u64::from(seed) << 16 | 0x330E);
    }

    fn next(&self) -> u32 {
        let next = self.0.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        self.0.set(next);
        (next >> 17) as u32
    }
}

/// Adds `random` and `randomseed` to the natives.
pub(super) fn add(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let generator = Rc::new(Generator::default());
    generator.seed(fastrand::u32(..));
    let seeded = Rc::clone(&generator);
    let random = move |lua: &Lua, values: MultiValue| {
        let part = f64::from(generator.next() % i32::MAX as u32) / MAX;
        let words = FunctionWords { lua, values };
        let (low, high) = match words.values.len() {
            0 => return Ok(part),
            1 => (1, words.int(0)?),
            2 => (words.int(0)?, words.int(1)?),
            _ => return Err(super::failure::message(lua, "wrong number of arguments")),
        };
        if low > high {
            return Err(words.wrong(words.values.len() - 1, "interval is empty"));
        }
        Ok((part * f64::from(high.wrapping_sub(low).wrapping_add(1))).floor() + f64::from(low))
    };
    native.raw_set("random", lua_memory::native(lua, random)?)?;
    let randomseed = move |lua: &Lua, values: MultiValue| {
        seeded.seed(FunctionWords { lua, values }.int(0)? as u32);
        Ok(())
    };
    native.raw_set("randomseed", lua_memory::native(lua, randomseed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_lrand48() {
        let generator = Generator::default();
        generator.seed(0);
        assert_eq!([generator.next(), generator.next(), generator.next()], [366_850_414, 1_610_402_240, 206_956_554]);
    }
}
