//! The commands of Redis and Valkey on Cinnabar's engine: one file a family, one row and one function a
//! command.
#![forbid(unsafe_code)]

pub mod args;
pub mod book;
pub mod cx;
pub mod dispatch;
mod expire_option;
pub mod keyspec;
pub mod row;
pub mod session;
pub mod sorted_set;
pub mod string;
pub mod table;

use row::Command;

/// All rows.
const FAMILIES: &[&[Command]] = &[sorted_set::COMMANDS, string::COMMANDS];

pub use args::Args;
pub use cx::{Cx, Flow, Now, Piecewise};
pub use session::Session;
