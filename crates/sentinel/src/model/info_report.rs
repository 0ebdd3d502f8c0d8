//! The fields of a server's INFO that matter to a Sentinel. The text is the server's and may be anything.

use crate::model::effect::Millis;
use crate::model::instance::{Acknowledging, OwnFailover, Reported, Role};

/// Fields of INFO; None: the line is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfoReport {
    pub(crate) run_id: Option<String>,
    pub(crate) role: Option<Role>,
    /// Replicas that a primary lists: host and port.
    pub(crate) replicas: Vec<(String, i64)>,
    pub(crate) primary_host: Option<String>,
    pub(crate) primary_port: Option<i64>,
    pub(crate) primary_link_up: Option<bool>,
    /// Milliseconds for which the link to the primary is down.
    pub(crate) primary_link_down: i64,
    pub(crate) priority: Option<i64>,
    pub(crate) offset: Option<u64>,
    pub(crate) announced: Option<bool>,
    /// Whether it is in a failover of its own; servers that do not know FAILOVER omit it.
    pub(crate) failing_over: Option<bool>,
    /// Its part in acknowledged writes; None: it has none.
    pub(crate) acknowledges: Option<Acknowledging>,
    /// Whether it was promoted since it started; servers without acknowledged writes omit it.
    pub(crate) was_promoted: Option<bool>,
    /// Whether another primary has handed its lead over to it.
    pub(crate) is_handed_over: bool,
    /// Part of its data that may hold acknowledged writes; servers without acknowledged writes omit it.
    pub(crate) claimed_offset: Option<u64>,
}

/// Characters of a run id.
const RUN_ID: usize = 40;

impl InfoReport {
    /// Reads the answer to INFO.
    pub fn parse(info: &[u8]) -> InfoReport {
        let mut report = InfoReport::default();
        for line in String::from_utf8_lossy(info).split("\r\n") {
            if let Some((name, value)) = line.split_once(':') {
                report.field(name, value);
            }
        }
        report
    }

    /// Updates an instance's report, all but its role.
    pub(crate) fn apply(&self, reported: &mut Reported, now: Millis) {
        reported.primary_link_down = self.primary_link_down;
        if let Some(host) = &self.primary_host
            && !reported.primary_host.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(host))
        {
            reported.primary_host = Some(host.clone());
            reported.primary_changed = now;
        }
        if let Some(port) = self.primary_port
            && reported.primary_port != port
        {
            reported.primary_port = port;
            reported.primary_changed = now;
        }
        reported.primary_link_up = self.primary_link_up.unwrap_or(reported.primary_link_up);
        reported.priority = self.priority.unwrap_or(reported.priority);
        reported.offset = self.offset.unwrap_or(reported.offset);
        reported.claimed_offset = self.claimed_offset;
        reported.announced = self.announced.unwrap_or(reported.announced);
        let own_failover = match self.failing_over {
            Some(true) => OwnFailover::Busy,
            Some(false) => OwnFailover::Idle,
            None => reported.own_failover,
        };
        if reported.acknowledges != self.acknowledges {
            (reported.acknowledges, reported.acknowledges_since) = (self.acknowledges, now);
        }
        reported.was_started_as_primary = self.was_promoted == Some(false);
        let is_unconfirmed = self.acknowledges == Some(Acknowledging::Unconfirmed);
        reported.leads = self.role == Some(Role::Primary)
            && self.was_promoted == Some(true)
            && (self.is_handed_over || !is_unconfirmed);
        if own_failover != reported.own_failover {
            reported.own_failover = own_failover;
            reported.own_failover_since = now;
        }
    }

    fn field(&mut self, name: &str, value: &str) {
        match name {
            "run_id" => self.run_id = value.get(..RUN_ID).map(str::to_string).or(self.run_id.take()),
            "master_link_down_since_seconds" => self.primary_link_down = leading_number(value).saturating_mul(1000),
            "role" if value.starts_with("master") => self.role = Some(Role::Primary),
            "role" if value.starts_with("slave") => self.role = Some(Role::Replica),
            "in_sync_state" => self.acknowledges = Some(Acknowledging::of(value)),
            "in_sync_promoted" => self.was_promoted = Some(leading_number(value) != 0),
            "in_sync_handed_over" => self.is_handed_over = leading_number(value) != 0,
            "in_sync_offset" => self.claimed_offset = Some(leading_number(value).cast_unsigned()),
            "master_failover_state" => self.failing_over = Some(!value.starts_with("no-failover")),
            _ if is_replica_line(name) => self.replicas.extend(replica(value)),
            _ if self.role == Some(Role::Replica) => self.replica_field(name, value),
            _ => {}
        }
    }

    fn replica_field(&mut self, name: &str, value: &str) {
        match name {
            "master_host" => self.primary_host = Some(value.to_string()),
            "master_port" => self.primary_port = Some(leading_number(value)),
            "master_link_status" => self.primary_link_up = Some(value.eq_ignore_ascii_case("up")),
            "slave_priority" => self.priority = Some(leading_number(value)),
            "slave_repl_offset" => self.offset = Some(leading_number(value).cast_unsigned()),
            "replica_announced" => self.announced = Some(leading_number(value) != 0),
            _ => {}
        }
    }
}

