//! The sections Clients, TLS and CPU of INFO.

use crate::server::info::field::{Field, Put, Value, absent, field, many};
use crate::server::info::info_source::Source;
use engine::Engine;
use engine::config::Directive;
use engine::host::connections::CertificateInfo;
use engine::status::deny_reasons::Paused;
use std::time::Duration;

pub(super) const CLIENTS: &[Field] = &[
    field("connected_clients", |s| s.clients().connected.into())
        .gauge("connected_clients", "Clients, without replicas."),
    field("cluster_connections", |_| crate::cluster::link_counts().0.into())
        .gauge("cluster_connections", "Connections of the cluster's bus."),
    field("maxclients", |s| s.config.int(Directive::MAXCLIENTS).into())
        .gauge("max_clients", "Clients that there may be."),
    field("client_recent_max_input_buffer", |s| s.clients().input.into()).gauge(
        "client_recent_max_input_buffer_bytes",
        "The largest room for a client's input within the last seconds.",
    ),
    field("client_recent_max_output_buffer", |s| s.clients().output.into()).gauge(
        "client_recent_max_output_buffer_bytes",
        "The largest of the clients' unsent replies within the last seconds.",
    ),
    field("blocked_clients", |s| s.clients().blocked.into())
        .gauge("blocked_clients", "Clients that wait for keys, replicas or the end of a pause."),
    field("tracking_clients", |s| s.engine.tracking().clients().into())
        .gauge("tracking_clients", "Clients that cache what they read."),
    field("pubsub_clients", |s| s.engine.pubsub().subscribers().into())
        .gauge("pubsub_clients", "Clients that have subscribed to something."),
    field("watching_clients", |s| s.clients().watching.into()).gauge("watching_clients", "Clients that watch keys."),
    field("clients_in_timeout_table", |s| s.clients().timing_out.into())
        .gauge("clients_in_timeout_table", "Clients that wait no longer than until a set time."),
    field("total_watched_keys", |s| s.overview().total(|db| db.watched).into())
        .gauge("total_watched_keys", "Keys that clients watch."),
    field("total_blocking_keys", |s| s.overview().total(|db| db.awaited).into())
        .gauge("total_blocking_keys", "Keys that clients wait for."),
    field("total_blocking_keys_on_nokey", |s| s.overview().total(|db| db.awaited_gone).into())
        .gauge("total_blocking_keys_on_nokey", "Keys that clients wait for who are told when they go."),
    field("paused_reason", |s| pause(s).0.into()),
    field("paused_actions", |s| pause(s).1.into()),
    field("paused_timeout_milliseconds", |s| pause(s).2.into()),
];

pub(super) const TLS: &[Field] = &[
    field("tls_server_cert_serial", |s| serial(&s.certificates().server)),
    field("tls_server_cert_expires_in_seconds", |s| seconds_left(s, &s.certificates().server).into())
        .gauge("tls_server_cert_expires_in_seconds", "Seconds until the server's certificate ends; 0 without one."),
    field("tls_client_cert_serial", |s| serial(&s.certificates().client)),
    field("tls_client_cert_expires_in_seconds", |s| seconds_left(s, &s.certificates().client).into())
        .gauge("tls_client_cert_expires_in_seconds", "Seconds until the certificate for other servers ends."),
    field("tls_ca_cert_serial", |s| serial(&s.certificates().authority)),
    field("tls_ca_cert_expires_in_seconds", |s| seconds_left(s, &s.certificates().authority).into())
        .gauge("tls_ca_cert_expires_in_seconds", "Seconds until the first of the authorities' certificates ends."),
];

pub(super) const CPU: &[Field] = &[
    field("used_cpu_sys", |s| seconds(s.cpu().system))
        .counter("cpu_sys_seconds_total", "Processor time in the kernel."),
    field("used_cpu_user", |s| seconds(s.cpu().user))
        .counter("cpu_user_seconds_total", "Processor time in the program."),
    absent("used_cpu_sys_children")
        .counter("cpu_sys_children_seconds_total", "The same of child processes: there are none."),
    absent("used_cpu_user_children")
        .counter("cpu_user_children_seconds_total", "The same of child processes: there are none."),
    field("used_cpu_sys_main_thread", |s| seconds(s.cpu().main_system))
        .counter("cpu_sys_main_thread_seconds_total", "The same of the first worker."),
    field("used_cpu_user_main_thread", |s| seconds(s.cpu().main_user))
        .counter("cpu_user_main_thread_seconds_total", "The same of the first worker."),
    field("used_active_time_main_thread", |s| active_time(s.engine, 0))
        .counter("active_time_main_thread_seconds_total", "For how long the first worker had something to do."),
    many("used_active_time_io_thread_", active_times),
];

/// Returns the reason of the present pause, its commands, and the milliseconds that are left of it.
fn pause(s: &Source<'_>) -> (&'static str, &'static str, i64) {
    let (pause, now) = (s.engine.pause(), s.engine.host().steady_ms(s.now_us));
    let left = pause.until().since(now).max(0);
    match s.engine.paused() {
        Paused::Nothing => ("none", "none", 0),
        Paused::Writes => match pause.held() {
            Some(hold) => (hold.as_str(), "write", i64::MAX - now.0),
            None => ("client_pause", "write", left),
        },
        Paused::All => ("client_pause", "all", left),
    }
}

fn serial(certificate: &Option<CertificateInfo>) -> Value {
    certificate.as_ref().map_or("none".into(), |it| it.serial.clone().into())
}

fn seconds_left(s: &Source<'_>, certificate: &Option<CertificateInfo>) -> i64 {
    certificate.as_ref().map_or(0, |it| (it.expires_at - s.now_us.seconds()).max(0))
}

fn seconds(time: Duration) -> Value {
    Value::Decimal(time.as_secs_f64(), 6)
}

/// Returns the busy seconds of a worker.
fn active_time(engine: &Engine, worker: usize) -> Value {
    Value::Decimal(engine.metrics()[worker].turn_nanos.get() as f64 / 1e9, 6)
}

/// Puts the busy time of workers after the first, in the terms of a server whose first thread executes and whose
/// others read and write.
fn active_times(s: &Source<'_>, put: Put<'_>) {
    for worker in 1..s.engine.workers() {
        put(&format!("used_active_time_io_thread_{worker}"), active_time(s.engine, worker));
    }
}
