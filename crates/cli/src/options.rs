//! What the user asked for, settled: the command line is read by [`crate::command_line`].

use std::time::Duration;

use cinnabar_tls::client_options::ClientOptions;
use resp::address::Target;

use crate::reply_format::OutputFormat;
use crate::transport::IpVersion;

/// Which protocol to greet the server with.
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

/// Which argument of the command is read from standard input.
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
    /// `--ldb-sync-mode`: the others wait, and what it changed stays.
    Synchronous,
}

/// What the program does with its connection.
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
    /// `--test_hint`: what may follow this line.
    Hint(Vec<u8>),
    /// `--test_hint_file`: lines and the hints that are expected for them.
    HintFile(String),
    /// `--cluster`: what is done to a cluster as a whole, by its name.
    Cluster(String),
}

impl Mode {
    /// Whether what it prints can be JSON.
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

/// Which keys the modes that walk the keyspace look at.
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
    /// `--memkeys-samples`, `--keystats-samples`: how many elements of a key are looked at.
    pub memory_samples: Option<u64>,
    /// `--cursor`: where the walk of `--keystats` begins.
    pub cursor: u64,
    /// `--top n`: how many of the largest keys `--keystats` lists.
    pub top_keys: Option<usize>,
    /// `--hotkeys-count`: how many keys `--hotkeys` lists.
    pub hot_keys: Option<usize>,
    /// How long `--pipe` waits for replies after the last request; zero is for ever.
    pub pipe_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// Which addresses of a name to try first.
    pub preferred_ip: Option<IpVersion>,
    /// `--ldb`, `--ldb-sync-mode`: the script of `--eval` is debugged.
    pub stepping: Option<ScriptStepping>,
    /// `--mptcp`: connections may go over several paths.
    pub multipath: bool,
    /// Ask for the password on the terminal.
    pub ask_password: bool,
    pub tls: ClientOptions,
    pub target: Target,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    /// The password stands in the process list, and nobody said that this is fine.
    pub warn_of_password: bool,
    pub database: i64,
    pub resp: Resp,
    /// How often to send the command; negative is for ever.
    pub repeat: i64,
    /// The same as given: how many readings `--top` prints as JSON; None and negative are for ever.
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
    /// Go where nodes of a cluster say that keys are.
    pub follow_redirects: bool,
    /// Standard output is a terminal.
    pub for_people: bool,
    pub book: bool,
    pub verbose: bool,
    pub cluster: ClusterOptions,
    /// The command to send; empty: read commands from standard input.
    pub command: Vec<Vec<u8>>,
}

/// What `--cluster` and the options that begin like it say.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterOptions {
    /// The words after the subcommand's name.
    pub arguments: Vec<Vec<u8>>,
    /// Replicas of each primary of a new cluster.
    pub replicas: usize,
    /// Nothing is asked.
    pub yes: bool,
    /// Nodes that give slots, separated by commas; of `import`, the server that gives its keys.
    pub from: Option<String>,
    pub from_user: Option<Vec<u8>>,
    pub from_password: Option<Vec<u8>>,
    /// Ask for that password on the terminal.
    pub ask_from_password: bool,
    /// The node that gets slots.
    pub to: Option<String>,
    /// How many slots move; None: ask.
    pub slots: Option<usize>,
    /// How long one MIGRATE may take, in milliseconds.
    pub timeout: u64,
    /// Keys of one MIGRATE.
    pub pipeline: u64,
    /// Keys that are there already are overwritten.
    pub replace: bool,
    /// Keys stay where they came from, too.
    pub copy: bool,
    /// Slots move by CLUSTER MIGRATESLOTS.
    pub atomic: bool,
    /// `node=weight`, as given.
    pub weights: Vec<String>,
    /// How far a node may be from its share before slots move, in percent.
    pub threshold: f32,
    pub use_empty_primaries: bool,
    /// Show what would move.
    pub simulate: bool,
    /// Ask every primary for keys of every slot.
    pub search_multiple_owners: bool,
    pub fix_with_unreachable_primaries: bool,
    pub only_primaries: bool,
    pub only_replicas: bool,
    /// The new node is to be a replica: of this node, or of the one with the fewest.
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
