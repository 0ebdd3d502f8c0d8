//! Limits of a user: rules such as `quota:ops=1000`.
//!
//! ```text
//!   quota:ops=1000              commands a second           quota:connections=20
//!   quota:bytes=10mb            bytes a second, in and out  quota:memory:cache:=100mb     of keys with this prefix
//!   resetquota                  removes all limits          quota:ops=0                   removes this one
//! ```
//!
//! These are the limits. Their use is counted [by time](crate::acl::quota_usage) and
//! [by prefix](crate::acl::prefix_memory).

use crate::acl::prefix_memory::PrefixMemory;
use crate::acl::rule_error::RuleError;
use crate::config::directive_value::parse_memory;
use std::sync::Arc;

/// Largest rate a second that the counters can hold.
const RATE_MAX: u64 = 1 << 40;

/// The limits of a user.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    /// Commands a second.
    pub ops: Option<u64>,
    /// Bytes a second, of requests and replies together.
    pub bytes: Option<u64>,
    /// Connections at a time.
    pub connections: Option<u64>,
    /// Memory of keys by prefix.
    pub memory: Vec<MemoryQuota>,
}

/// Limit of the memory that the keys with a prefix may take.
#[derive(Clone, Debug)]
pub struct MemoryQuota {
    /// The prefix, and the memory of its keys.
    pub used: Arc<PrefixMemory>,
    /// Bytes.
    pub max: u64,
}

impl Quota {
    /// Whether there is no limit.
    pub fn is_none(&self) -> bool {
        !self.is_of_time() && self.connections.is_none() && self.memory.is_empty()
    }

    /// Whether a rate is limited, of commands or of bytes.
    pub fn is_of_time(&self) -> bool {
        self.ops.is_some() || self.bytes.is_some()
    }

    /// Changes it by the text that follows `quota:`.
    ///
    /// # Errors
    /// [`RuleError::Quota`]: the text is no limit; nothing has changed.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        // A prefix may have the sign.
        let sign = rule.iter().rposition(|byte| *byte == b'=').ok_or(RuleError::Quota)?;
        let (name, value) = (&rule[..sign], &rule[sign + 1..]);
        let starts_with_digit = value.first().is_some_and(u8::is_ascii_digit);
        let number = parse_memory(value).filter(|_| starts_with_digit).ok_or(RuleError::Quota)?;
        let limit = Some(number).filter(|number| *number > 0);
        let rate = limit.map(|number| number.min(RATE_MAX));
        match name.to_ascii_lowercase().as_slice() {
            b"ops" => self.ops = rate,
            b"bytes" => self.bytes = rate,
            b"connections" => self.connections = limit,
            [b'm', b'e', b'm', b'o', b'r', b'y', b':', ..] => self.limit_memory(&name[b"memory:".len()..], limit)?,
            _ => return Err(RuleError::Quota),
        }
        Ok(())
    }

    fn limit_memory(&mut self, prefix: &[u8], limit: Option<u64>) -> Result<(), RuleError> {
        if crate::acl::selector::has_spaces(prefix) {
            return Err(RuleError::Quota);
        }
        self.memory.retain(|known| known.used.prefix() != prefix);
        if let Some(max) = limit {
            self.memory.push(MemoryQuota { used: Arc::new(PrefixMemory::of(prefix)), max });
        }
        Ok(())
    }

    /// Returns the rules that make it, in bytes.
    pub fn rules(&self) -> Vec<Vec<u8>> {
        let limits = [("ops", self.ops), ("bytes", self.bytes), ("connections", self.connections)];
        let plain =
            limits.into_iter().filter_map(|(name, limit)| Some(format!("quota:{name}={}", limit?).into_bytes()));
        let memory = self
            .memory
            .iter()
            .map(|limit| [b"quota:memory:", limit.used.prefix(), b"=", limit.max.to_string().as_bytes()].concat());
        plain.chain(memory).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(rules: &[&str]) -> Result<Vec<String>, RuleError> {
        let mut quota = Quota::default();
        rules.iter().try_for_each(|rule| quota.apply(rule.as_bytes()))?;
        let rules = quota.rules().into_iter().map(|rule| String::from_utf8_lossy(&rule).into_owned()).collect();
        Ok(rules)
    }

    #[test]
    fn limits_are_shown_as_rules_that_make_them() {
        for (rules, shown) in [
            (&["ops=1000"][..], &["quota:ops=1000"][..]),
            (&["OPS=5", "bytes=10mb", "ops=7k"], &["quota:ops=7000", "quota:bytes=10485760"]),
            (&["connections=20", "connections=0"], &[]),
            (&["memory:cache:=1kb", "memory:=5"], &["quota:memory:cache:=1024", "quota:memory:=5"]),
            (&["memory:A=b=7", "memory:A=b=0", "memory:A=9"], &["quota:memory:A=9"]),
            (&["ops=99999999999999999"], &["quota:ops=1099511627776"]),
        ] {
            assert_eq!(quota(rules), Ok(shown.iter().map(|rule| (*rule).to_owned()).collect()), "{rules:?}");
        }
        for wrong in ["", "ops", "ops=", "ops=x", "ops=-1", "ops=5z", "memory=5", "memory:a b=5", "keys=5", "=5"] {
            assert_eq!(quota(&[wrong]), Err(RuleError::Quota), "{wrong}");
        }
    }
}
