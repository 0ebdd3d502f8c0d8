//! Users, passwords and what is switched off unless asked for.

use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, choice, flag, integer, text};

const NO_USERS: &str = "Cinnabar has no users but default";

directives! { after super::network::END;
    ACL_PUBSUB_DEFAULT = choice("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels").unsupported(NO_USERS);
    ACLFILE = text("aclfile", "").keeps_empty().immutable();
    ACLLOG_MAX_LEN = integer("acllog-max-len", 128, 0, i64::MAX).unsupported(NO_USERS);
    ENABLE_DEBUG_ASSERT = flag("enable-debug-assert", false).immutable().hidden().unsupported("Cinnabar has no assertions for debugging");
    ENABLE_DEBUG_COMMAND = choice("enable-debug-command", &["no", "yes", "local"], "no").immutable();
    ENABLE_MODULE_COMMAND = choice("enable-module-command", &["no", "yes", "local"], "no").immutable();
    ENABLE_PROTECTED_CONFIGS = choice("enable-protected-configs", &["no", "yes", "local"], "no").immutable();
    PROTECTED_MODE = flag("protected-mode", true);
    REQUIREPASS = text("requirepass", "").sensitive();
}
