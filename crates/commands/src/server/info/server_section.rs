//! The section Server of INFO: the server's identity, its machine and its listeners.

use crate::core::mode;
use crate::server::info::section_text::{Source, Text};
use crate::server::info::worker_times;
use crate::version;
use engine::config::{Config, Directive};

/// Clock that this server uses, whatever the configuration.
const MONOTONIC_CLOCK: &str = "POSIX clock_gettime";
const MULTIPLEXING: &str = "epoll";

pub(super) fn server(text: &mut Text, source: &Source<'_>) {
    let Source { config, process, now_us, .. } = source;
    let uptime = source.engine.steady_now().since(process.began).max(0) / 1000;
    text.field("redis_version", version::REDIS);
    text.field("server_name", version::NAME);
    text.field("valkey_version", version::VALKEY);
    text.field("valkey_release_stage", version::STAGE);
    text.field("cinnabar_version", version::CINNABAR);
    let commit = version::commit();
    text.field("redis_git_sha1", commit.hash);
    text.field("redis_git_dirty", u32::from(commit.changed_files > 0));
    text.field("redis_build_id", format_args!("{:016x}", version::build_id()));
    let compatible = config.flag(Directive::EXTENDED_REDIS_COMPATIBILITY);
    text.field(if compatible { "redis_mode" } else { "server_mode" }, mode::name(source.engine.is_clustered()));
    text.field("os", &process.os);
    text.field("arch_bits", usize::BITS);
    text.field("monotonic_clock", MONOTONIC_CLOCK);
    text.field("multiplexing_api", MULTIPLEXING);
    text.absent(&["gcc_version"]);
    text.field("process_id", process.id);
    text.field("process_supervised", process.supervisor);
    text.field("run_id", &process.run_id);
    text.field("tcp_port", any_port(config));
    text.field("server_time_usec", now_us.0);
    text.field("uptime_in_seconds", uptime);
    text.field("uptime_in_days", uptime / 86_400);
    for name in ["hz", "configured_hz", "clients_hz"] {
        text.field(name, config.int(Directive::HZ));
    }
    text.field("lru_clock", now_us.seconds() & 0xFF_FFFF);
    text.field("executable", &process.executable);
    text.field("config_file", String::from_utf8_lossy(&process.config_file));
    text.field("io_threads_active", u8::from(worker_times::others_work(source.engine)));
    text.field("availability_zone", String::from_utf8_lossy(config.text(Directive::AVAILABILITY_ZONE)));
    text.field("worker_threads", source.engine.workers());
    let ends_at = source.engine.persistence_status().shutdown.waiting_until();
    ends_at.into_iter().for_each(|end| {
        text.field("shutdown_in_milliseconds", end.since(source.engine.host().steady_ms(source.now_us)))
    });
    listeners(text, config);
}

/// Returns the port for plain clients, or the one for TLS if that is the only one.
fn any_port(config: &Config) -> i64 {
    match config.int(Directive::PORT) {
        0 => config.int(Directive::TLS_PORT),
        port => port,
    }
}

/// `listener0:name=tcp,bind=127.0.0.1,bind=-::1,port=6379`
fn listeners(text: &mut Text, config: &Config) {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut lines = Vec::new();
    let binds: String = config.bind_addresses().iter().map(|address| format!(",bind={}", shown(address))).collect();
    let ports = |name, directive| match config.int(directive) {
        0 => None,
        port => Some(format!("name={name}{binds},port={port}")),
    };
    lines.extend(ports("tcp", Directive::PORT));
    let path = config.text(Directive::UNIXSOCKET);
    if !path.is_empty() {
        lines.push(format!("name=unix,bind={}", shown(path)));
    }
    lines.extend(ports("tls", Directive::TLS_PORT));
    for (number, line) in lines.iter().enumerate() {
        text.field(&format!("listener{number}"), line);
    }
}
