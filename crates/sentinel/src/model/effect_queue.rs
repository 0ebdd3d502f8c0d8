//! Requested effects, in their order.

use crate::model::effect::{Effect, Level};

/// The effects that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct EffectQueue {
    effects: Vec<Effect>,
}

impl EffectQueue {
    /// Adds an effect.
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Writes a line into the log.
    pub fn log(&mut self, level: Level, text: String) {
        self.push(Effect::Log { level, text });
    }

    /// Raises an event: a line of the log, and a message to subscribers of important ones.
    pub fn event(&mut self, level: Level, event: &str, text: &str) {
        self.log(level, format!("{event} {text}"));
        if level != Level::Debug {
            self.push(Effect::Publish { channel: event.to_string(), message: text.to_string() });
        }
    }

    /// Returns the effects so far.
    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
