//! cinnabar-server with the toy type.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    server::start(toy_type::TYPES)
}
