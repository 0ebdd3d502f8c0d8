//! Events: a line of the log, a message to subscribers, and the notification script for important ones.

use crate::model::effect::{Effect, Level};
use crate::model::instance::{InstanceId, Kind};
use crate::model::instance_address::Address;
use crate::sentinel::Sentinel;

impl Sentinel {
    pub(crate) fn log(&mut self, level: Level, text: String) {
        self.effects.push(Effect::Log { level, text });
    }

    /// Raises an event whose text begins with the instance, and its primary.
    pub(crate) fn event_of(&mut self, level: Level, event: &str, id: InstanceId, more: &str) {
        let instance = &self.instances[id];
        let named = |kind: &str, name: &str, address: &Address| {
            let (host, port) = (self.announced(address), address.port);
            format!("{kind}{name} {host} {port}")
        };
        let kind = format!("{} ", instance.kind.word());
        let mut text = named(&kind, &instance.name, &instance.address);
        if let Some(primary) = instance.primary.filter(|_| instance.kind != Kind::Primary) {
            let primary = &self.instances[primary];
            text = format!("{text} @ {}", named("", &primary.name, &primary.address));
        }
        text.push_str(more);
        self.event_text(level, event, Some(id), &text);
    }

    /// Raises an event with a text of its own.
    pub(crate) fn event_text(&mut self, level: Level, event: &str, id: Option<InstanceId>, text: &str) {
        self.log(level, format!("{event} {text}"));
        if level != Level::Debug {
            self.effects.push(Effect::Publish { channel: event.to_string(), message: text.to_string() });
        }
        if level == Level::Warning
            && let Some(id) = id
            && let Some(script) = self.instances.group(id).notification_script.clone()
        {
            self.scripts.push(vec![script, event.as_bytes().to_vec(), text.as_bytes().to_vec()]);
        }
    }
}
