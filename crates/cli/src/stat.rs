//! `--stat`: a line about the server every second, read off INFO; as JSON, an object a line.

use std::thread;
use std::time::Duration;

use resp::Value;
use resp::json::{object, text};

use crate::human_bytes::human;
use crate::keys::keyspace_walk::refused;
use crate::protocol_client::ClientFailure;
use crate::reply_format;
use crate::resp_session::RespSession;
use crate::transport::print;

/// Lines between two headings.
const LINES_A_PAGE: u64 = 20;

const HEADING: &str = "\
------- data ------ --------------------- load -------------------- - child -
keys       mem      clients blocked requests            connections          
";

/// Runs until the program is ended.
pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    let interval = Some(session.options().interval).filter(|interval| !interval.is_zero());
    let (mut lines, mut requests) = (0u64, 0);
    loop {
        let info = match session.ask_patiently(&["INFO"])? {
            Value::Error(text) => return Err(refused("ERROR", &text)),
            Value::Bulk(text) | Value::Verbatim(_, text) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        };
        let moment = Moment::of(&info, &mut requests);
        if session.options().output.is_json() {
            print(&reply_format::reply(&moment.as_value(), session.options()));
        } else {
            if lines % LINES_A_PAGE == 0 {
                print(HEADING.as_bytes());
            }
            print(moment.line().as_bytes());
        }
        lines += 1;
        thread::sleep(interval.unwrap_or(Duration::from_secs(1)));
    }
}

/// Values of INFO at one moment.
#[derive(Debug)]
struct Moment {
    keys: i64,
    memory: i64,
    clients: i64,
    blocked: i64,
    requests: i64,
    /// Number of requests since the moment before.
    growth: i64,
    connections: i64,
    child: &'static str,
}

impl Moment {
    /// Reads INFO; `requests` is the number of requests at the moment before.
    fn of(info: &str, requests: &mut i64) -> Moment {
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse::<i64>().ok()).unwrap_or(0)
        };
        let total = field("total_commands_processed");
        let growth = if *requests == 0 { 0 } else { total - *requests };
        *requests = total;
        let child = match (field("loading"), field("aof_rewrite_in_progress"), field("rdb_bgsave_in_progress")) {
            (0, 0, 0) => "",
            (0, 0, _) => "SAVE",
            (0, _, 0) => "AOF",
            (0, _, _) => "SAVE+AOF",
            _ => "LOAD",
        };
        Moment {
            keys: info.lines().filter_map(keys_of_database).sum(),
            memory: field("used_memory"),
            clients: field("connected_clients"),
            blocked: field("blocked_clients"),
            requests: total,
            growth,
            connections: field("total_connections_received"),
            child,
        }
    }

    fn line(&self) -> String {
        let Moment { keys, clients, blocked, connections, child, .. } = self;
        let (memory, requests) = (human(self.memory), format!("{} (+{})", self.requests, self.growth));
        format!("{keys:<11}{memory:<8} {clients:<8}{blocked:<8}{requests:<19} {connections:<12}{child}\n")
    }

    fn as_value(&self) -> Value {
        object([
            ("keys", Value::Int(self.keys)),
            ("used_memory", Value::Int(self.memory)),
            ("connected_clients", Value::Int(self.clients)),
            ("blocked_clients", Value::Int(self.blocked)),
            ("requests", Value::Int(self.requests)),
            ("requests_since", Value::Int(self.growth)),
            ("connections", Value::Int(self.connections)),
            ("child", text(self.child)),
        ])
    }
}

/// `db0:keys=12,expires=0,...`
fn keys_of_database(line: &str) -> Option<i64> {
    let (number, fields) = line.strip_prefix("db")?.split_once(':')?;
    let keys = fields.strip_prefix("keys=")?.split(',').next()?;
    number.parse::<u32>().ok().and(keys.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_laid_out_as_by_valkey_cli() {
        let info = "# Clients\r\nconnected_clients:1\r\nblocked_clients:0\r\nused_memory:1719664\r\n\
            total_commands_processed:2369118\r\ntotal_connections_received:63\r\n\
            db0:keys=790,expires=0,avg_ttl=0\r\ndb3:keys=4,expires=0\r\ndbx:keys=9,\r\n";
        let line = |info: &str, requests: &mut i64| Moment::of(info, requests).line();
        let mut requests = 2369117;
        assert_eq!(line(info, &mut requests), "794        1.64M    1       0       2369118 (+1)        63          \n");
        assert_eq!(requests, 2369118);
        let busy = "rdb_bgsave_in_progress:1\r\naof_rewrite_in_progress:1\r\n";
        assert!(line(busy, &mut 0).ends_with(" SAVE+AOF\n"));
        assert!(line("loading:1", &mut 0).ends_with(" LOAD\n"));
    }
}
