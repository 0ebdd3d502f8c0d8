//! What a Sentinel within a server has of the server's configuration: where and how it listens and logs, and the
//! password. It has no data, so nothing that is about data.

use super::directive::Directive;
use super::directive_table;
use super::directive_value::{DirectiveValue, SavePoint};
use super::store::Config;

/// What is about data, and ports that are the server's: as if nobody had said anything.
const UNSAID: [Directive; 9] = [
    Directive::ACLFILE,
    Directive::APPENDONLY,
    Directive::BOOK_PORT,
    Directive::DATABASES,
    Directive::MAXMEMORY,
    Directive::PROXY_PROTOCOL,
    Directive::REPLICAOF,
    Directive::SENTINEL_PORT,
    Directive::UNIXSOCKET,
];

impl Config {
    /// The configuration of the Sentinel at `sentinel-port`. Other Sentinels come to it with TLS where servers do.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_listens() {
        let mut server = Config::default();
        server.replace(Directive::SENTINEL_PORT, DirectiveValue::Integer(26379));
        server.replace(Directive::MAXMEMORY, DirectiveValue::Integer(100));
        server.replace(Directive::REQUIREPASS, DirectiveValue::Text(Some(b"secret"[..].into())));
        let sentinel = server.of_sentinel_within();
        assert_eq!((sentinel.int(Directive::PORT), sentinel.int(Directive::TLS_PORT)), (26379, 0));
        assert_eq!((sentinel.int(Directive::MAXMEMORY), sentinel.text(Directive::REQUIREPASS)), (0, &b"secret"[..]));
        assert!(sentinel.save_points().is_empty());
        server.replace(Directive::TLS_REPLICATION, DirectiveValue::Flag(true));
        let sentinel = server.of_sentinel_within();
        assert_eq!((sentinel.int(Directive::PORT), sentinel.int(Directive::TLS_PORT)), (0, 26379));
    }
}
