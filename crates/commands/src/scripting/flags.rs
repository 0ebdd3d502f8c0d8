//! Rights and promises that a script's first line or a function's registration declares.

use crate::core::command::{DENY_OOM, Flags, MAY_REPLICATE, STALE, WRITE};
use engine::{Error, Word};

/// A set of these flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptFlags(pub u32);

impl ScriptFlags {
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1 << 0);
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(1 << 1);
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(1 << 2);
    pub const NO_CLUSTER: ScriptFlags = ScriptFlags(1 << 3);
    pub const ALLOW_CROSS_SLOT_KEYS: ScriptFlags = ScriptFlags(1 << 4);
    /// The script has no first line of this kind: its commands are checked one by one.
    pub const UNSPECIFIED: ScriptFlags = ScriptFlags(1 << 5);

    /// The flags that have names, in the order in which FUNCTION LIST shows them.
    pub const NAMES: [(ScriptFlags, &'static str); 5] = [
        (ScriptFlags::NO_WRITES, "no-writes"),
        (ScriptFlags::ALLOW_OOM, "allow-oom"),
        (ScriptFlags::ALLOW_STALE, "allow-stale"),
        (ScriptFlags::NO_CLUSTER, "no-cluster"),
        (ScriptFlags::ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
    ];

    pub fn has(self, flag: ScriptFlags) -> bool {
        self.0 & flag.0 != 0
    }

    /// Returns the flags of a call: those of the command, or, where the script declares flags, these.
    pub fn judge(told: Option<ScriptFlags>, flags: Flags) -> Flags {
        let Some(told) = told.filter(|told| !told.has(ScriptFlags::UNSPECIFIED)) else { return flags };
        let mut flags = flags.without(WRITE).without(DENY_OOM).without(STALE).without(MAY_REPLICATE);
        if !told.has(ScriptFlags::NO_WRITES) {
            flags = flags.and(WRITE);
            if !told.has(ScriptFlags::ALLOW_OOM) {
                flags = flags.and(DENY_OOM);
            }
        }
        if told.has(ScriptFlags::ALLOW_STALE) { flags.and(STALE) } else { flags }
    }

    pub fn named(name: &[u8]) -> Option<ScriptFlags> {
        ScriptFlags::NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(flag, _)| *flag)
    }

    /// The flags that a script is judged by: none are known of one whose first line is wrong. One for an engine that is
    /// not there allows nothing.
    pub fn told(text: &[u8]) -> Option<ScriptFlags> {
        match ScriptFlags::of_script(text) {
            Ok(flags) => Some(flags),
            Err(Error::ShebangEngineUnknown(_)) => Some(ScriptFlags::default()),
            Err(_) => None,
        }
    }

    /// The flags of a script, by its first line: `#!lua flags=no-writes,allow-oom`.
    pub fn of_script(text: &[u8]) -> Result<ScriptFlags, Error> {
        if !text.starts_with(b"#!") {
            return Ok(ScriptFlags::UNSPECIFIED);
        }
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(Error::Shebang)?;
        let words = resp::words::split(&text[..end]).ok_or(Error::ShebangEngine)?;
        let engine = words.first().and_then(|word| word.strip_prefix(b"#!")).unwrap_or_default();
        let mut flags = ScriptFlags::default();
        for word in words.get(1..).unwrap_or_default() {
            let Some(names) = word.strip_prefix(b"flags=") else {
                return Err(Error::ShebangOption(Word::of(word)));
            };
            for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
                let flag = ScriptFlags::named(name);
                flags.0 |= flag.ok_or_else(|| Error::ShebangFlag(Word::of(name)))?.0;
            }
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(Error::ShebangEngineUnknown(Word::of(engine)));
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_the_flags() {
        assert_eq!(ScriptFlags::of_script(b"return 1"), Ok(ScriptFlags::UNSPECIFIED));
        assert_eq!(ScriptFlags::of_script(b"#!lua\nreturn 1"), Ok(ScriptFlags::default()));
        let two = ScriptFlags(ScriptFlags::NO_WRITES.0 | ScriptFlags::ALLOW_STALE.0);
        assert_eq!(ScriptFlags::of_script(b"#!lua  flags=no-writes,allow-stale\n"), Ok(two));
        let error = |text: &str| ScriptFlags::of_script(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("#!lua"), "ERR Invalid script shebang");
        assert_eq!(error("#!js\n"), "ERR Could not find scripting engine 'js'");
        assert_eq!(error("#!js flags=x\n"), "ERR Unexpected flag in script shebang: x");
        assert_eq!(error("#!lua a=b\n"), "ERR Unknown lua shebang option: a=b");
        assert_eq!(error("#!lua flags=x\n"), "ERR Unexpected flag in script shebang: x");
        assert_eq!(error("#!lua flags=no-writes,\n"), "ERR Unexpected flag in script shebang: ");
        assert_eq!(error("#!lua flags=\"no-writes\n"), "ERR Invalid engine in script shebang");
        assert_eq!(ScriptFlags::of_script(b"#!lua \"flags=no-writes\"\n"), Ok(ScriptFlags::NO_WRITES));
        assert_eq!(ScriptFlags::of_script(b"#!lua flags=\n"), Ok(ScriptFlags::default()));
    }
}
