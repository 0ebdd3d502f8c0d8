//! Versions that programs name. Tools and scripts choose their commands by the first version that they read, so that is
//! the version of the Valkey with these commands and options; Cinnabar's own stands beside it.

/// The Valkey whose commands, replies and options are served.
pub const VALKEY: &str = "9.1.2";

/// Cinnabar's own version.
pub const CINNABAR: &str = env!("CARGO_PKG_VERSION");

/// Both, as `--version` of a tool prints them behind its name.
pub const NAMES: &str = concat!("9.1.2 (Cinnabar ", env!("CARGO_PKG_VERSION"), ")");

#[cfg(test)]
mod tests {
    use super::{CINNABAR, NAMES, VALKEY};

    #[test]
    fn the_version_of_the_commands_comes_first() {
        assert_eq!(NAMES, format!("{VALKEY} (Cinnabar {CINNABAR})"));
    }
}
