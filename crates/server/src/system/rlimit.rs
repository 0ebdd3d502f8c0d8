//! How many files the process may have open: each client is one.

use crate::system::log;
use engine::config::os_message;
use rlimit::Resource;
use std::fs::read_to_string;

/// File descriptors that are needed besides those of clients.
const RESERVED: u64 = 32;

/// Raises the limit of open files for so many clients. Answers how many there can be.
pub fn admit(clients: u64) -> Result<u64, String> {
    let wanted = clients.saturating_add(RESERVED);
    let (soft, hard) = match Resource::NOFILE.get() {
        Ok(limits) => limits,
        Err(error) => {
            log::warning(format_args!(
                "Unable to obtain the current NOFILE limit ({error}), assuming 1024 and setting the max clients configuration accordingly."
            ));
            return Ok(1024 - RESERVED);
        }
    };
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
    if best <= RESERVED {
        return Err(format!(
            "Your current 'ulimit -n' of {soft} is not enough for the server to start. Please increase your open file limit to at least {wanted}. Exiting."
        ));
    }
    let possible = best - RESERVED;
    log::warning(format_args!(
        "You requested maxclients of {clients} requiring at least {wanted} max file descriptors."
    ));
    log::warning(format_args!("Server can't set maximum open files to {wanted} because of OS error: {failure}."));
    log::warning(format_args!(
        "Current maximum open files is {best}. maxclients has been reduced to {possible} to compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    ));
    Ok(possible)
}

/// Raises the limit as far as the system lets us; answers the limit, and why it is not `wanted`.
fn raise(wanted: u64, soft: u64, hard: u64) -> (u64, String) {
    let mut failure = String::new();
    let system = read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(hard);
    for limit in [wanted, wanted.min(system), wanted.min(hard)] {
        if limit <= soft {
            continue;
        }
        // Only root may raise the hard limit, which the first tries do.
        match Resource::NOFILE.set(limit, limit.max(hard)) {
            Ok(()) => return (limit, failure),
            Err(error) if failure.is_empty() => failure = os_message(&error),
            Err(_) => {}
        }
    }
    (soft, failure)
}
