//! `nodes.conf`: a node's knowledge of its cluster, a line for each node and one for the epochs.
//!
//! ```text
//! <id> <ip>:<port>@<bus port>,<hostname>[,<name>=<value>]* <flags> <primary or -> <ping sent> <pong received>
//!     <config epoch> <link> [<slot> | <slot>-<slot> | [<slot>->-<id>] | [<slot>-<-<id>]]*
//! vars currentEpoch <epoch> lastVoteEpoch <epoch> [unsynchronized <1 or 2>]
//!     [agreedEpoch <epoch>]
//! ```
//!
//! CLUSTER NODES returns the same lines, as clients see them.

#[cfg(feature = "fuzzing")]
mod conf_fuzz;
mod conf_read;
mod conf_write;

#[cfg(feature = "fuzzing")]
pub use conf_fuzz::fuzz;
pub(crate) use conf_read::is_plain;
pub use conf_read::{Conf, ConfError, read};
pub use conf_write::{LineFor, Vars, node_line, write};
