//! The limit of the files that the process may have open: each client is one.

use crate::system::log;
use engine::config::os_message;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::read_to_string;

/// File descriptors that are needed besides those of clients and of connections that watch the server.
const OTHERS: u64 = 32;

/// Raises the limit of open files for so many clients, and so many connections of other kinds. Returns how many clients
/// there can be.
pub fn admit(clients: u64, connections: u64) -> Result<u64, String> {
    let reserved = OTHERS + connections;
    let wanted = clients.saturating_add(reserved);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (soft, hard) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    if soft >= wanted {
        return Ok(clients);
    }
    let (best, failure) = raise(wanted, soft, hard);
    if best >= wanted {
        log::notice(format_args!(
            "Increased maximum number of open files to {wanted} (it was originally set to {soft})."
        ));
        return Ok(clients);
    }
    if best <= reserved {
        return Err(format!(
            "Your current 'ulimit -n' of {soft} is not enough for the server to start. Please increase your open file limit to at least {wanted}. Exiting."
        ));
    }
    let possible = best - reserved;
    log::warning(format_args!(
        "You requested maxclients of {clients} requiring at least {wanted} max file descriptors."
    ));
    log::warning(format_args!("Server can't set maximum open files to {wanted} because of OS error: {failure}."));
    log::warning(format_args!(
        "Current maximum open files is {best}. maxclients has been reduced to {possible} to compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    ));
    Ok(possible)
}

/// Raises the limit as far as the system allows; returns the limit, and why it is not `wanted`.
fn raise(wanted: u64, soft: u64, hard: u64) -> (u64, String) {
    let mut failure = String::new();
    let system = read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(hard);
    for limit in [wanted, wanted.min(system), wanted.min(hard)] {
        if limit <= soft {
            continue;
        }
        // Only root may raise the hard limit, which the first tries do.
        match setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum: Some(limit.max(hard)) }) {
            Ok(()) => return (limit, failure),
            Err(error) if failure.is_empty() => failure = os_message(&error.into()),
            Err(_) => {}
        }
    }
    (soft, failure)
}
