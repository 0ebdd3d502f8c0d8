//! The schedule of a worker: which connections are served, in which order and for how long, and what is due at a time.
//!
//! In: connections' tokens, the time, events. Out: the next connection's token, how long the worker may sleep, which
//! connections other workers get. It is plain data of one thread: it knows no socket, no connection and no engine, but
//! for the tickets of blocked clients.

pub mod fairness;
pub mod load_balance;
pub mod retries;
pub mod run_queue;
pub mod throttled;
pub mod timers;
pub mod wait_timeouts;
pub mod worker_barrier;
