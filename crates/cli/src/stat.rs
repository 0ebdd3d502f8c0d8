//! `--stat`: a line about the server every second, read off INFO.

use std::thread;
use std::time::Duration;

use resp::Value;

use crate::big_keys::refused;
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;
use crate::transport::print;

/// Lines between two headings.
const LINES_A_PAGE: u64 = 20;

const HEADING: &str = "\
------- data ------ --------------------- load -------------------- - child -
keys       mem      clients blocked requests            connections          
";

/// Until the program is ended.
pub fn run(session: &mut RespSession) -> Result<(), ClientFailure> {
    let interval = Some(session.options().interval).filter(|interval| !interval.is_zero());
    let (mut lines, mut requests) = (0u64, 0);
    loop {
        let info = match session.ask_patiently(&["INFO"])? {
            Value::Error(text) => return Err(refused("ERROR", &text)),
            Value::Bulk(text) | Value::Verbatim(_, text) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        };
        if lines % LINES_A_PAGE == 0 {
            print(HEADING.as_bytes());
        }
        print(line(&info, &mut requests).as_bytes());
        lines += 1;
        thread::sleep(interval.unwrap_or(Duration::from_secs(1)));
    }
}

/// One line; `requests` is how many the line before it told of.
fn line(info: &str, requests: &mut i64) -> String {
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse::<i64>().ok()).unwrap_or(0)
    };
    let keys: i64 = info.lines().filter_map(keys_of_database).sum();
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
    let requests = format!("{total} (+{growth})");
    format!(
        "{keys:<11}{:<8} {:<8}{:<8}{requests:<19} {:<12}{child}\n",
        human(field("used_memory")),
        field("connected_clients"),
        field("blocked_clients"),
        field("total_connections_received"),
    )
}

/// `db0:keys=12,expires=0,...`
fn keys_of_database(line: &str) -> Option<i64> {
    let (number, fields) = line.strip_prefix("db")?.split_once(':')?;
    let keys = fields.strip_prefix("keys=")?.split(',').next()?;
    number.parse::<u32>().ok().and(keys.parse().ok())
}

/// A number of bytes as people read it: `1.64M`.
fn human(bytes: i64) -> String {
    let value = bytes as f64;
    match bytes {
        ..1024 => format!("{bytes}B"),
        1024..0x10_0000 => format!("{:.2}K", value / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.2}M", value / 1_048_576.0),
        _ => format!("{:.2}G", value / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_laid_out_as_by_valkey_cli() {
        let info = "# Clients\r\nconnected_clients:1\r\nblocked_clients:0\r\nused_memory:1719664\r\n\
            total_commands_processed:2369118\r\ntotal_connections_received:63\r\n\
            db0:keys=790,expires=0,avg_ttl=0\r\ndb3:keys=4,expires=0\r\ndbx:keys=9,\r\n";
        let mut requests = 2369117;
        assert_eq!(line(info, &mut requests), "794        1.64M    1       0       2369118 (+1)        63          \n");
        assert_eq!(requests, 2369118);
        let busy = "rdb_bgsave_in_progress:1\r\naof_rewrite_in_progress:1\r\n";
        assert!(line(busy, &mut 0).ends_with(" SAVE+AOF\n"));
        assert!(line("loading:1", &mut 0).ends_with(" LOAD\n"));
    }

    #[test]
    fn bytes_have_units() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (5 << 20, "5.00M"), (3 << 30, "3.00G")] {
            assert_eq!(human(bytes), text);
        }
    }
}
