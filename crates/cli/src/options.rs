//! The user's request, resolved: the command line is read by [`crate::command_line`].

use std::time::Duration;

use cinnabar_tls::client_options::ClientOptions;
use resp::address::Target;

use crate::reply_format::OutputFormat;
use crate::transport::IpVersion;

/// Protocol with which the server is greeted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resp {
    /// No greeting: a connection starts in RESP2.
    AsConnected,
    /// `-2`: stay in RESP2 even where the output format would ask for RESP3.
    Two,
    /// `-3`: RESP3, and a server that refuses it is an error.
    Three,
    /// RESP3 wanted by the output format, not by the user: a refusal is reported, not fatal.
    ThreeIfOffered,
}

/// The command's argument that is read from standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdinArgument {
    /// `-x`: one more argument at the end.
    Last,
    /// `-X tag`: the first argument that equals the tag.
    Tagged(Vec<u8>),
}

/// How the server runs a script that is debugged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptStepping {
    /// `--ldb`: beside the others, and what it changed is undone.
    Forked,
    /// `--ldb-sync-mode`: clients that need the script's keys wait (Redis and Valkey: all), and its changes stay.
    Synchronous,
}

/// The program's use of its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// The command of the command line, or commands from standard input.
    Commands,
    /// `--pipe`: requests from standard input as they are.
    Pipe,
    Scan,
    BigKeys,
    MemoryKeys,
    HotKeys,
    /// `--lru-test`: a cache of so many keys.
    LruTest(u64),
    KeyStats,
    /// `--top`: the server on the full screen.
    Top,
    Stat,
    Latency,
    LatencyHistory,
    LatencyDistribution,
    /// Seconds.
    IntrinsicLatency(u64),
    Replica,
    Rdb(String),
    FunctionsRdb(String),
    /// The script's file.
    Eval(String),
    /// `--test_hint`: the hint for this line.
    Hint(Vec<u8>),
    /// `--test_hint_file`: lines and the hints that are expected for them.
    HintFile(String),
    /// `--cluster`: an operation on a whole cluster, by its name.
    Cluster(String),
}

impl Mode {
    /// Returns whether its output can be JSON.
    pub fn has_json(&self) -> bool {
        match self {
            Mode::Pipe
            | Mode::LruTest(_)
            | Mode::Replica
            | Mode::Rdb(_)
            | Mode::FunctionsRdb(_)
            | Mode::Hint(_)
            | Mode::HintFile(_) => false,
            Mode::Cluster(name) => ["info", "check", "call"].contains(&name.as_str()),
            _ => true,
        }
    }
}

/// Selection of keys for the modes that walk the keyspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySelection {
    pub pattern: Option<Vec<u8>>,
    pub count: Option<u64>,
    pub kind: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub mode: Mode,
    pub keys: KeySelection,
    /// `--memkeys-samples`, `--keystats-samples`: number of elements of a key that are sampled.
    pub memory_samples: Option<u64>,
    /// `--cursor`: where the walk of `--keystats` begins.
    pub cursor: u64,
    /// `--top n`: number of the largest keys that `--keystats` lists.
    pub top_keys: Option<usize>,
    /// `--hotkeys-count`: number of keys that `--hotkeys` lists.
    pub hot_keys: Option<usize>,
    /// Time that `--pipe` waits for replies after the last request; zero is for ever.
    pub pipe_timeout: Duration,
    /// Time that connecting may take.
    pub connect_timeout: Option<Duration>,
    /// IP version of a name's addresses that are tried first.
    pub preferred_ip: Option<IpVersion>,
    /// `--ldb`, `--ldb-sync-mode`: the script of `--eval` is debugged.
    pub stepping: Option<ScriptStepping>,
    /// `--mptcp`: connections may go over several paths.
    pub multipath: bool,
    /// Whether the password is read from the terminal.
    pub ask_password: bool,
    pub tls: ClientOptions,
    pub target: Target,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    /// Whether to warn that the password stands in the process list.
    pub warn_of_password: bool,
    pub database: i64,
    pub resp: Resp,
    /// Number of times that the command is sent; negative is for ever.
    pub repeat: i64,
    /// Number of readings that `--top` prints as JSON, as given; None and negative are for ever.
    pub readings: Option<i64>,
    /// Pause after each repetition.
    pub interval: Duration,
    pub stdin_argument: Option<StdinArgument>,
    pub quoted_input: bool,
    pub output: OutputFormat,
    /// `-d`, between the elements of a raw aggregate.
    pub element_delimiter: Vec<u8>,
    /// `-D`, after each raw reply.
    pub reply_delimiter: Vec<u8>,
    /// `-e`: an error reply ends the program with status 1.
    pub errors_are_fatal: bool,
    pub show_pushes: bool,
    /// Whether redirections by nodes of a cluster are followed.
    pub follow_redirects: bool,
    /// Whether standard output is a terminal.
    pub for_people: bool,
    pub book: bool,
    pub verbose: bool,
    pub cluster: ClusterOptions,
    /// The command to send; empty: read commands from standard input.
    pub command: Vec<Vec<u8>>,
}

/// Values of `--cluster` and of the options that begin like it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterOptions {
    /// The words after the subcommand's name.
    pub arguments: Vec<Vec<u8>>,
    /// Replicas of each primary of a new cluster.
    pub replicas: usize,
    /// Whether questions are answered with yes, unasked.
    pub yes: bool,
    /// Nodes that give slots, separated by commas; of `import`, the server that gives its keys.
    pub from: Option<String>,
    pub from_user: Option<Vec<u8>>,
    pub from_password: Option<Vec<u8>>,
    /// Whether that password is read from the terminal.
    pub ask_from_password: bool,
    /// The node that gets slots.
    pub to: Option<String>,
    /// Number of slots that move; None: the user is asked.
    pub slots: Option<usize>,
    /// Time that one MIGRATE may take, in milliseconds.
    pub timeout: u64,
    /// Keys of one MIGRATE.
    pub pipeline: u64,
    /// Whether keys that exist at the target are overwritten.
    pub replace: bool,
    /// Whether keys also stay at their source.
    pub copy: bool,
    /// Whether slots move by CLUSTER MIGRATESLOTS.
    pub atomic: bool,
    /// `node=weight`, as given.
    pub weights: Vec<String>,
    /// Deviation of a node from its share at which slots move, in percent.
    pub threshold: f32,
    pub use_empty_primaries: bool,
    /// Whether moves are only shown.
    pub simulate: bool,
    /// Whether every primary is asked for keys of every slot.
    pub search_multiple_owners: bool,
    pub fix_with_unreachable_primaries: bool,
    pub only_primaries: bool,
    pub only_replicas: bool,
    /// Whether the new node becomes a replica: of this node, or of the one with the fewest.
    pub as_replica: bool,
    pub primary_id: Option<String>,
}

impl Default for ClusterOptions {
    fn default() -> ClusterOptions {
        ClusterOptions {
            arguments: Vec::new(),
            replicas: 0,
            yes: false,
            from: None,
            from_user: None,
            from_password: None,
            ask_from_password: false,
            to: None,
            slots: None,
            timeout: 60_000,
            pipeline: 10,
            replace: false,
            copy: false,
            atomic: false,
            weights: Vec::new(),
            threshold: 2.0,
            use_empty_primaries: false,
            simulate: false,
            search_multiple_owners: false,
            fix_with_unreachable_primaries: false,
            only_primaries: false,
            only_replicas: false,
            as_replica: false,
            primary_id: None,
        }
    }
}
