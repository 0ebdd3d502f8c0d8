//! A client, as commands see it.

use engine::watch::WatchFlag;
use std::sync::Arc;

/// The state of one client between its commands.
#[derive(Debug)]
pub struct Session {
    pub id: u64,
    /// The worker that serves it.
    pub worker: usize,
    pub db: u32,
    pub authenticated: bool,
    /// CLIENT NO-TOUCH: its reads leave the access clock alone.
    pub no_touch: bool,
    /// Raised when a watched key changes.
    pub watch: Arc<WatchFlag>,
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_ver: Vec<u8>,
}

impl Session {
    pub fn new(id: u64, worker: usize) -> Self {
        Session {
            id,
            worker,
            db: 0,
            authenticated: true,
            no_touch: false,
            watch: Arc::default(),
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_ver: Vec::new(),
        }
    }
}
