//! What messages are about.

/// How many types of messages there are.
pub const MESSAGE_TYPES: usize = 11;

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// Are you there?
    Ping,
    /// I am.
    Pong,
    /// A ping that makes the receiver know the sender.
    Meet,
    /// A node has failed.
    Fail,
    /// A message for subscribers.
    Publish,
    /// Vote for me.
    VoteRequest,
    /// A vote.
    Vote,
    /// Another node has those slots.
    Update,
    /// Pause, I take over.
    ManualFailoverStart,
    /// A message between modules.
    Module,
    /// A message for subscribers in a slot.
    PublishShard,
}

impl MessageType {
    /// All, by their numbers.
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

    /// The type of that number.
    pub fn of(number: u16) -> Option<MessageType> {
        MessageType::ALL.get(usize::from(number)).copied()
    }

    /// What CLUSTER INFO calls it.
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

    /// Whether its header may be a light one.
    pub fn may_be_light(self) -> bool {
        self.is_publish() || self == MessageType::Module
    }

    /// Whether it is for subscribers.
    pub fn is_publish(self) -> bool {
        matches!(self, MessageType::Publish | MessageType::PublishShard)
    }
}
