//! A client whose requests another node answers: bytes in, requests for that node out, its replies in, bytes out,
//! without a socket.

use cluster::SLOTS;
use cluster::node::Address;
use cluster::node_id::NodeId;
use cluster::proxy::{ClientKey, LinkOrder, Proxy, ProxyLink};
use cluster::slot_map::SlotMap;
use commands::batch::Batch;
use commands::batch::command_cache::CommandCache;
use commands::batch::item::BatchItem;
use commands::batch::parse::RequestSource;
use commands::batch::prefetch::Prefetcher;
use commands::batch::requests::Requests;
use commands::core::cluster_proxy::Behind;
use commands::core::context::Flow;
use commands::core::dispatch;
use commands::{Now, Session};
use engine::Engine;
use engine::config::Directive;
use engine::time::UnixUs;
use resp::{Protocol, Reply, RequestLimits, Span};

const NOW: Now = Now { unix_us: UnixUs(1_700_000_000_000_000) };
const BY: ClientKey = ClientKey { token: 0, client: 1 };

pub struct ProxiedClient<'e> {
    engine: &'e Engine,
    session: Session,
    requests: Requests,
    command_cache: CommandCache,
    prefetcher: Prefetcher,
    batch: Batch<'static>,
    proxy: Proxy,
    map: SlotMap,
    reply: Reply,
}

impl<'e> ProxiedClient<'e> {
    /// Makes the engine a node that asks another one about all slots, and returns a client of it.
    pub fn new(engine: &'e Engine) -> Self {
        commands::install(&[]);
        let address = |ip: &str| Address { ip: ip.to_owned(), tcp_port: 7000, ..Address::default() };
        let map = SlotMap {
            is_up: true,
            serving: Some(0),
            nodes: vec![(NodeId([b'a'; 40]), address("")), (NodeId([b'b'; 40]), address("10.0.0.1"))],
            owners: vec![Some(1); SLOTS],
            ..SlotMap::default()
        };
        engine.persistence_status().set_clustered(true);
        engine.set_slot_map(map.clone());
        engine.config().update(|config| config.choose(Directive::CLUSTER_PROXY, b"yes"));
        let mut session = Session::local();
        session.is_proxied = true;
        let mut proxy = Proxy::default();
        proxy.timeout = 1000;
        ProxiedClient {
            engine,
            session,
            requests: Requests::default(),
            command_cache: CommandCache::default(),
            prefetcher: Prefetcher::default(),
            batch: Batch::default(),
            proxy,
            map,
            reply: Reply::new(Vec::with_capacity(64 << 10), Protocol::Resp2),
        }
    }

    /// Runs whole requests that came together; the node replies OK to each.
    ///
    /// # Panics
    /// If one of them is not for the node.
    pub fn run(&mut self, bytes: &[u8], count: usize) {
        self.reply.truncate(0);
        let (mut batch, mut offset) = (std::mem::take(&mut self.batch).renewed(), 0);
        let (engine, db, limits) = (self.engine, self.session.db, RequestLimits::default());
        let mut source = RequestSource { engine, token: 0, db, limits, command_cache: &mut self.command_cache };
        batch.fill(&mut source, &mut self.requests, bytes, &mut offset);
        let (items, spans) = batch.begin(engine, &mut self.prefetcher);
        assert_eq!(items.len(), count, "they fit into a batch");
        ask(engine, &mut self.session, &mut self.proxy, items, spans, &mut self.reply);
        batch.clear();
        self.batch = batch.renewed();
        self.answer(&b"+OK\r\n".repeat(count));
        assert_eq!(self.reply.len(), 5 * count, "the node answers all");
    }

    /// Has the node take all requests and send these replies.
    fn answer(&mut self, replies: &[u8]) {
        for order in self.proxy.take_orders() {
            let LinkOrder::Connect(link, _) = order else { panic!("no connection breaks") };
            self.proxy.opened(link, 0);
            take(&mut self.proxy, link);
            self.proxy.received(link, b"+OK\r\n", &self.map, 0);
        }
        for link in self.proxy.take_unsent() {
            take(&mut self.proxy, link);
            self.proxy.received(link, replies, &self.map, 0);
        }
        let answers = self.proxy.take_answers();
        answers.iter().for_each(|(_, bytes)| self.reply.raw(bytes));
        self.proxy.reuse(answers);
    }
}

fn take(proxy: &mut Proxy, link: ProxyLink) {
    let len = proxy.unsent(link).len();
    proxy.note_sent(link, len);
}

/// Asks the node: the first request after a full check, the others behind it.
fn ask(
    engine: &Engine,
    session: &mut Session,
    proxy: &mut Proxy,
    items: &mut [BatchItem<'_>],
    spans: &[Span],
    reply: &mut Reply,
) {
    let Some((first, others)) = items.split_first_mut() else { return };
    let flow = first.call(spans, |prepared, args| dispatch::run(engine, session, prepared, args, NOW, reply));
    let Some(Flow::Forward(question)) = flow else { panic!("it is for the node") };
    proxy.ask(BY, *question, 0);
    let mut behind = Behind::begin(engine, session).expect("a plain session");
    for item in others {
        let is_asked = item.call(spans, |prepared, args| {
            dispatch::forward_behind(engine, session, &mut behind, prepared, args, |it| proxy.follow(BY, it, 0))
        });
        assert_eq!(is_asked, Some(true), "it is for the node");
    }
}
