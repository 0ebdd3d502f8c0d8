//! The source of INFO's fields. Each part is gathered when the first field asks for it, and once: a section costs what
//! it shows.

use crate::server::memory::Accounts;
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::config::Config;
use engine::host::connections::Certificates;
use engine::host::memory::MemoryStats;
use engine::host::process::{CpuTimes, ProcessInfo};
use engine::keyspace::keyspace_sums::Overview;
use engine::stats::metrics::Totals;
use engine::status::replication_status::LinkStatus;
use engine::time::{SteadyMs, UnixUs};
use replication::in_sync_member::Membership;
use replication::in_sync_set::Term;
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Source of the sections.
pub struct Source<'e> {
    pub engine: &'e Engine,
    pub config: Arc<Config>,
    pub now_us: UnixUs,
    /// Fields of the iteration over all keys, if there was one.
    pub key_sizes: String,
    overview: OnceCell<Overview>,
    memory: OnceCell<MemoryStats>,
    process: OnceCell<ProcessInfo>,
    cpu: OnceCell<CpuTimes>,
    all_clients: OnceCell<Vec<Arc<ClientInfo>>>,
    clients: OnceCell<ClientCounts>,
    accounts: OnceCell<Accounts>,
    certificates: OnceCell<Certificates>,
    totals: OnceCell<Totals>,
    rates: OnceCell<Totals>,
    primary_link: OnceCell<Option<LinkStatus>>,
    membership: OnceCell<Option<Membership>>,
}

/// Clients of each kind, and the largest buffers of one within the last seconds.
#[derive(Default)]
pub struct ClientCounts {
    pub connected: usize,
    pub blocked: usize,
    pub watching: usize,
    pub timing_out: usize,
    pub input: u64,
    pub output: u64,
}

impl<'e> Source<'e> {
    pub fn new(engine: &'e Engine, now_us: UnixUs) -> Source<'e> {
        Source {
            engine,
            config: engine.config().snapshot(),
            now_us,
            key_sizes: String::new(),
            overview: OnceCell::new(),
            memory: OnceCell::new(),
            process: OnceCell::new(),
            cpu: OnceCell::new(),
            all_clients: OnceCell::new(),
            clients: OnceCell::new(),
            accounts: OnceCell::new(),
            certificates: OnceCell::new(),
            totals: OnceCell::new(),
            rates: OnceCell::new(),
            primary_link: OnceCell::new(),
            membership: OnceCell::new(),
        }
    }

    /// Sets the keyspace's numbers, which only the caller can gather: under the locks that it has, or without any.
    pub fn set_overview(&self, overview: Overview) {
        let _ = self.overview.set(overview);
    }

    /// Returns the keyspace's numbers. A section that reads them says so in the table.
    pub fn overview(&self) -> &Overview {
        debug_assert!(self.overview.get().is_some(), "the section reads the keyspace and does not say so");
        self.overview.get_or_init(Overview::default)
    }

    pub fn memory(&self) -> &MemoryStats {
        self.memory.get_or_init(|| self.engine.host().memory())
    }

    pub fn process(&self) -> &ProcessInfo {
        self.process.get_or_init(|| self.engine.host().process())
    }

    pub fn cpu(&self) -> &CpuTimes {
        self.cpu.get_or_init(|| self.engine.host().cpu_times())
    }

    pub fn certificates(&self) -> &Certificates {
        self.certificates.get_or_init(|| self.engine.host().certificates())
    }

    pub fn totals(&self) -> &Totals {
        self.totals.get_or_init(|| self.engine.totals())
    }

    /// Returns the growth of [`totals`](Self::totals) in a second.
    pub fn rates(&self) -> &Totals {
        self.rates.get_or_init(|| self.engine.rates().per_second())
    }

    pub fn now(&self) -> SteadyMs {
        self.engine.host().steady_ms(self.now_us)
    }

    fn all_clients(&self) -> &[Arc<ClientInfo>] {
        self.all_clients.get_or_init(|| self.engine.clients().all())
    }

    pub fn accounts(&self) -> &Accounts {
        self.accounts.get_or_init(|| {
            Accounts::new(self.engine, self.all_clients(), self.overview().clone(), self.memory().clone())
        })
    }

    pub fn clients(&self) -> &ClientCounts {
        self.clients.get_or_init(|| {
            let now = self.engine.host().nanos();
            let mut counts = ClientCounts::default();
            for (input, output) in self.engine.metrics().iter().map(|worker| worker.buffer_peaks.recent(now)) {
                (counts.input, counts.output) = (counts.input.max(input), counts.output.max(output));
            }
            for client in self.all_clients().iter().filter(|client| !client.is_replica.load(Relaxed)) {
                counts.add(client);
            }
            counts
        })
    }

    /// Returns the link to the primary, on a replica.
    pub fn primary_link(&self) -> Option<&LinkStatus> {
        let status = self.engine.replication();
        self.primary_link.get_or_init(|| status.primary().map(|_| status.link())).as_ref()
    }

    /// Returns the server's record of the in-sync set, if there is one.
    pub fn membership(&self) -> Option<&Membership> {
        let status = &self.engine.replication().acknowledgement;
        let known = || Some(status.membership()).filter(|known| known.term != Term::NONE || status.is_asked());
        self.membership.get_or_init(known).as_ref()
    }
}

impl ClientCounts {
    fn add(&mut self, client: &ClientInfo) {
        let sizes = client.buffers.sizes();
        self.connected += 1;
        self.input = self.input.max((sizes.query + sizes.query_free) as u64);
        self.output = self.output.max(sizes.reply_bytes as u64);
        self.blocked += usize::from(client.is_blocked());
        self.watching += usize::from(client.watched.load(Relaxed) > 0 && !client.is_watch_broken());
        self.timing_out += usize::from(client.ticket().is_some_and(|ticket| ticket.deadline.is_some()));
    }
}
