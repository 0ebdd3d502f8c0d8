//! How much was said and heard.

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

    fn is_publish(self) -> bool {
        matches!(self, MessageType::Publish | MessageType::PublishShard)
    }
}

/// How much of what went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages by the numbers of their types.
    pub messages: [u64; MESSAGE_TYPES],
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of messages for subscribers.
    pub publish_bytes: u64,
    /// Bytes of modules' messages.
    pub module_bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, of: MessageType, bytes: usize) {
        self.messages[of as usize] += 1;
        self.bytes += bytes as u64;
        if of.is_publish() {
            self.publish_bytes += bytes as u64;
        }
        if of == MessageType::Module {
            self.module_bytes += bytes as u64;
        }
    }
}

/// How much was said and heard since the start, or since it was set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What was said. Counted when it is given to a link.
    pub sent: Traffic,
    /// What was heard.
    pub received: Traffic,
    /// Links that were closed because too much waited.
    pub links_over_limit: u64,
}
