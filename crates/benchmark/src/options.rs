//! The user's request, resolved: the command line is read by [`crate::option_reader`].

use crate::cluster_slots::{Node, ReadFrom};
use crate::fuzz::fuzz_options::FuzzOptions;
use crate::workload;
use cinnabar_tls::client_options::ClientOptions;
use resp::address::Target;
use std::time::Duration;

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// After so many requests of all connections together.
    Requests(u64),
    /// After so much time.
    Duration(Duration),
}

#[derive(Debug, Clone)]
pub struct Options {
    pub target: Target,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    pub tls: ClientOptions,
    pub clients: usize,
    pub extent: Extent,
    /// Time of load before recording begins.
    pub warmup: Duration,
    /// Number of bytes of a value.
    pub data_size: usize,
    pub database: u64,
    pub resp3: bool,
    pub threads: Option<usize>,
    pub tracking: bool,
    pub keep_alive: bool,
    /// Numbers in commands are below this; None leaves their places as they are.
    pub range: Option<u64>,
    pub sequential: bool,
    pub pipeline: usize,
    pub quiet: bool,
    /// Number of decimal places of latencies in milliseconds.
    pub precision: usize,
    pub csv: bool,
    pub forever: bool,
    /// Names of the tests to run; None for all.
    pub tests: Option<Vec<String>>,
    pub idle: bool,
    pub last_from_stdin: bool,
    /// Requests per second over all connections; None for no limit.
    pub rate: Option<u64>,
    pub seed: Option<u64>,
    /// Several commands at once, instead of the tests.
    pub workload: Option<Vec<workload::Part>>,
    /// Exponent of Zipf's law for numbers, instead of even ones.
    pub zipf: Option<f64>,
    /// Requests per second of an open loop.
    pub open_rate: Option<u64>,
    /// The file for the plot of latencies.
    pub svg: Option<String>,
    /// Whether the report is JSON.
    pub json: bool,
    /// The other server, loaded in turns with this one.
    pub compare: Option<Target>,
    /// Number of turns of each.
    pub rounds: Option<usize>,
    /// Ratio of throughputs below which the program ends with a status of its own.
    pub ratio_min: Option<f64>,
    /// Whether all nodes of the server's cluster are loaded.
    pub cluster: bool,
    pub read_from: ReadFrom,
    /// The nodes, once they are known.
    pub nodes: Vec<Node>,
    /// Whether connections may use several paths.
    pub multipath: bool,
    pub functions: usize,
    pub function_keys: usize,
    /// Random commands instead of a load.
    pub fuzz: FuzzOptions,
    /// The command to measure instead of the tests.
    pub command: Vec<Vec<u8>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            target: Target::Tcp { host: "127.0.0.1".into(), port: 6379 },
            user: None,
            password: None,
            tls: ClientOptions::default(),
            clients: 50,
            extent: Extent::Requests(100_000),
            warmup: Duration::ZERO,
            data_size: 3,
            database: 0,
            resp3: false,
            threads: None,
            tracking: false,
            keep_alive: true,
            range: None,
            sequential: false,
            pipeline: 1,
            quiet: false,
            precision: 0,
            csv: false,
            forever: false,
            tests: None,
            idle: false,
            last_from_stdin: false,
            rate: None,
            seed: None,
            workload: None,
            zipf: None,
            open_rate: None,
            svg: None,
            json: false,
            compare: None,
            rounds: None,
            ratio_min: None,
            cluster: false,
            read_from: ReadFrom::default(),
            nodes: Vec::new(),
            multipath: false,
            functions: 10,
            function_keys: 1,
            fuzz: FuzzOptions::default(),
            command: Vec::new(),
        }
    }
}

impl Options {
    /// Returns the same load for another server.
    pub fn against(&self, target: &Target) -> Options {
        Options { target: target.clone(), ..self.clone() }
    }
}
