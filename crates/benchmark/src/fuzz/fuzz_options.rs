//! The request for random commands, as the command line has it.

/// The request for random commands.
#[derive(Debug, Clone, Default)]
pub struct FuzzOptions {
    pub is_wanted: bool,
    pub modes: Vec<FuzzMode>,
    pub level: FuzzLevel,
    /// A level that there is not.
    pub unknown_level: Option<String>,
}

/// Commands beside valid ones that change no directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FuzzMode {
    Malformed,
    Directives,
}

impl FuzzMode {
    /// Returns the mode of a word of the command line.
    pub fn named(word: &str) -> Option<FuzzMode> {
        match word {
            "malformed-commands" => Some(FuzzMode::Malformed),
            "config-commands" => Some(FuzzMode::Directives),
            _ => None,
        }
    }
}

/// Lines that are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FuzzLevel {
    None,
    Error,
    #[default]
    Info,
    Debug,
}

impl FuzzLevel {
    /// Returns the level of a word of the command line.
    pub fn named(word: &str) -> Option<FuzzLevel> {
        match word {
            "none" => Some(FuzzLevel::None),
            "error" => Some(FuzzLevel::Error),
            "info" => Some(FuzzLevel::Info),
            "debug" => Some(FuzzLevel::Debug),
            _ => None,
        }
    }
}
