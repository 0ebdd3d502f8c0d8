//! The configuration of a Sentinel within the server: the server's directives about listening and logging. Directives
//! about data are left out, and so is the password, since its users are the server's.

use super::directive::Directive;
use super::directive_table;
use super::directive_value::{DirectiveValue, SavePoint};
use super::store::Config;

/// Directives about data, and ports of the server: a Sentinel has their defaults.
const UNSAID: [Directive; 10] = [
    Directive::ACLFILE,
    Directive::APPENDONLY,
    Directive::BOOK_PORT,
    Directive::DATABASES,
    Directive::MAXMEMORY,
    Directive::PROXY_PROTOCOL,
    Directive::REPLICAOF,
    Directive::REQUIREPASS,
    Directive::SENTINEL_PORT,
    Directive::UNIXSOCKET,
];

/// Directives that stay as they were when the Sentinel began to listen, or that it changes itself.
const OWN: [Directive; 4] = [Directive::LOGLEVEL, Directive::PORT, Directive::TLS_PORT, Directive::TLS_REPLICATION];

impl Config {
    /// Returns the configuration of the Sentinel at `sentinel-port`. Other Sentinels connect to it with TLS where
    /// servers do.
    pub fn of_sentinel_within(&self) -> Config {
        let mut config = self.clone();
        for directive in UNSAID {
            config.replace(directive, directive_table::entry(directive).default_value());
        }
        let port = self.int(Directive::SENTINEL_PORT);
        let (plain, tls) = if self.flag(Directive::TLS_REPLICATION) { (0, port) } else { (port, 0) };
        config.replace(Directive::PORT, DirectiveValue::Integer(plain));
        config.replace(Directive::TLS_PORT, DirectiveValue::Integer(tls));
        config.replace(Directive::SAVE, DirectiveValue::Save(Vec::<SavePoint>::new().into()));
        config
    }

    /// Returns the configuration that the Sentinel with `own` has once the server's is this one.
    pub fn of_running_sentinel(&self, own: &Config) -> Config {
        let mut config = self.of_sentinel_within();
        OWN.into_iter().for_each(|directive| config.replace(directive, own.value(directive).clone()));
        config
    }

    /// Whether connections with TLS are made in the same way.
    pub fn has_same_tls(&self, other: &Config) -> bool {
        let of_tls = directive_table::entries().iter().filter(|entry| entry.name.starts_with("tls-"));
        of_tls.map(|entry| entry.directive).all(|directive| self.value(directive) == other.value(directive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinel_listens_at_its_own_port() {
        let mut server = Config::default();
        server.replace(Directive::SENTINEL_PORT, DirectiveValue::Integer(26379));
        server.replace(Directive::MAXMEMORY, DirectiveValue::Integer(100));
        server.replace(Directive::REQUIREPASS, DirectiveValue::Text(Some(b"secret"[..].into())));
        let sentinel = server.of_sentinel_within();
        assert_eq!((sentinel.int(Directive::PORT), sentinel.int(Directive::TLS_PORT)), (26379, 0));
        assert_eq!((sentinel.int(Directive::MAXMEMORY), sentinel.text(Directive::REQUIREPASS)), (0, &b""[..]));
        assert!(sentinel.save_points().is_empty());
        server.replace(Directive::TLS_REPLICATION, DirectiveValue::Flag(true));
        let sentinel = server.of_sentinel_within();
        assert_eq!((sentinel.int(Directive::PORT), sentinel.int(Directive::TLS_PORT)), (0, 26379));
    }

    #[test]
    fn a_running_sentinel_keeps_its_ports_and_follows_other_directives() {
        let mut server = Config::default();
        server.replace(Directive::SENTINEL_PORT, DirectiveValue::Integer(26379));
        let sentinel = server.of_sentinel_within();
        server.replace(Directive::PROTECTED_MODE, DirectiveValue::Flag(false));
        server.replace(Directive::TLS_REPLICATION, DirectiveValue::Flag(true));
        let changed = server.of_running_sentinel(&sentinel);
        assert!(!changed.flag(Directive::PROTECTED_MODE) && changed.has_same_tls(&sentinel));
        assert_eq!((changed.int(Directive::PORT), changed.int(Directive::TLS_PORT)), (26379, 0));
        server.replace(Directive::TLS_CERT_FILE, DirectiveValue::Text(Some(b"x"[..].into())));
        assert!(!server.of_running_sentinel(&sentinel).has_same_tls(&sentinel));
    }
}
