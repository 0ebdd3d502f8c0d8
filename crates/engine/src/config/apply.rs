//! Hooks that entries name: the effect of a changed directive at once.
//!
//! Most directives are read from the configuration whenever they matter. Code that stores one in a form of its own is
//! notified of a change: each method here sets one of these forms from the configuration that the implementor was made
//! with. An error is the text for the client.

/// Effect of a change of a directive, besides publishing it.
#[derive(Clone, Copy, Debug)]
pub enum Apply {
    /// Nothing: its readers ask the configuration each time.
    WhenRead,
    /// The engine stores it in a form of its own: set at the start and after each change.
    Engine(EngineHook),
    /// As [`Apply::Engine`], but the start is no change: it has a way of its own.
    EngineChange(EngineHook),
    /// The process around the engine follows a change; the start has a way of its own.
    Server(ServerHook),
}

impl Apply {
    /// Whether both do the same. False proves nothing.
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

/// Result of a hook. An error is the reason, as text for the client, for which the change cannot take effect; nothing
/// was changed then.
pub type Applied = Result<(), String>;

/// Directives that the engine and the commands store in a form of their own.
#[expect(clippy::missing_errors_doc, reason = "`Applied` says what an error is")]
pub trait EngineHooks {
    /// Sets how the use of keys is counted.
    fn access_clock(&self) -> Applied;

    /// Sets the default user's password.
    fn default_password(&self) -> Applied;

    /// Sets which keys are evicted, and how their use is counted.
    fn eviction_policy(&self) -> Applied;

    /// Sets how much memory the data may take.
    fn memory_limit(&self) -> Applied;

    /// Sets whether another server's data is being imported: nothing expires or is evicted meanwhile.
    fn import_mode(&self) -> Applied;

    /// Sets which keyspace events are published.
    fn keyspace_events(&self) -> Applied;

    /// Sets from when commands are logged, and how many of them.
    fn command_log(&self) -> Applied;

    /// Sets from when events count for the latency monitor.
    fn latency_monitor(&self) -> Applied;

    /// Sets whether the time of each command is counted.
    fn latency_tracking(&self) -> Applied;
    /// Sets whether the use of each slot by commands is counted.
    fn slot_stats(&self) -> Applied;

    /// Sets whether writes wait for replicas.
    fn wanted_replicas(&self) -> Applied;

    /// Sets whether replies wait for replicas.
    fn acknowledging_replicas(&self) -> Applied;

    /// Sets which commands clients of a replica may run.
    fn replica_admission(&self) -> Applied;

    /// Sets how many keys are tracked for clients that cache them.
    fn tracked_keys(&self) -> Applied;

    /// Sets which of Lua's functions scripts have.
    fn script_api(&self) -> Applied;

    /// Sets how large small collections may grow.
    fn encoding_limits(&self) -> Applied;

    /// Sets whether a failed save has writes refused.
    fn save_failures(&self) -> Applied;

    /// Sets whether there is an append-only file.
    fn append_only(&self) -> Applied;

    /// Sets when the append-only file is synced.
    fn append_fsync(&self) -> Applied;

    /// Sets whether the append-only file has timestamps.
    fn append_timestamps(&self) -> Applied;
}

/// Directives that the process around the engine stores in a form of its own.
#[expect(clippy::missing_errors_doc, reason = "`Applied` says what an error is")]
pub trait ServerHooks {
    /// Sets the addresses of all listeners.
    fn bind(&self) -> Applied;

    /// Sets the listener for clients.
    fn port(&self) -> Applied;

    /// Sets the listener for clients of the book protocol.
    fn book_port(&self) -> Applied;

    /// Sets the listener for clients with TLS.
    fn tls_port(&self) -> Applied;

    /// Sets certificates and ciphers of connections with TLS.
    fn tls(&self) -> Applied;

    /// Checks whether the system allows so many clients.
    fn max_clients(&self) -> Applied;

    /// Sets how many workers there are.
    fn threads(&self) -> Applied;

    /// Sets the probes of idle connections.
    fn keepalive(&self) -> Applied;

    /// Sets the title of the process.
    fn process_title(&self) -> Applied;

    /// Sets how willing the system is to end the process.
    fn oom_score(&self) -> Applied;

    /// Sets when a thread counts as stuck.
    fn watchdog(&self) -> Applied;

    /// Sets whether a thread of the allocator gives memory back.
    fn allocator_thread(&self) -> Applied;

    /// Sets which lines the log has, and in which form.
    fn log(&self) -> Applied;
}
