//! Answers of a node for slots of other nodes: it asks their owners and returns their replies to its clients.
//!
//! ```text
//!   [`Question`] of a client -> [`Proxy`] -> a part for each owner -> [`owner_links`]: in order over a connection
//!                                 ^   |                                  |
//!     MOVED, ASK: ask there       +---+------------- replies ------------+      in the order of the requests
//!                                     v
//!                      parts joined ([`reply_join`]), each client's answers in the order of its questions
//! ```
//!
//! Bytes, time and the ends of connections come in; bytes, requests for connections and answers go out. The module
//! depends on no sockets, threads, clocks or commands: its caller decides which parts a question has.

mod asked;
mod by_number;
mod client_answers;
pub mod owner_link;
mod owner_links;
#[expect(clippy::module_inception, reason = "it is what the folder is about")]
pub mod proxy;
pub mod proxy_request;
pub mod redirection;
pub mod reply_join;

pub use asked::ClientKey;
pub use client_answers::{Answer, Answers};
pub use owner_link::{CAPABILITY, Credentials};
pub use owner_links::{LinkOrder, ProxyLink};
pub use proxy::Proxy;
pub use proxy_request::{Context, Follower, Part, Question};
pub use reply_join::Join;
