//! Users, passwords and what is switched off unless asked for.

use crate::config::directive::Directive::*;
use crate::config::row::{Row, choice, flag, integer, text};

const NO_USERS: &str = "Cinnabar has no users but default";

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    choice(AclPubsubDefault, "acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels").unsupported(NO_USERS),
    text(AclFile, "aclfile", "").keeps_empty().immutable(),
    integer(AclLogMaxLen, "acllog-max-len", 128, 0, i64::MAX).unsupported(NO_USERS),
    flag(EnableDebugAssert, "enable-debug-assert", false).immutable().hidden().unsupported("Cinnabar has no assertions for debugging"),
    choice(EnableDebugCommand, "enable-debug-command", &["no", "yes", "local"], "no").immutable(),
    choice(EnableModuleCommand, "enable-module-command", &["no", "yes", "local"], "no").immutable(),
    choice(EnableProtectedConfigs, "enable-protected-configs", &["no", "yes", "local"], "no").immutable(),
    flag(ProtectedMode, "protected-mode", true),
    text(RequirePass, "requirepass", "").sensitive(),
];
