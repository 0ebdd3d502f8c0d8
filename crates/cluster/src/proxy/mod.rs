//! A node that answers its clients for slots of other nodes: it asks their owners and passes on what they reply.
//!
//! ```text
//!   [`Question`] of a client -> [`Proxy`] -> a part for each owner -> [`owner_links`]: one after the other over a connection
//!                                 ^   |                                  |
//!     MOVED, ASK: ask there       +---+------------- replies ------------+      in the order of the requests
//!                                     v
//!                      parts joined ([`reply_join`]), each client's answers in the order of its questions
//! ```
//!
//! What comes in is bytes, time and the ends of connections; what goes out is bytes, wishes for connections and
//! answers. Nothing here knows of sockets, threads or clocks, nor of commands: what a question consists of is its
//! asker's matter.

mod asked;
pub mod owner_link;
mod owner_links;
#[expect(clippy::module_inception, reason = "it is what the folder is about")]
pub mod proxy;
pub mod question;
pub mod redirection;
pub mod reply_join;

pub use asked::{Answer, ClientKey};
pub use owner_link::{CAPABILITY, Credentials};
pub use owner_links::{LinkOrder, ProxyLink};
pub use proxy::Proxy;
pub use question::{Context, Part, Question};
pub use reply_join::Join;
