//! The libraries of scripts besides Lua's own.

mod bit;
mod cjson;
mod cjson_decode;
mod cmsgpack;
mod pack;

use mlua::{Lua, Table};

/// Returns all of them, by name.
pub(super) fn all(lua: &Lua) -> mlua::Result<Table> {
    let libraries = lua.create_table()?;
    libraries.raw_set("bit", bit::table(lua)?)?;
    libraries.raw_set("cjson", cjson::table(lua)?)?;
    libraries.raw_set("cmsgpack", cmsgpack::table(lua)?)?;
    libraries.raw_set("struct", pack::table(lua)?)?;
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use mlua::{Function, Lua, LuaString, MultiValue, Value};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Bytes that decoding may take for a byte of input: an element of a table, and the table.
    const BYTES_MAX: usize = 200;

    fn libraries() -> Lua {
        let lua = Lua::new();
        let libraries = super::all(&lua).expect("the libraries");
        libraries.for_each(|name: String, library: Value| lua.globals().raw_set(name, library)).expect("globals");
        lua
    }

    /// Decodes bytes, which must end with a value or an error, and without more memory than they are worth.
    fn decode(function: &str, words: &[&[u8]]) -> Option<usize> {
        let lua = libraries();
        let function: Function = lua.load(format!("return {function}")).eval().expect("a function");
        let words: MultiValue =
            words.iter().map(|word| Value::String(lua.create_string(word).expect("a text"))).collect();
        let len: usize =
            100 + words.iter().map(|word| word.as_string().map_or(0, |text| text.as_bytes().len())).sum::<usize>();
        lua.gc_stop();
        let before = lua.used_memory();
        let values = function.call::<MultiValue>(words);
        let took = lua.used_memory() - before;
        // An error contains the place where it was found.
        assert!(took <= BYTES_MAX * len + 4096, "{took} bytes for {len}");
        values.ok().map(|values| values.len())
    }

    /// A Lua expression of nested tables.
    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("true".to_owned()),
            any::<i32>().prop_map(|number| number.to_string()),
            any::<f32>().prop_filter("a number", |number| number.is_finite()).prop_map(|number| format!("{number:e}")),
            "[a-z0-9]{0,40}".prop_map(|text| format!("'{text}'")),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                vec(inner.clone(), 1..5).prop_map(|items| format!("{{{}}}", items.join(","))),
                vec(("[a-z]{1,9}", inner), 1..5).prop_map(|items| {
                    let items: Vec<_> = items.iter().map(|(name, value)| format!("['{name}']={value}")).collect();
                    format!("{{{}}}", items.join(","))
                }),
            ]
        })
    }

    const SAME: &str = "local function same(a, b)
            if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
            for k, v in pairs(a) do if not same(v, b[k]) then return false end end
            for k in pairs(b) do if a[k] == nil then return false end end
            return true
        end
        return same";

    fn comes_back(encode: &str, decode: &str, value: &str) {
        let lua = libraries();
        let same: Function = lua.load(SAME).eval().expect("a function");
        let value: Value = lua.load(format!("return {value}")).eval().expect("a value");
        let function = |name: &str| lua.load(format!("return {name}")).eval::<Function>().expect("a function");
        let bytes: LuaString = function(encode).call(value.clone()).expect("bytes");
        let decoded: Value = function(decode).call(bytes).expect("a value");
        assert!(same.call::<bool>((value, decoded)).expect("an answer"));
    }

    /// Returns bytes that begin like a packed value.
    fn packed() -> impl Strategy<Value = Vec<u8>> {
        let tag = proptest::sample::select(vec![
            0x81, 0x92, 0xa3, 0xc0, 0xca, 0xcf, 0xd3, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf,
        ]);
        vec(prop_oneof![tag, any::<u8>(), Just(0), Just(0xff)], 0..64)
    }

    /// As lua-cjson has it: a text that C reads as a number and JSON does not is one where that is allowed.
    #[test]
    fn errors_say_what_is_wrong_with_a_number() {
        for (text, are_allowed, not_allowed) in [
            ("+", "invalid number at character 1", "invalid token at character 1"),
            ("+1", "1", "invalid token at character 1"),
            ("-", "invalid number at character 1", "invalid number at character 1"),
            ("01", "1", "invalid number at character 1"),
            ("inf", "inf", "invalid token at character 1"),
            ("0x", "invalid token at character 2", "invalid number at character 1"),
        ] {
            for (allowed, expected) in [(true, are_allowed), (false, not_allowed)] {
                let script = format!(
                    "cjson.decode_invalid_numbers({allowed})
                    return tostring(select(2, pcall(cjson.decode, '{text}')))"
                );
                let said: String = libraries().load(script).eval().expect("an answer");
                assert!(said.lines().next().expect("a line").ends_with(expected), "{text}, {allowed}: {said}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in packed()) {
            decode("cmsgpack.unpack", &[&bytes]);
            decode("cmsgpack.unpack_one", &[&bytes, b"1"]);
            decode("cjson.decode", &[&bytes]);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in "[\\[\\]{}:,\"\\\\ud0-9eE.+a-f-]{0,60}") {
            decode("cjson.decode", &[text.as_bytes()]);
        }

        #[test]
        fn any_format_is_followed_or_refused(format in "[bBhHlLiIfdsxzc><=!T 0-9]{0,12}", bytes in vec(any::<u8>(), 0..40)) {
            decode("struct.unpack", &[format.as_bytes(), &bytes]);
            decode("struct.size", &[format.as_bytes()]);
            decode("struct.pack", &[format.as_bytes(), b"1", &bytes, b"2", b"3"]);
        }

        #[test]
        fn encoded_values_come_back(value in value()) {
            comes_back("cjson.encode", "cjson.decode", &format!("{{{value}}}"));
            comes_back("cmsgpack.pack", "cmsgpack.unpack", &value);
        }

        #[test]
        fn packed_values_come_back(a in any::<i32>(), b in any::<u16>(), c in any::<f64>(), text in "[a-z]{0,9}") {
            let lua = libraries();
            let format = ">!8iHdsc3";
            let pack: Function = lua.load("return struct.pack").eval().expect("a function");
            let unpack: Function = lua.load("return struct.unpack").eval().expect("a function");
            let bytes: LuaString = pack.call((format, a, b, c, text.as_str(), "xyz")).expect("bytes");
            let found: (i64, u16, f64, String, String, usize) = unpack.call((format, &bytes)).expect("values");
            prop_assert_eq!(found, (a.into(), b, c, text, "xyz".to_owned(), bytes.as_bytes().len() + 1));
        }
    }

    #[test]
    fn lengths_that_are_only_told_cost_nothing() {
        for bytes in
            [&b"\xdd\xff\xff\xff\xff"[..], b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xdc\xff\xff\xc0"]
        {
            assert_eq!(decode("cmsgpack.unpack", &[bytes]), None);
        }
        assert_eq!(decode("struct.unpack", &[b"c2147483647", b"x"]), None);
        // Unoptimized code takes more of the stack for a level than a test's thread has.
        let deep = || {
            assert_eq!(decode("cjson.decode", &[&b"[".repeat(100_000)]), None);
            assert_eq!(decode("cmsgpack.unpack", &[&b"\x91".repeat(100_000)]), None);
        };
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(deep).expect("a thread");
        thread.join().expect("no failure");
    }
}
