//! The admin plane of this server: its answers, and its start.

use crate::admin::readiness::{self, REASONS};
use crate::admin::{
    authorization, command_metrics, info_metrics::Info, lag_metrics, live_numbers, page_client, worker_metrics,
};
use crate::listener::acceptor::Acceptor;
use crate::listener::new_client::may_enter;
use crate::listener::sockets;
use crate::system::{clock, log};
use crate::workers::shared::Shared;
use cinnabar_admin::exporter::{self, Endpoint, Export};
use cinnabar_admin::family::{Family, Kind};
use cinnabar_admin::http_server::{self, AdminThread, CONNECTIONS_MAX};
use cinnabar_admin::live::Live;
use cinnabar_admin::{Access, Backend, Caller, REQUESTS_MAX};
use commands::core::mode;
use commands::server::info::{self, ShownField};
use commands::version::CINNABAR;
use engine::config::{Config, Directive};
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The server behind the plane.
struct Plane {
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    encrypts: bool,
    /// Number of requests for metrics, and the nanoseconds for which they were gathered.
    scrapes: AtomicU64,
    scrape_nanos: AtomicU64,
}

/// Returns the number of connections that there may be beside clients'.
pub fn connections(config: &Config) -> u64 {
    if config.int(Directive::ADMIN_PORT) == 0 { 0 } else { (CONNECTIONS_MAX + REQUESTS_MAX) as u64 }
}

/// Starts the plane and the export, as configured. An error is a line for the log.
pub fn start(shared: &Arc<Shared>, acceptor: &Arc<Acceptor>) -> Result<Option<AdminThread>, String> {
    let config = shared.engine.config().snapshot();
    let port = config.int(Directive::ADMIN_PORT) as u16;
    let export = export(shared, &config)?;
    if port == 0 && export.is_none() {
        return Ok(None);
    }
    if mode::is_sentinel() {
        return Err("A Sentinel has no admin-port and no otlp-endpoint".to_owned());
    }
    let listeners = if port == 0 { Vec::new() } else { sockets::open_admin(&config, port)? };
    let plane = Plane {
        shared: Arc::clone(shared),
        acceptor: Arc::clone(acceptor),
        encrypts: config.flag(Directive::TLS_ADMIN),
        scrapes: AtomicU64::new(0),
        scrape_nanos: AtomicU64::new(0),
    };
    let started = http_server::start(listeners, Arc::new(plane), export);
    started.map(Some).map_err(|error| format!("Can't start the thread of the admin port: {error}"))
}

/// Returns the receiver of exported metrics, if there is one.
fn export(shared: &Shared, config: &Config) -> Result<Option<Export>, String> {
    let text = String::from_utf8_lossy(config.text(Directive::OTLP_ENDPOINT)).into_owned();
    if text.is_empty() {
        return Ok(None);
    }
    let endpoint = Endpoint::parse(&text).ok_or("otlp-endpoint is not of the form http[s]://host[:port][/path]")?;
    let setting = |directive| String::from_utf8_lossy(config.text(directive)).into_owned();
    let headers = exporter::parse_headers(&setting(Directive::OTLP_HEADERS))
        .ok_or("otlp-headers is not of the form name=value,name=value")?;
    let authority = Some(setting(Directive::OTLP_CA_CERT_FILE)).filter(|file| !file.is_empty());
    let settings = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = versions.map_err(|error| error.to_string())?;
        let roots = cinnabar_tls::authorities::authorities(authority.as_deref(), None, "otlp-ca-cert-file")?;
        Ok::<_, String>(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    };
    let tls = endpoint.is_encrypted.then(settings).transpose()?;
    let process = shared.engine.host().process();
    let resource = vec![
        ("service.name", "cinnabar".to_owned()),
        ("service.version", CINNABAR.to_owned()),
        ("service.instance.id", process.run_id),
        ("process.pid", process.id.to_string()),
        ("server.port", config.int(Directive::PORT).to_string()),
    ];
    let interval = Duration::from_secs(config.int(Directive::OTLP_INTERVAL).max(1) as u64);
    let start = process.started_at.0.max(0) as u64 * 1_000_000;
    Ok(Some(Export { endpoint, tls, headers, interval, resource, start }))
}

