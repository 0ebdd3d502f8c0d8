//! What other nodes say: of themselves, of third ones, of slots. Packets come in by [`packet_in`], which gives each
//! part to those that know what to make of it.

mod believed_epochs;
mod extensions_in;
mod gossip_in;
mod packet_in;
mod sender_news;
mod sender_role;
mod slot_claims;
