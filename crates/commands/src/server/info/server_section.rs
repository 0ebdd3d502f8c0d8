//! The section Server of INFO: the server's identity, its machine and its listeners.

use crate::core::mode;
use crate::server::info::field::{Field, Put, Value, absent, field, many};
use crate::server::info::info_source::Source;
use crate::version;
use engine::Engine;
use engine::config::{Config, Directive};

/// Clock that this server uses, whatever the configuration.
const MONOTONIC_CLOCK: &str = "POSIX clock_gettime";
const MULTIPLEXING: &str = "epoll";

pub(super) const SERVER: &[Field] = &[
    field("redis_version", |_| version::REDIS.into()),
    field("server_name", |_| version::NAME.into()),
    field("valkey_version", |_| version::VALKEY.into()),
    field("valkey_release_stage", |_| version::STAGE.into()),
    field("cinnabar_version", |_| version::CINNABAR.into()),
    field("redis_git_sha1", |_| version::commit().hash.into()),
    field("redis_git_dirty", |_| u32::from(version::commit().changed_files > 0).into()),
    field("redis_build_id", |_| format!("{:016x}", version::build_id()).into()),
    field("redis_mode", |s| Value::when(is_compatible(s), || mode(s))),
    field("server_mode", |s| Value::when(!is_compatible(s), || mode(s))),
    field("os", |s| s.process().os.clone().into()),
    field("arch_bits", |_| usize::BITS.into()),
    field("monotonic_clock", |_| MONOTONIC_CLOCK.into()),
    field("multiplexing_api", |_| MULTIPLEXING.into()),
    absent("gcc_version"),
    field("process_id", |s| s.process().id.into()).gauge("process_id", "The number of the process."),
    field("process_supervised", |s| s.process().supervisor.into()),
    field("run_id", |s| s.process().run_id.clone().into()),
    field("tcp_port", |s| any_port(&s.config).into()),
    field("server_time_usec", |s| s.now_us.0.into()),
    field("uptime_in_seconds", |s| uptime(s).into()).gauge("uptime_in_seconds", "Seconds since the server started."),
    field("uptime_in_days", |s| (uptime(s) / 86_400).into()),
    field("hz", |s| s.config.int(Directive::HZ).into()).gauge("hz", "How often background work is done in a second."),
    field("configured_hz", |s| s.config.int(Directive::HZ).into())
        .gauge("configured_hz", "How often it is to be done."),
    field("clients_hz", |s| s.config.int(Directive::HZ).into()),
    field("lru_clock", |s| (s.now_us.seconds() & 0xFF_FFFF).into()),
    field("executable", |s| s.process().executable.clone().into()),
    field("config_file", |s| String::from_utf8_lossy(&s.process().config_file).into_owned().into()),
    field("io_threads_active", |s| others_work(s.engine).into())
        .gauge("io_threads_active", "Whether another worker than the first has something to do."),
    field("availability_zone", |s| {
        String::from_utf8_lossy(s.config.text(Directive::AVAILABILITY_ZONE)).into_owned().into()
    }),
    field("worker_threads", |s| s.engine.workers().into()),
    field("shutdown_in_milliseconds", shutdown_in),
    many("listener", listeners),
];

fn is_compatible(s: &Source<'_>) -> bool {
    s.config.flag(Directive::EXTENDED_REDIS_COMPATIBILITY)
}

fn mode(s: &Source<'_>) -> Value {
    mode::name(s.engine.is_clustered()).into()
}

/// Returns the seconds since the start.
fn uptime(s: &Source<'_>) -> i64 {
    s.engine.steady_now().since(s.process().began).max(0) / 1000
}

/// Returns whether another worker than the first has something to do at this moment.
fn others_work(engine: &Engine) -> bool {
    let now = engine.host().nanos();
    engine.metrics().iter().take(engine.workers()).skip(1).any(|worker| worker.present_turn_nanos(now) > 0)
}

fn shutdown_in(s: &Source<'_>) -> Value {
    let end = s.engine.persistence_status().shutdown.waiting_until();
    end.map_or(Value::None, |end| end.since(s.engine.host().steady_ms(s.now_us)).into())
}

/// Returns the port for plain clients, or the one for TLS if that is the only one.
fn any_port(config: &Config) -> i64 {
    match config.int(Directive::PORT) {
        0 => config.int(Directive::TLS_PORT),
        port => port,
    }
}

/// `listener0:name=tcp,bind=127.0.0.1,bind=-::1,port=6379`
fn listeners(s: &Source<'_>, put: Put<'_>) {
    let shown = |bytes: &[u8]| Value::Text(String::from_utf8_lossy(bytes).into_owned());
    let port = |name: &'static str, directive| {
        let port = s.config.int(directive);
        let mut parts = vec![("name", name.into())];
        parts.extend(s.config.bind_addresses().iter().map(|address| ("bind", shown(address))));
        parts.push(("port", port.into()));
        (port != 0).then_some(parts)
    };
    let path = s.config.text(Directive::UNIXSOCKET);
    let unix = (!path.is_empty()).then(|| vec![("name", "unix".into()), ("bind", shown(path))]);
    let listeners = [port("tcp", Directive::PORT), unix, port("tls", Directive::TLS_PORT)];
    for (number, parts) in listeners.into_iter().flatten().enumerate() {
        put(&format!("listener{number}"), Value::Parts(parts));
    }
}