impl Backend for Plane {
    fn admits(&self, address: SocketAddr) -> bool {
        may_enter(&self.shared.engine, page_client::is_local(address))
    }

    fn authorize(&self, caller: &Caller) -> Access {
        authorization::authorize(&self.shared.engine, caller, clock::now().unix_ms())
    }

    fn families(&self) -> Vec<Family> {
        let began = Instant::now();
        let engine = &*self.shared.engine;
        let (config, info) = (engine.config().snapshot(), self.info());
        let mut families = Vec::new();
        Info::new(&info).add_to(&mut families, &config);
        command_metrics::add(&mut families, engine, &config);
        worker_metrics::add(&mut families, &self.shared);
        lag_metrics::add(&mut families, engine);
        self.add_readiness(&mut families);
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (count, all) =
            (self.scrapes.fetch_add(1, Relaxed) + 1, self.scrape_nanos.fetch_add(nanos, Relaxed) + nanos);
        for (name, help, number) in [
            ("cinnabar_scrapes_total", "How often metrics were gathered.", count as f64),
            ("cinnabar_scrape_seconds_total", "For how long metrics were gathered.", all as f64 * 1e-9),
        ] {
            families.push(Family::number(name, Kind::Counter, help, number));
        }
        families
    }

    fn live(&self, user: Option<&[u8]>) -> Live {
        let live = live_numbers::live(&self.shared, &self.info(), user, clock::now().unix_ms());
        Live { reasons: self.not_ready(), ..live }
    }

    fn connect(&self, caller: &Caller, user: Option<&[u8]>) -> Result<UnixStream, String> {
        page_client::connect(&self.shared, &self.acceptor, caller, user)
    }

    fn unsuitable(&self, command: &[Vec<u8>]) -> Option<String> {
        page_client::unsuitable(command)
    }

    fn host_names(&self) -> Vec<String> {
        let config = self.shared.engine.config().snapshot();
        let bound = config.addresses(Directive::ADMIN_BIND).iter().map(|name| name.strip_prefix(b"-").unwrap_or(name));
        let named = config.text(Directive::ADMIN_HOST_NAMES).split(|byte| b" ,".contains(byte));
        bound.chain(named).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    fn not_ready(&self) -> Vec<String> {
        let reasons = readiness::reasons(&self.shared, clock::nanos().ms());
        reasons.into_iter().map(str::to_owned).collect()
    }

    fn tls(&self) -> io::Result<Option<Arc<ServerConfig>>> {
        if !self.encrypts {
            return Ok(None);
        }
        self.acceptor.tls.reload_if_due(&self.shared.engine.config().snapshot());
        let settings = self.acceptor.tls.settings().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Some(Arc::clone(&settings.server)))
    }

    fn warn(&self, line: &str) {
        log::warning(line);
    }
}

impl Plane {
    /// Returns INFO's fields, without a lock that another thread holds for longer than a moment.
    fn info(&self) -> Vec<ShownField> {
        info::server_fields(&self.shared.engine, clock::now().unix_us)
    }

    fn add_readiness(&self, families: &mut Vec<Family>) {
        let holds = readiness::reasons(&self.shared, clock::nanos().ms());
        let help = "Whether the server may be sent clients.";
        let is_ready = f64::from(u8::from(holds.is_empty()));
        families.push(Family::number("cinnabar_ready", Kind::Gauge, help, is_ready));
        let help = "Whether it may not for this reason.";
        let mut family = Family::new("cinnabar_not_ready", Kind::Gauge, help);
        for reason in REASONS {
            let holds = f64::from(u8::from(holds.contains(&reason)));
            family.add(vec![("reason", reason.to_owned())], holds);
        }
        families.push(family);
    }
}