/// Returns whether the name is `slave0`, `slave1`, ...
fn is_replica_line(name: &str) -> bool {
    name.strip_prefix("slave").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Parses `ip=<host>,port=<port>,...`, or, from old servers, `<host>,<port>,<state>`.
fn replica(value: &str) -> Option<(String, i64)> {
    let mut fields = value.split(',');
    if value.contains("ip=") {
        let named = |name: &str| value.split(',').find_map(|field| field.strip_prefix(name));
        return Some((named("ip=")?.to_string(), leading_number(named("port=")?)));
    }
    let (host, port) = (fields.next()?, fields.next()?);
    fields.next()?;
    Some((host.to_string(), leading_number(port)))
}

/// Returns the number at the beginning of a text as C's `atoi` reads it; 0 if there is none.
pub(crate) fn leading_number(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = if end == 0 { 0 } else { digits[..end].parse().unwrap_or(i64::MAX) };
    if negative { -number } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_and_its_replicas() {
        let id = "a".repeat(40);
        let text = format!(
            "# Server\r\nrun_id:{id}\r\nrole:master\r\nmaster_host:no\r\nmaster_failover_state:no-failover\r\n\
             slave0:ip=10.0.0.1,port=6380,state=online,offset=1,lag=0\r\nslave1:h,1,online\r\nslaves:3\r\nslave_x:1\r\n"
        );
        let report = InfoReport::parse(text.as_bytes());
        assert_eq!(report.run_id.as_deref(), Some(id.as_str()));
        assert_eq!(report.role, Some(Role::Primary));
        assert_eq!(report.replicas, [("10.0.0.1".to_string(), 6380), ("h".to_string(), 1)]);
        assert_eq!((report.primary_host, report.failing_over), (None, Some(false)));
    }

    #[test]
    fn a_replica() {
        let text = "role:slave\r\nmaster_host:h\r\nmaster_port:7x\r\nmaster_link_status:down\r\n\
                    master_link_down_since_seconds:3\r\nslave_repl_offset:12\r\nslave_priority:0\r\n\
                    replica_announced:0\r\nmaster_failover_state:waiting-for-sync\r\n";
        let report = InfoReport::parse(text.as_bytes());
        assert_eq!((report.primary_host.as_deref(), report.primary_port), (Some("h"), Some(7)));
        assert_eq!((report.primary_link_up, report.primary_link_down), (Some(false), 3000));
        assert_eq!((report.offset, report.priority, report.announced), (Some(12), Some(0), Some(false)));
        assert_eq!(report.failing_over, Some(true));
    }

    #[test]
    fn acknowledged_writes() {
        let states = ["unconfirmed", "blocked", "in-sync", "open", "waiting", "out-of-sync", ""];
        let read = states.map(|state| InfoReport::parse(format!("in_sync_state:{state}\r\n").as_bytes()).acknowledges);
        let (unsure, alone) = (Some(Acknowledging::Unconfirmed), Some(Acknowledging::Blocked));
        let (member, open, other) = (Acknowledging::Member, Acknowledging::Open, Some(Acknowledging::Other));
        assert_eq!(read, [unsure, alone, Some(member), Some(open), other, other, other]);
        assert_eq!(InfoReport::parse(b"in_sync_promoted:1\r\n").was_promoted, Some(true));
        assert_eq!(InfoReport::parse(b"role:master\r\n").acknowledges, None);
        let leader = InfoReport::parse(b"role:master\r\nin_sync_offset:7\r\nin_sync_handed_over:1\r\n");
        assert!(leader.is_handed_over && leader.claimed_offset == Some(7));
    }

    #[test]
    fn anything_else() {
        for text in ["", ":", "run_id:short", "slave0:", "slave0:ip=,", "slave0:ip=x", "role:", "run_id:\u{fe}\u{fe}"] {
            let report = InfoReport::parse(text.as_bytes());
            assert_eq!((report.run_id, report.role, report.replicas), (None, None, Vec::new()), "{text}");
        }
        assert_eq!(leading_number("-99999999999999999999"), -i64::MAX);
    }
}
