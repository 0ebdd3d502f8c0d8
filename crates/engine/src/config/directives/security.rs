//! Users, passwords and what is switched off unless asked for.

use crate::config::apply::Apply::Engine;
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{DirectiveEntry, choice, flag, integer, text};

directives! { after super::network::END;
    /// Channels that a new user may use.
    ACL_PUBSUB_DEFAULT = choice("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels");
    /// The file that users are read from, and ACL SAVE writes.
    ACLFILE = text("aclfile", "").keeps_empty().immutable();
    /// Entries that ACL LOG keeps.
    ACLLOG_MAX_LEN = integer("acllog-max-len", 128, 0, i64::MAX);
    /// Assertions for debugging.
    ENABLE_DEBUG_ASSERT = flag("enable-debug-assert", false).immutable().hidden().unsupported("Cinnabar has no assertions for debugging");
    /// Clients that may call DEBUG: none (`no`), all (`yes`), or clients on this machine (`local`).
    ENABLE_DEBUG_COMMAND = choice("enable-debug-command", &["no", "yes", "local"], "no").immutable();
    /// Clients that may call MODULE: none (`no`), all (`yes`), or clients on this machine (`local`).
    ENABLE_MODULE_COMMAND = choice("enable-module-command", &["no", "yes", "local"], "no").immutable();
    /// Clients that may change protected directives by CONFIG SET: none (`no`), all (`yes`), or clients on this machine
    /// (`local`).
    ENABLE_PROTECTED_CONFIGS = choice("enable-protected-configs", &["no", "yes", "local"], "no").immutable();
    /// Functions by which a script can reach the variables of others: `getfenv`, `setfenv` and `newproxy`.
    LUA_ENABLE_INSECURE_API = flag("lua-enable-insecure-api", false).alias("lua-enable-deprecated-api").hidden().protected().applied(Engine(|engine| engine.script_api()));
    /// Without a password and a `bind`, only clients on this machine are served.
    PROTECTED_MODE = flag("protected-mode", true);
    /// The password of the default user, which clients give with AUTH; empty asks for none.
    REQUIREPASS = text("requirepass", "").sensitive().applied(Engine(|engine| engine.default_password()));
}
