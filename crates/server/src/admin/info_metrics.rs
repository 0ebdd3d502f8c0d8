//! The fields of INFO as metrics.
//!
//! INFO's text is the source, so that both always show the same.

use crate::admin::info_table::{CLIENTS, CLUSTER, InfoMetric, MEMORY, PERSISTENCE, REPLICATION, SERVER, STATS};
use cinnabar_admin::family::{Family, Kind, Labels};
use engine::config::{Config, Directive};
use std::collections::BTreeMap;

/// Empty databases that are shown nevertheless, at most.
const EMPTY_MAX: u32 = 16;

/// The fields of INFO.
pub struct Info<'t> {
    fields: BTreeMap<&'t str, &'t str>,
}

impl<'t> Info<'t> {
    /// Parses INFO's text.
    pub fn parse(text: &'t str) -> Info<'t> {
        Info { fields: text.lines().filter_map(|line| line.split_once(':')).collect() }
    }

    fn text(&self, field: &str) -> String {
        self.fields.get(field).copied().unwrap_or_default().to_owned()
    }

    fn number(&self, field: &str) -> Option<f64> {
        match *self.fields.get(field)? {
            "ok" | "up" => Some(1.0),
            "err" | "fail" | "down" => Some(0.0),
            number => number.parse().ok(),
        }
    }

    /// Returns the fields of several things of one kind: `slave0:ip=::1,port=6380`.
    fn numbered(&self, prefix: &str) -> impl Iterator<Item = (&'t str, BTreeMap<&'t str, &'t str>)> {
        self.fields.iter().filter_map(move |(name, value)| {
            let number = name.strip_prefix(prefix)?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| (*name, value.split(',').filter_map(|pair| pair.split_once('=')).collect()))
        })
    }

    /// Adds metrics of all fields that are one.
    pub fn add_to(&self, families: &mut Vec<Family>, config: &Config) {
        self.instance(families);
        for table in [SERVER, CLIENTS, MEMORY, PERSISTENCE, STATS, REPLICATION] {
            self.table(families, table);
        }
        if self.number("cluster_enabled") == Some(1.0) {
            self.table(families, CLUSTER);
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

    fn table(&self, families: &mut Vec<Family>, table: &[InfoMetric]) {
        for InfoMetric { field, name, kind, scale, help } in table {
            if let Some(number) = self.number(field) {
                families.push(Family::number(format!("redis_{name}"), *kind, *help, number * scale));
            }
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
        let mut dbs: BTreeMap<&str, BTreeMap<&str, &str>> = self.numbered("db").collect();
        let all = config.int(Directive::DATABASES).clamp(0, i64::from(EMPTY_MAX)) as u32;
        let names: Vec<String> = (0..all).map(|number| format!("db{number}")).collect();
        names.iter().for_each(|name| _ = dbs.entry(name).or_default());
        for (name, db) in dbs {
            let number = |field: &str| db.get(field).and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0);
            let labels = || vec![("db", name.to_owned())];
            keys.add(labels(), number("keys"));
            expiring.add(labels(), number("expires"));
            if db.contains_key("keys") {
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
            let labels = ["id", "addr"].map(|name| (name, fields.get(name).copied().unwrap_or_default().to_owned()));
            let seconds = fields.get("seconds").and_then(|text| text.parse().ok()).unwrap_or(0.0);
            missing.add(labels.to_vec(), seconds);
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
            let text = |field: &str| replica.get(field).copied().unwrap_or_default().to_owned();
            let number = |field: &str| text(field).parse().unwrap_or(0.0);
            let labels =
                || vec![("slave_ip", text("ip")), ("slave_port", text("port")), ("slave_state", text("state"))];
            offsets.add(labels(), number("offset"));
            lags.add(labels(), number("lag"));
        }
        families.extend([offsets, lags]);
    }

    /// Adds workers but the first, in the terms of a server whose first thread executes.
    fn threads(&self, families: &mut Vec<Family>) {
        let help = "For how long a worker had something to do.";
        let mut family = Family::new("redis_active_time_io_thread_seconds_total", Kind::Counter, help);
        for (name, value) in &self.fields {
            let thread = name.strip_prefix("used_active_time_io_thread_");
            if let (Some(thread), Ok(seconds)) = (thread, value.parse()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cinnabar_admin::prometheus;

    fn metrics(info: &str) -> String {
        let mut families = Vec::new();
        Info::parse(info).add_to(&mut families, &Config::default());
        prometheus::text(&families)
    }

    #[test]
    fn fields_are_metrics_in_their_units() {
        let text = metrics(
            "# Stats\r\nused_memory:7\r\nlatest_fork_usec:1500\r\nrdb_last_bgsave_status:err\r\nkeyspace_hits:3\r\n\
             unknown:1\r\ncluster_enabled:0\r\ncluster_state:ok\r\nserver_time_usec:100900000\r\nuptime_in_seconds:40\r\n",
        );
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
        let text = metrics(
            "role:slave\r\nserver_mode:standalone\r\nmaster_host:::1\r\nmaster_port:7\r\nmaster_link_status:down\r\n\
             slave_read_only:1\r\nslave_repl_offset:5\r\n\
             slave0:ip=::1,port=6380,state=online,offset=9,lag=1,type=replica\r\n\
             in_sync_state:blocked\r\nin_sync_missing0:id=ab,addr=::1:6380,seconds=7\r\n\
             db3:keys=2,expires=1,avg_ttl=1500,keys_with_volatile_items=0\r\ncluster_enabled:1\r\ncluster_state:fail\r\n",
        );
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
