//! Types of messages.

/// Number of message types.
pub const MESSAGE_TYPES: usize = 11;

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// Question whether the receiver is alive.
    Ping,
    /// Answer to a ping.
    Pong,
    /// Ping that introduces the sender to the receiver.
    Meet,
    /// Announcement that a node has failed.
    Fail,
    /// Message for subscribers.
    Publish,
    /// Request for a vote.
    VoteRequest,
    /// Vote.
    Vote,
    /// Slots of another node, which are newer than the receiver's.
    Update,
    /// Request for a pause: the sender takes over.
    ManualFailoverStart,
    /// Message between modules.
    Module,
    /// Message for subscribers in a slot.
    PublishShard,
}

impl MessageType {
    /// All types, by their numbers.
    pub const ALL: [MessageType; MESSAGE_TYPES] = [
        MessageType::Ping,
        MessageType::Pong,
        MessageType::Meet,
        MessageType::Fail,
        MessageType::Publish,
        MessageType::VoteRequest,
        MessageType::Vote,
        MessageType::Update,
        MessageType::ManualFailoverStart,
        MessageType::Module,
        MessageType::PublishShard,
    ];

    /// Returns the type of that number.
    pub fn of(number: u16) -> Option<MessageType> {
        MessageType::ALL.get(usize::from(number)).copied()
    }

    /// Returns the type's name in CLUSTER INFO.
    pub fn name(self) -> &'static str {
        match self {
            MessageType::Ping => "ping",
            MessageType::Pong => "pong",
            MessageType::Meet => "meet",
            MessageType::Fail => "fail",
            MessageType::Publish => "publish",
            MessageType::VoteRequest => "auth-req",
            MessageType::Vote => "auth-ack",
            MessageType::Update => "update",
            MessageType::ManualFailoverStart => "mfstart",
            MessageType::Module => "module",
            MessageType::PublishShard => "publishshard",
        }
    }

    /// Returns whether the header may be a light one.
    pub fn may_be_light(self) -> bool {
        self.is_publish() || self == MessageType::Module
    }

    /// Returns whether the message is for subscribers.
    pub fn is_publish(self) -> bool {
        matches!(self, MessageType::Publish | MessageType::PublishShard)
    }
}
