//! SENTINEL DEBUG: the periods.

use super::option_checks::{Outcome, positive};
use crate::model::periods::Periods;
use resp::reply::Reply;

/// Shows all periods.
pub(super) fn show(periods: &mut Periods, reply: &mut Reply) {
    let named = periods.named();
    reply.map(named.len());
    for (name, value) in named {
        reply.bulk(name.to_ascii_uppercase().as_bytes());
        reply.bulk_int(*value);
    }
}

/// Changes periods, one after the other: those before a mistake stay changed.
pub(super) fn set(periods: &mut Periods, words: &[&[u8]], reply: &mut Reply) -> Outcome {
    for pair in words.chunks(2) {
        let option = String::from_utf8_lossy(pair[0]).into_owned();
        let mut named = periods.named().into_iter();
        let found = named.find(|(name, _)| name.eq_ignore_ascii_case(&option));
        let (Some((_, period)), Some(value)) = (found, pair.get(1)) else {
            return Err(format!("ERR Unknown option or number of arguments for SENTINEL DEBUG '{option}'"));
        };
        let Some(number) = positive(value) else {
            let value = String::from_utf8_lossy(value);
            return Err(format!("ERR Invalid argument '{value}' for SENTINEL DEBUG '{option}'"));
        };
        *period = number;
    }
    reply.ok();
    Ok(())
}
