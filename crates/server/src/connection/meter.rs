//! What a connection uses of its user's quota.
//!
//! Nothing is counted of a connection whose user has none. See docs/design/quotas.md.

use engine::acl::quota_usage::Credit;
use engine::acl::user::User;
use engine::clients::registry::ClientInfo;
use engine::time::UnixUs;
use std::sync::atomic::Ordering::Relaxed;

/// Of one connection.
#[derive(Debug, Default)]
pub struct Meter {
    credit: Credit,
    /// The bytes that had come and gone when they were last counted; None: nothing is counted.
    counted: Option<u64>,
}

impl Meter {
    /// Whether it counts.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.counted.is_some()
    }

    /// Its user has no such quota.
    pub fn switch_off(&mut self) {
        *self = Meter::default();
    }

    /// How many commands may run now, as the user's quota has it.
    ///
    /// # Errors
    /// None: when to ask again.
    pub fn ask(&mut self, user: &User, info: &ClientInfo, now: UnixUs) -> Result<u64, UnixUs> {
        let bytes = info.input_bytes.load(Relaxed) + info.output_bytes.load(Relaxed);
        let counted = self.counted.replace(bytes).unwrap_or(bytes);
        self.credit.bytes -= bytes.saturating_sub(counted).cast_signed();
        user.usage().grant(user.quota(), &mut self.credit, now)
    }

    /// So many commands have run.
    #[inline]
    pub fn count_commands(&mut self, commands: usize) {
        if self.is_on() {
            self.credit.ops -= commands as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::time::UnixMs;

    fn user(rules: &[&str]) -> User {
        commands::install(&[]);
        let engine = engine::Engine::new(&engine::Options::default(), std::sync::Arc::new(engine::NullHost));
        let mut user = User::new(b"u", commands::core::acl_catalog::rule_context(&engine));
        for rule in rules {
            user.apply(rule.as_bytes(), commands::core::acl_catalog::rule_context(&engine)).expect("a rule");
        }
        user
    }

    #[test]
    fn commands_and_bytes_are_counted_from_the_first_question_on() {
        let info = ClientInfo::new(1, "", "", 0, 0, UnixMs(0));
        let (user, now) = (user(&["quota:ops=200", "quota:bytes=100"]), UnixUs(1_000_000));
        let mut meter = Meter::default();
        info.count_input(5000);
        meter.count_commands(77);
        assert!(!meter.is_on());
        assert_eq!(meter.ask(&user, &info, now), Ok(2), "what was before does not count");
        meter.count_commands(1);
        assert_eq!(meter.ask(&user, &info, now), Ok(1));
        info.count_output(3);
        assert_eq!(meter.ask(&user, &info, now), Err(UnixUs(1_010_000)), "a debt is paid off lot by lot");
        meter.switch_off();
        assert!(!meter.is_on());
        info.count_output(3000);
        assert_eq!(meter.ask(&user, &info, now), Ok(2));
    }
}
