//! Use of a user's quota: commands and bytes as time passes, and connections.
//!
//! ```text
//!   second by second            lot                    command by command
//!   [ bucket of the user ] ---- 1/100 of a second ---> [ credit of a connection ]
//! ```
//!
//! A **bucket** fills with time, up to the amount of one second. All connections of the user share it, so a connection
//! takes a **lot** at a time and spends it alone. A connection may spend more than its lot, since the length of a reply
//! is known when it is written; it resumes when further lots have covered the debt, and a debt that is left when it
//! ends is charged to the bucket. A connection that finds no lot learns when to retry. The caller passes the time in:
//! nothing here has a clock.

use crate::acl::quota::Quota;
use crate::locks::sync::Mutex;
use crate::time::SteadyUs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Unit of a bucket's level: so many come in a microsecond as the quota allows commands or bytes in a second.
const MILLION: i64 = 1_000_000;
/// Lots a second.
const LOTS: u64 = 100;

/// Amount that the user may still spend, and when it was last computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    level: i64,
    at: SteadyUs,
    /// Amount that connections have given back or overspent since then; added when the bucket is next filled.
    returned: i64,
}

impl Default for Bucket {
    /// Makes a full bucket.
    fn default() -> Bucket {
        Bucket { level: 0, at: SteadyUs(i64::MIN), returned: 0 }
    }
}

impl Bucket {
    fn fill(&mut self, rate: u64, now: SteadyUs) {
        let (rate, passed) = (rate.cast_signed(), now.since(self.at).max(0));
        let filled = self.level.saturating_add(rate.saturating_mul(passed)).min(rate * MILLION);
        self.level = filled.saturating_add(std::mem::take(&mut self.returned)).min(rate * MILLION);
        // Another thread may have read its clock before.
        self.at = self.at.max(now);
    }

    /// Takes a lot, or returns when there will be one.
    fn take(&mut self, rate: u64, now: SteadyUs) -> Result<i64, SteadyUs> {
        self.fill(rate, now);
        let lot = (rate / LOTS).max(1).cast_signed();
        let missing = (lot * MILLION).saturating_sub(self.level);
        if missing > 0 {
            // The quota may end while the connection waits, so a long wait is cut into shorter ones.
            let wait = missing.cast_unsigned().div_ceil(rate).min(MILLION.cast_unsigned());
            return Err(SteadyUs(now.0.saturating_add(wait.cast_signed())));
        }
        self.level -= lot * MILLION;
        Ok(lot)
    }

    fn put_back(&mut self, amount: i64) {
        self.returned = self.returned.saturating_add(amount.saturating_mul(MILLION));
    }
}

/// Amount that a connection may spend before it takes another lot; below zero: its debt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Commands.
    pub ops: i64,
    /// Bytes.
    pub bytes: i64,
}

/// Use of a user's quota by all of its connections.
#[derive(Debug, Default)]
pub struct QuotaUsage {
    buckets: Mutex<Buckets>,
    connections: AtomicU64,
}

#[derive(Debug, Default)]
struct Buckets {
    ops: Bucket,
    bytes: Bucket,
}

/// Amount that a user may still spend in this second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Commands; None: they are not limited.
    pub ops: Option<u64>,
    /// Bytes, likewise.
    pub bytes: Option<u64>,
}

impl QuotaUsage {
    /// Fills up the credit of a connection where it is limited. Returns how many commands the connection may run.
    ///
    /// # Errors
    /// The time at which to retry.
    pub fn grant(&self, quota: &Quota, credit: &mut Credit, now: SteadyUs) -> Result<u64, SteadyUs> {
        // A debt is dropped when its limit is removed, even if the limit comes back.
        *credit = Credit {
            ops: if quota.ops.is_some() { credit.ops } else { 0 },
            bytes: if quota.bytes.is_some() { credit.bytes } else { 0 },
        };
        let wants = |limit: Option<u64>, has: i64| limit.filter(|_| has <= 0);
        let (ops, bytes) = (wants(quota.ops, credit.ops), wants(quota.bytes, credit.bytes));
        if ops.is_some() || bytes.is_some() {
            let mut buckets = self.buckets.lock();
            // A lot of one bucket is retained even if the other bucket has none.
            let ops = ops.map_or(Ok(0), |rate| buckets.ops.take(rate, now));
            let bytes = bytes.map_or(Ok(0), |rate| buckets.bytes.take(rate, now));
            credit.ops += ops.unwrap_or(0);
            credit.bytes += bytes.unwrap_or(0);
            let until = ops.err().max(bytes.err());
            drop(buckets);
            if let Some(until) = until {
                return Err(until);
            }
            // A debt is paid off lot by lot, so that the user's other connections get their turns.
            if wants(quota.ops, credit.ops).is_some() || wants(quota.bytes, credit.bytes).is_some() {
                return Err(SteadyUs(now.0.saturating_add(MILLION / LOTS.cast_signed())));
            }
        }
        Ok(if quota.ops.is_some() { credit.ops.max(0).cast_unsigned() } else { u64::MAX })
    }

    /// Puts a connection's credit back when it ends or changes its user. A debt is charged to all connections of the
    /// user, so that a client cannot shed it by connecting anew.
    pub fn settle(&self, credit: Credit) {
        let mut buckets = self.buckets.lock();
        buckets.ops.put_back(credit.ops);
        buckets.bytes.put_back(credit.bytes);
    }

