//! What a changed directive does at once: the hooks that entries name.
//!
//! Most directives are read from the configuration whenever they matter. What keeps one in a form of its own is told of
//! a change: each method here is one of these forms, and sets it as the configuration has it that the implementor was
//! made with. An error is the text for the client.

/// What is done when a directive changes, beside publishing it.
#[derive(Clone, Copy, Debug)]
pub enum Apply {
    /// Nothing: its readers ask the configuration each time.
    WhenRead,
    /// The engine keeps it in a form of its own: set at the start and after each change.
    Engine(EngineHook),
    /// As [`Apply::Engine`], but the start is no change: it has a way of its own.
    EngineChange(EngineHook),
    /// What is around the engine follows a change; the start has a way of its own.
    Server(ServerHook),
}

impl Apply {
    /// Whether both do the same. False says nothing.
    pub(super) fn is_same(self, other: Apply) -> bool {
        match (self, other) {
            (Apply::Server(hook), Apply::Server(other)) => std::ptr::fn_addr_eq(hook, other),
            (Apply::Engine(hook), Apply::Engine(other)) => std::ptr::fn_addr_eq(hook, other),
            _ => false,
        }
    }
}

/// A hook that the engine runs.
pub type EngineHook = fn(&dyn EngineHooks) -> Applied;
/// A hook that the process around the engine runs.
pub type ServerHook = fn(&dyn ServerHooks) -> Applied;

/// What a hook answers. An error is the reason, as text for the client, for which the change cannot take effect;
/// nothing was changed then.
pub type Applied = Result<(), String>;

/// What the engine and the commands keep of directives.
#[expect(clippy::missing_errors_doc, reason = "`Applied` says what an error is")]
pub trait EngineHooks {
    /// How the use of keys is counted.
    fn access_clock(&self) -> Applied;

    /// The default user's password.
    fn default_password(&self) -> Applied;

    /// Which keys are evicted, and how their use is counted.
    fn eviction_policy(&self) -> Applied;

    /// How much memory the data may take.
    fn memory_limit(&self) -> Applied;

    /// Whether another server's data is being imported: nothing expires or is evicted meanwhile.
    fn import_mode(&self) -> Applied;

    /// Which keyspace events are published.
    fn keyspace_events(&self) -> Applied;

    /// From when commands are logged, and how many of them.
    fn command_log(&self) -> Applied;

    /// From when events count for the latency monitor.
    fn latency_monitor(&self) -> Applied;

    /// Whether the time of each command is counted.
    fn latency_tracking(&self) -> Applied;
    /// What commands about each slot take is counted, or not.
    fn slot_stats(&self) -> Applied;

    /// Whether writes wait for replicas.
    fn wanted_replicas(&self) -> Applied;

    /// Whether replies wait for replicas.
    fn acknowledging_replicas(&self) -> Applied;

    /// What clients of a replica may do.
    fn replica_admission(&self) -> Applied;

    /// How many keys are tracked for clients that cache them.
    fn tracked_keys(&self) -> Applied;

    /// Which functions of Lua's scripts have.
    fn script_api(&self) -> Applied;

    /// How large small collections may grow.
    fn encoding_limits(&self) -> Applied;

    /// Whether a failed save has writes refused.
    fn save_failures(&self) -> Applied;

    /// Whether there is an append-only file.
    fn append_only(&self) -> Applied;

    /// When the append-only file is synced.
    fn append_fsync(&self) -> Applied;

    /// Whether the append-only file has timestamps.
    fn append_timestamps(&self) -> Applied;
}

/// What the process around the engine keeps of directives.
#[expect(clippy::missing_errors_doc, reason = "`Applied` says what an error is")]
pub trait ServerHooks {
    /// The addresses of all listeners.
    fn bind(&self) -> Applied;

    /// The listener for clients.
    fn port(&self) -> Applied;

    /// The listener for clients of the book protocol.
    fn book_port(&self) -> Applied;

    /// The listener for clients with TLS.
    fn tls_port(&self) -> Applied;

    /// What connections with TLS are made with.
    fn tls(&self) -> Applied;

    /// Whether the system allows so many clients.
    fn max_clients(&self) -> Applied;

    /// How many workers there are.
    fn threads(&self) -> Applied;

    /// Probes of idle connections.
    fn keepalive(&self) -> Applied;

    /// What the process is called.
    fn process_title(&self) -> Applied;

    /// How willing the system is to end the process.
    fn oom_score(&self) -> Applied;

    /// When a thread counts as stuck.
    fn watchdog(&self) -> Applied;

    /// Whether a thread of the allocator gives memory back.
    fn allocator_thread(&self) -> Applied;

    /// Which lines the log has, and in which form.
    fn log(&self) -> Applied;
}
