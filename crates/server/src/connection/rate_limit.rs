//! A connection's use of its user's quota.
//!
//! A connection whose user has no quota is not counted. See docs/design/quotas.md.

use engine::acl::quota_usage::{Credit, QuotaUsage};
use engine::acl::user::User;
use engine::clients::registry::ClientInfo;
use engine::time::SteadyUs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Meter of one connection. When the connection ends, its credit or debt goes to its user's account.
#[derive(Debug, Default)]
pub struct RateLimit {
    account: Option<Box<Account>>,
}

/// Account of a connection that is counted.
#[derive(Debug)]
struct Account {
    usage: Arc<QuotaUsage>,
    info: Arc<ClientInfo>,
    credit: Credit,
    /// Bytes in both directions when they were last counted.
    counted: u64,
}

impl Account {
    fn count_bytes(&mut self) {
        let bytes = bytes_of(&self.info);
        self.credit.bytes -= bytes.saturating_sub(self.counted).cast_signed();
        self.counted = bytes;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.count_bytes();
        self.usage.settle(self.credit);
    }
}

fn bytes_of(info: &ClientInfo) -> u64 {
    info.input_bytes.load(Relaxed) + info.output_bytes.load(Relaxed)
}

impl RateLimit {
    /// Returns whether the connection is counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.account.is_some()
    }

    fn account_of(&mut self, user: &User, info: &Arc<ClientInfo>) -> &mut Account {
        if self.account.as_ref().is_some_and(|account| !Arc::ptr_eq(&account.usage, user.usage())) {
            self.end();
        }
        self.account.get_or_insert_with(|| {
            let (usage, info) = (Arc::clone(user.usage()), Arc::clone(info));
            let (credit, counted) = (Credit::default(), bytes_of(&info));
            Box::new(Account { usage, info, credit, counted })
        })
    }

    /// Stops counting: the user has no such quota.
    pub fn end(&mut self) {
        self.account = None;
    }

    /// Returns how many commands may run now under the user's quota.
    ///
    /// # Errors
    /// The time at which to ask again, where none may run.
    pub fn ask(&mut self, user: &User, info: &Arc<ClientInfo>, now: SteadyUs) -> Result<u64, SteadyUs> {
        let account = self.account_of(user, info);
        account.count_bytes();
        user.usage().grant(user.quota(), &mut account.credit, now)
    }

    /// Counts commands that have run.
    #[inline]
    pub fn count_commands(&mut self, commands: usize) {
        if let Some(account) = &mut self.account {
            account.credit.ops -= commands as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commands::core::acl_catalog::rule_context;
    use engine::time::UnixMs;
    use engine::{Engine, NullHost, Options};

    fn user(rules: &[&str]) -> User {
        commands::install(&[]);
        let engine = Engine::new(&Options::default(), Arc::new(NullHost));
        let mut user = User::new(b"u", rule_context(&engine));
        rules.iter().for_each(|rule| user.apply(rule.as_bytes(), rule_context(&engine)).expect("a rule"));
        user
    }

    #[test]
    fn commands_and_bytes_are_counted_from_the_first_question_on() {
        let info = Arc::new(ClientInfo::new(1, "", "", 0, 0, UnixMs(0)));
        let (user, now) = (user(&["quota:ops=200", "quota:bytes=100"]), SteadyUs(1_000_000));
        let mut meter = RateLimit::default();
        info.count_input(5000);
        meter.count_commands(77);
        assert!(!meter.is_on());
        assert_eq!(meter.ask(&user, &info, now), Ok(2), "what was before does not count");
        meter.count_commands(1);
        assert_eq!(meter.ask(&user, &info, now), Ok(1));
        info.count_output(3);
        assert_eq!(meter.ask(&user, &info, now), Err(SteadyUs(1_010_000)), "a debt is paid off lot by lot");
    }

    #[test]
    fn a_client_that_connects_anew_or_as_another_user_leaves_no_debt_behind() {
        let info = Arc::new(ClientInfo::new(1, "", "", 0, 0, UnixMs(0)));
        let (one, other, now) = (user(&["quota:bytes=1000"]), user(&["quota:bytes=1000"]), SteadyUs(1_000_000));
        let left = |user: &User| user.usage().left(user.quota(), now).bytes;
        let mut meter = RateLimit::default();
        assert_eq!(meter.ask(&one, &info, now), Ok(u64::MAX));
        info.count_output(400);
        assert_eq!(meter.ask(&other, &info, now), Ok(u64::MAX));
        assert_eq!((left(&one), left(&other)), (Some(600), Some(990)));
        info.count_output(70);
        drop(meter);
        assert_eq!(left(&other), Some(930));
    }
}
