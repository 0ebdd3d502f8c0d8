//! cinnabar-server: the commands of Redis and Valkey behind sockets, executed on every core.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    server::start(types::TYPES)
}
