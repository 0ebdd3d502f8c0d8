//! The lines of the log when the server starts. Tools wait for some of them: the process id, in the picture or in the
//! line instead of it, before "Server initialized".

use crate::system::log;
use commands::core::mode;
use commands::version::{CINNABAR, VALKEY};
use engine::config::{Config, Directive};
use std::io::{IsTerminal, stdout};

/// Logs the start, before anything is opened.
pub fn starting(configured: bool) {
    log::notice("oO0OoO0OoO0Oo Cinnabar is starting oO0OoO0OoO0Oo");
    // Tools read the version whose commands are served, as in `--version`.
    let pid = std::process::id();
    log::notice(format_args!("Cinnabar version={VALKEY}, cinnabar={CINNABAR}, bits=64, pid={pid}, just started"));
    if configured {
        log::notice("Configuration loaded");
    } else {
        log::warning(
            "Warning: no config file specified, using the default config. In order to specify a config file use cinnabar-server /path/to/cinnabar.conf",
        );
    }
}

/// Logs the picture, or a line if the log is not on a terminal and `always-show-logo` is not set.
pub fn show(config: &Config) {
    let (mode, port) = (mode::name(config.flag(Directive::CLUSTER_ENABLED)), config.int(Directive::PORT));
    let seen =
        config.text(Directive::LOGFILE).is_empty() && !config.flag(Directive::SYSLOG_ENABLED) && stdout().is_terminal();
    if config.flag(Directive::ALWAYS_SHOW_LOGO) || seen {
        log::raw(&logo(mode, port));
    } else {
        log::notice(format_args!("Running mode={mode}, port={port}."));
    }
    warn_of_backlog(config);
}

/// Warns of a queue of connections that Linux shortens silently.
fn warn_of_backlog(config: &Config) {
    const MOST: &str = "/proc/sys/net/core/somaxconn";
    let backlog = config.int(Directive::TCP_BACKLOG);
    let most = std::fs::read_to_string(MOST).ok().and_then(|text| text.trim().parse::<i64>().ok());
    if let Some(most) = most.filter(|most| (1..backlog).contains(most)) {
        log::warning(format_args!(
            "WARNING: The TCP backlog setting of {backlog} cannot be enforced because {MOST} is set to the lower value of {most}."
        ));
    }
}

fn logo(mode: &str, port: i64) -> String {
    let pid = std::process::id();
    format!(
        r"
             .
            / \            Cinnabar {CINNABAR} 64 bit
           /   \
      .   /  .  \
     / \ /  / \  \  .      Running in {mode} mode
    /   \  /   \  \/ \     Port: {port}
   /  .  \/  .  \ /   \    PID: {pid}
   \  |  /\  |  / \   /
    \ | /  \ | /   \ /     The commands of Redis and Valkey,
     \|/    \|/     v      executed on every core
      v      v

"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_names_process_and_port() {
        let text = logo("standalone", 7000);
        assert!(text.contains(&format!(" PID: {}\n", std::process::id())) && text.contains(" Port: 7000\n"), "{text}");
    }
}
