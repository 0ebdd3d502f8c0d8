//! The fields of INFO as metrics.
//!
//! Each field of INFO's table says which metric it is. Metrics with labels are made of several fields here.

use cinnabar_admin::family::{Family, Kind, Labels};
use commands::server::info::ShownField;
use commands::server::info::field::{self, Metric, Value};
use engine::config::{Config, Directive};
use std::collections::BTreeMap;

/// Empty databases that are shown nevertheless, at most.
const EMPTY_MAX: u32 = 16;

/// The fields of INFO.
pub struct Info<'f> {
    fields: BTreeMap<&'f str, &'f Value>,
    metrics: Vec<(&'f Metric, &'f Value)>,
}

impl<'f> Info<'f> {
    pub fn new(fields: &'f [ShownField]) -> Info<'f> {
        let metric = |field: &'f ShownField| Some((field.metric?, &field.value));
        Info {
            fields: fields.iter().map(|field| (field.name.as_str(), &field.value)).collect(),
            metrics: fields.iter().filter_map(metric).collect(),
        }
    }

    fn text(&self, field: &str) -> String {
        self.fields.get(field).map_or_else(String::new, |value| value.to_string())
    }

    fn number(&self, field: &str) -> Option<f64> {
        self.fields.get(field)?.number()
    }

    /// Returns the fields of several things of one kind: `slave0:ip=::1,port=6380`.
    fn numbered(&self, prefix: &str) -> impl Iterator<Item = (&'f str, &'f Value)> {
        self.fields.iter().filter_map(move |(name, value)| {
            let number = name.strip_prefix(prefix)?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some((*name, *value))
        })
    }

    /// Adds metrics of all fields that are one.
    pub fn add_to(&self, families: &mut Vec<Family>, config: &Config) {
        self.instance(families);
        for (metric, value) in &self.metrics {
            if let Some(number) = value.number() {
                let kind = match metric.kind {
                    field::Kind::Counter => Kind::Counter,
                    field::Kind::Gauge => Kind::Gauge,
                };
                families.push(Family::number(
                    format!("redis_{}", metric.name),
                    kind,
                    metric.help,
                    number * metric.scale,
                ));
            }
        }
        self.keyspace(families, config);
        self.primary(families);
        self.replicas(families);
        self.in_sync_set(families);
        self.threads(families);
        self.certificates(families);
        for (name, directive, help) in [
            ("redis_config_maxclients", Directive::MAXCLIENTS, "Clients that there may be."),
            ("redis_config_maxmemory", Directive::MAXMEMORY, "The limit of memory in bytes; 0 for none."),
        ] {
            families.push(Family::number(name, Kind::Gauge, help, config.int(directive) as u64 as f64));
        }
    }

    fn instance(&self, families: &mut Vec<Family>) {
        families.push(Family::number("redis_up", Kind::Gauge, "Whether the server answers.", 1.0));
        if let (Some(now), Some(uptime)) = (self.number("server_time_usec"), self.number("uptime_in_seconds")) {
            let began = (now / 1e6 - uptime).floor();
            let help = "Unix time at which the server started.";
            families.push(Family::number("redis_start_time_seconds", Kind::Gauge, help, began));
        }
        // The field's name differs with `extended-redis-compatibility`.
        let mode = ["redis_mode", "server_mode"].map(|field| self.text(field)).concat();
        let as_called = ["role", "redis_version", "redis_build_id"];
        let others = ["os", "maxmemory_policy", "tcp_port", "run_id", "process_id", "master_replid"];
        let newer = ["valkey_version", "valkey_release_stage", "availability_zone"];
        let mut labels: Labels = as_called.map(|field| (field, self.text(field))).into();
        labels.push(("redis_mode", mode));
        labels.extend(others.map(|field| (field, self.text(field))));
        labels.extend(newer.map(|field| (field, self.text(field))).into_iter().filter(|(_, value)| !value.is_empty()));
        let mut family = Family::new("redis_instance_info", Kind::Gauge, "Version and kind of the server.");
        family.add(labels, 1.0);
        families.push(family);
        let mut family = Family::new("cinnabar_build_info", Kind::Gauge, "Which Cinnabar this is.");
        family.add(vec![("version", self.text("cinnabar_version"))], 1.0);
        families.push(family);
    }

    fn keyspace(&self, families: &mut Vec<Family>, config: &Config) {
        let mut keys = Family::new("redis_db_keys", Kind::Gauge, "Keys of a database.");
        let mut expiring = Family::new("redis_db_keys_expiring", Kind::Gauge, "Keys of a database with an expiry.");
        let help = "Mean time left of a database's keys with an expiry, by a sample.";
        let mut ttl = Family::new("redis_db_avg_ttl_seconds", Kind::Gauge, help);
        let help = "Keys of a database with fields that have an expiry.";
        let mut volatile = Family::new("redis_db_keys_with_expiring_items", Kind::Gauge, help);
        let mut dbs: BTreeMap<&str, Option<&Value>> = self.numbered("db").map(|(name, db)| (name, Some(db))).collect();
        let all = config.int(Directive::DATABASES).clamp(0, i64::from(EMPTY_MAX)) as u32;
        let names: Vec<String> = (0..all).map(|number| format!("db{number}")).collect();
        names.iter().for_each(|name| _ = dbs.entry(name).or_default());
        for (name, db) in dbs {
            let number = |field: &str| db.map_or(0.0, |db| part_number(db, field));
            let labels = || vec![("db", name.to_owned())];
            keys.add(labels(), number("keys"));
            expiring.add(labels(), number("expires"));
            if db.is_some() {
                ttl.add(labels(), number("avg_ttl") / 1000.0);
                volatile.add(labels(), number("keys_with_volatile_items"));
            }
        }
        families.extend([keys, expiring, ttl, volatile]);
    }

    /// Adds a replica's metrics of its primary.
    fn primary(&self, families: &mut Vec<Family>) {
        if !self.fields.contains_key("master_host") {
            return;
        }
        let labels = || ["master_host", "master_port"].map(|field| (field, self.text(field))).to_vec();
        for (field, name, help) in [
            ("master_link_status", "redis_master_link_up", "Whether the link to the primary is up."),
            (
                "master_last_io_seconds_ago",
                "redis_master_last_io_seconds_ago",
                "Seconds since something came from the primary; -1 while the link is down.",
            ),
            ("master_sync_in_progress", "redis_master_sync_in_progress", "Whether a snapshot of the primary comes."),
            ("slave_repl_offset", "redis_slave_repl_offset", "The offset of the stream that was applied."),
        ] {
            let mut family = Family::new(name, Kind::Gauge, help);
            family.add(labels(), self.number(field).unwrap_or(0.0));
            families.push(family);
        }
        let mut family = Family::new("redis_slave_info", Kind::Gauge, "Primary that the replica follows.");
        let mut labels = labels();
        labels.push(("read_only", self.text("slave_read_only")));
        family.add(labels, 1.0);
        families.push(family);
    }

    /// Adds the state of acknowledged writes, if clients ask for them, and the members without which no write is
    /// acknowledged.
    fn in_sync_set(&self, families: &mut Vec<Family>) {
        if !self.fields.contains_key("in_sync_state") {
            return;
        }
        let help = "The state of acknowledged writes: 1 for the one that the server is in.";
        let mut state = Family::new("cinnabar_in_sync_state", Kind::Gauge, help);
        for name in ["off", "open", "waiting", "blocked", "unconfirmed", "in-sync", "out-of-sync"] {
            state.add(vec![("state", name.to_owned())], f64::from(self.text("in_sync_state") == name));
        }
        families.push(state);
        let help = "Seconds since a member was heard of without which nothing is acknowledged.";
        let mut missing = Family::new("cinnabar_in_sync_missing_seconds", Kind::Gauge, help);
        for (_, fields) in self.numbered("in_sync_missing") {
            let labels = ["id", "addr"].map(|name| (name, part_text(fields, name)));
            missing.add(labels.to_vec(), part_number(fields, "seconds"));
        }
        families.push(missing);
    }

    /// Adds a primary's metrics of its replicas.
    fn replicas(&self, families: &mut Vec<Family>) {
        let help = "The offset that a replica has acknowledged.";
        let mut offsets = Family::new("redis_connected_slave_offset_bytes", Kind::Gauge, help);
        let help = "Seconds since a replica was heard of.";
        let mut lags = Family::new("redis_connected_slave_lag_seconds", Kind::Gauge, help);
        for (_, replica) in self.numbered("slave") {
            let labels = [("slave_ip", "ip"), ("slave_port", "port"), ("slave_state", "state")];
            let labels = || labels.map(|(label, name)| (label, part_text(replica, name))).to_vec();
            offsets.add(labels(), part_number(replica, "offset"));
            lags.add(labels(), part_number(replica, "lag"));
        }
        families.extend([offsets, lags]);
    }

    /// Adds workers but the first, in the terms of a server whose first thread executes.
    fn threads(&self, families: &mut Vec<Family>) {
        let help = "For how long a worker had something to do.";
        let mut family = Family::new("redis_active_time_io_thread_seconds_total", Kind::Counter, help);
        for (name, value) in &self.fields {
            let thread = name.strip_prefix("used_active_time_io_thread_");
            if let (Some(thread), Some(seconds)) = (thread, value.number()) {
                family.add(vec![("thread", thread.to_owned())], seconds);
            }
        }
        families.push(family);
    }

    fn certificates(&self, families: &mut Vec<Family>) {
        let mut family = Family::new("redis_tls_certificate_info", Kind::Gauge, "The certificates in use.");
        for certificate in ["server", "client", "ca"] {
            let serial = self.text(&format!("tls_{certificate}_cert_serial"));
            family.add(vec![("certificate", certificate.to_owned()), ("serial", serial)], 1.0);
        }
        families.push(family);
    }
}

/// Returns a part of a field as text; nothing without it.
fn part_text(value: &Value, name: &str) -> String {
    value.part(name).map_or_else(String::new, Value::to_string)
}

/// Returns a part of a field as a number; 0 without it.
fn part_number(value: &Value, name: &str) -> f64 {
    value.part(name).and_then(Value::number).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cinnabar_admin::prometheus;

    fn metrics(fields: Vec<(&str, Value)>) -> String {
        let field = |(name, value): (&str, Value)| {
            let metric = commands::server::info::metric(name);
            ShownField { name: name.to_owned(), value, metric }
        };
        let fields: Vec<ShownField> = fields.into_iter().map(field).collect();
        let mut families = Vec::new();
        Info::new(&fields).add_to(&mut families, &Config::default());
        prometheus::text(&families)
    }

    #[test]
    fn fields_are_metrics_in_their_units() {
        let text = metrics(vec![
            ("used_memory", 7u64.into()),
            ("latest_fork_usec", 1500u64.into()),
            ("rdb_last_bgsave_status", Value::well(false)),
            ("keyspace_hits", 3u64.into()),
            ("unknown", 1u64.into()),
            ("cluster_enabled", 0u64.into()),
            ("server_time_usec", 100_900_000u64.into()),
            ("uptime_in_seconds", 40u64.into()),
        ]);
        for line in [
            "redis_memory_used_bytes 7\n",
            "redis_latest_fork_seconds 0.0015\n",
            "redis_rdb_last_bgsave_status 0\n",
            "# TYPE redis_keyspace_hits_total counter\nredis_keyspace_hits_total 3\n",
            "redis_cluster_enabled 0\n",
            "redis_start_time_seconds 60\n",
            "redis_db_keys{db=\"db15\"} 0\n",
            "redis_up 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("unknown") && !text.contains("cluster_state") && !text.contains("master_link_up"));
    }

    #[test]
    fn databases_replicas_and_the_primary() {
        let text = metrics(vec![
            ("role", "slave".into()),
            ("server_mode", "standalone".into()),
            ("master_host", "::1".into()),
            ("master_port", 7u64.into()),
            ("master_link_status", Value::State(false, ["down", "up"])),
            ("slave_read_only", 1u64.into()),
            ("slave_repl_offset", 5u64.into()),
            (
                "slave0",
                Value::Parts(vec![
                    ("ip", "::1".into()),
                    ("port", 6380u64.into()),
                    ("state", "online".into()),
                    ("offset", 9u64.into()),
                    ("lag", 1u64.into()),
                ]),
            ),
            ("in_sync_state", "blocked".into()),
            (
                "in_sync_missing0",
                Value::Parts(vec![("id", "ab".into()), ("addr", "::1:6380".into()), ("seconds", 7u64.into())]),
            ),
            ("db3", Value::Parts(vec![("keys", 2u64.into()), ("expires", 1u64.into()), ("avg_ttl", 1500u64.into())])),
            ("cluster_enabled", 1u64.into()),
            ("cluster_state", Value::State(false, ["fail", "ok"])),
        ]);
        for line in [
            "redis_db_keys{db=\"db3\"} 2\n",
            "redis_db_avg_ttl_seconds{db=\"db3\"} 1.5\n",
            "redis_master_link_up{master_host=\"::1\",master_port=\"7\"} 0\n",
            "redis_slave_info{master_host=\"::1\",master_port=\"7\",read_only=\"1\"} 1\n",
            "redis_connected_slave_offset_bytes{slave_ip=\"::1\",slave_port=\"6380\",slave_state=\"online\"} 9\n",
            "cinnabar_in_sync_state{state=\"blocked\"} 1\n",
            "cinnabar_in_sync_state{state=\"open\"} 0\n",
            "cinnabar_in_sync_missing_seconds{id=\"ab\",addr=\"::1:6380\"} 7\n",
            "redis_cluster_state 0\n",
            "redis_mode=\"standalone\"",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
