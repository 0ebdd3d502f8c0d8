//! Users, passwords and what is switched off unless asked for.

use crate::config::directive::Directive::*;
use crate::config::row::{Row, choice, flag, integer, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    choice(AclPubsubDefault, "acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels"),
    text(AclFile, "aclfile", "").keeps_empty().immutable(),
    integer(AclLogMaxLen, "acllog-max-len", 128, 0, i64::MAX),
    flag(EnableDebugAssert, "enable-debug-assert", false).immutable().hidden(),
    choice(EnableDebugCommand, "enable-debug-command", &["no", "yes", "local"], "no").immutable(),
    choice(EnableModuleCommand, "enable-module-command", &["no", "yes", "local"], "no").immutable(),
    choice(EnableProtectedConfigs, "enable-protected-configs", &["no", "yes", "local"], "no").immutable(),
    flag(ProtectedMode, "protected-mode", true),
    text(RequirePass, "requirepass", "").sensitive(),
];
