//! Packets of other nodes: about themselves, about others, about slots. [`packet_in`] takes them, and passes each part
//! to the module that handles it.

mod believed_epochs;
mod extensions_in;
mod gossip_in;
mod packet_in;
mod sender_role;
mod sender_update;
mod slot_claims;