    /// Returns the amount that may still be spent.
    pub fn left(&self, quota: &Quota, now: SteadyUs) -> Left {
        let mut buckets = self.buckets.lock();
        let left = |bucket: &mut Bucket, limit: Option<u64>| {
            limit.map(|rate| {
                bucket.fill(rate, now);
                (bucket.level / MILLION).max(0).cast_unsigned()
            })
        };
        let Buckets { ops, bytes } = &mut *buckets;
        Left { ops: left(ops, quota.ops), bytes: left(bytes, quota.bytes) }
    }

    /// Counts one more connection, if that does not exceed `max`.
    pub fn connect(self: &Arc<Self>, max: u64) -> Option<QuotaSeat> {
        let more = |count| Some(count + 1).filter(|count| *count <= max);
        self.connections.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(QuotaSeat(Arc::clone(self)))
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

/// One connection of the user, counted until this is dropped.
#[derive(Debug)]
pub struct QuotaSeat(Arc<QuotaUsage>);

impl Drop for QuotaSeat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quota(ops: Option<u64>, bytes: Option<u64>) -> Quota {
        Quota { ops, bytes, ..Quota::default() }
    }

    #[test]
    fn a_second_may_be_used_at_once_and_then_what_time_brings() {
        let (usage, quota, mut credit) = (QuotaUsage::default(), quota(Some(10), None), Credit::default());
        let start = SteadyUs(1_700_000_000_000_000);
        let mut run = |at: i64| {
            let granted = usage.grant(&quota, &mut credit, SteadyUs(start.0 + at))?;
            credit.ops -= granted.cast_signed();
            Ok(granted)
        };
        assert!((0..10).all(|_| run(0) == Ok(1)));
        assert_eq!(run(0), Err(SteadyUs(start.0 + 100_000)));
        assert_eq!((run(99_999), run(100_000)), (Err(SteadyUs(start.0 + 100_000)), Ok(1)));
        assert_eq!(run(3_600_000_000), Ok(1));
        assert_eq!((0..20).take_while(|_| run(3_600_000_000).is_ok()).count(), 9, "no more than a second is saved up");
    }

    #[test]
    fn overuse_is_paid_off_lot_by_lot() {
        let (usage, quota, mut credit) = (QuotaUsage::default(), quota(None, Some(1000)), Credit::default());
        assert_eq!(usage.grant(&quota, &mut credit, SteadyUs(0)), Ok(u64::MAX));
        credit.bytes -= 35;
        let mut now = SteadyUs(0);
        let mut waits = 0;
        while let Err(until) = usage.grant(&quota, &mut credit, now) {
            assert!(until > now);
            (now, waits) = (until, waits + 1);
        }
        assert_eq!((waits, credit.bytes), (2, 5));
    }

    #[test]
    fn a_debt_at_the_end_is_owed_by_all() {
        let (usage, quota) = (QuotaUsage::default(), quota(None, Some(1000)));
        let (mut one, mut other) = (Credit::default(), Credit::default());
        assert_eq!(usage.grant(&quota, &mut one, SteadyUs(0)), Ok(u64::MAX));
        one.bytes -= 5000;
        usage.settle(one);
        assert_eq!(usage.left(&quota, SteadyUs(0)).bytes, Some(0));
        assert_eq!(usage.grant(&quota, &mut other, SteadyUs(0)), Err(SteadyUs(1_000_000)), "it asks again");
        assert!(usage.grant(&quota, &mut other, SteadyUs(4_000_000)).is_err());
        assert_eq!(usage.grant(&quota, &mut other, SteadyUs(4_010_000)), Ok(u64::MAX));
        usage.settle(other);
        assert_eq!(usage.left(&quota, SteadyUs(4_510_000)).bytes, Some(510), "and what is left goes back");
    }

    #[test]
    fn connections_count_as_long_as_they_last() {
        let usage = Arc::new(QuotaUsage::default());
        let (one, two) = (usage.connect(2), usage.connect(2));
        assert!(one.is_some() && two.is_some() && usage.connect(2).is_none() && usage.connections() == 2);
        drop(one);
        assert!(usage.connect(2).is_some(), "and is dropped at once");
        assert_eq!(usage.connections(), 1);
    }

    proptest! {
        /// Whatever connections request and whenever: the grants never exceed a second's worth and the amount that time
        /// has brought; and a connection that retries when it is told to gets a grant.
        #[test]
        fn no_more_is_granted_than_time_brings_and_nobody_waits_for_good(
            rate in 1u64..2_000_000,
            steps in prop::collection::vec((0usize..3, 0i64..50_000, 0i64..3000), 1..200),
        ) {
            let (usage, quota) = (QuotaUsage::default(), quota(Some(rate), None));
            let mut credits = [Credit::default(); 3];
            let (mut now, mut used) = (0i64, 0i64);
            for (connection, passes, uses) in steps {
                now += passes;
                let credit = &mut credits[connection];
                match usage.grant(&quota, credit, SteadyUs(now)) {
                    Ok(granted) => {
                        let uses = uses.min(granted.cast_signed());
                        credit.ops -= uses;
                        used += uses;
                    }
                    Err(until) => prop_assert!(until.0 > now && until.0 <= now + 1_000_000),
                }
                let brought = rate.cast_signed() + (rate as i128 * now as i128 / 1_000_000) as i64;
                prop_assert!(used <= brought, "{used} of {brought}");
            }
            let mut tries = 0;
            while let Err(until) = usage.grant(&quota, &mut credits[0], SteadyUs(now)) {
                (now, tries) = (until.0, tries + 1);
                prop_assert!(tries < 3);
            }
        }
    }
}
