//! Text pasted into the prompt: its lines run one after the other, as if typed.
//!
//! A terminal puts a mark before and behind pasted text. The line editor by itself makes one line of the text between
//! them; here the marks only tell that keys are part of a paste, so that a Tab in it is a blank and asks for no
//! completion.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustyline::history::History;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, Helper, KeyCode, KeyEvent, Modifiers,
    RepeatCount,
};

/// Whether keys are part of a paste; clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Paste(Arc<AtomicBool>);

impl Paste {
    /// Binds the marks and Tab.
    pub fn watch(editor: &mut Editor<impl Helper, impl History>) -> Paste {
        let paste = Paste::default();
        for key in [KeyCode::BracketedPasteStart, KeyCode::BracketedPasteEnd, KeyCode::Tab] {
            let handler = EventHandler::Conditional(Box::new(paste.clone()));
            editor.bind_sequence(KeyEvent(key, Modifiers::NONE), handler);
        }
        paste
    }

    /// Returns whether a paste is still under way.
    pub fn is_open(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl ConditionalEventHandler for Paste {
    fn handle(&self, event: &Event, _: RepeatCount, _: bool, _: &EventContext<'_>) -> Option<Cmd> {
        let KeyEvent(key, _) = event.get(0)?;
        match key {
            KeyCode::Tab => self.is_open().then_some(Cmd::Insert(1, " ".to_owned())),
            key => {
                self.0.store(*key == KeyCode::BracketedPasteStart, Relaxed);
                Some(Cmd::Noop)
            }
        }
    }
}
