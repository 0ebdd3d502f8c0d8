//! CLIENT ACKNOWLEDGE, and acknowledged writes by configuration: replies wait until replicas have the changes behind
//! them.

use crate::core::args::Args;
use crate::core::context::{Context, Flow, Resumable};
use engine::config::Directive;
use engine::keyspace::record::LogUser;
use engine::status::acknowledgement::{AckNeed, REPLICAS_MAX};
use engine::{Engine, Error};
use replication::in_sync_set::MemberId;

/// CLIENT ACKNOWLEDGE replicas [DURABLE]
pub(crate) fn acknowledge(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let replicas = args.int(2)?;
    let durable = match args.len() {
        3 => false,
        4 if args.is(3, "durable") => true,
        _ => return Err(Error::Syntax),
    };
    let replicas = u8::try_from(replicas).ok().filter(|replicas| usize::from(*replicas) <= REPLICAS_MAX);
    let need = AckNeed { replicas: replicas.ok_or(Error::OutOfRange)?, durable };
    if need.replicas > 0 {
        let (asks, is_new) = cx.engine.replication().acknowledgement.ask_for_client();
        cx.session.ask_acks(Some(need), Some(asks));
        if is_new {
            cx.engine.host().ask_replicas();
        }
        cx.flow = Flow::more(LogBegins);
    } else {
        cx.session.ask_acks(Some(need), None);
        cx.reply.ok();
    }
    Ok(())
}

/// Waits until changes have places in a log that replies can wait for.
struct LogBegins;

impl Resumable for LogBegins {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let has_begun = cx.engine.is_logged_for(LogUser::Replicas) || cx.engine.replication().is_replica();
        if has_begun {
            cx.reply.ok();
        }
        has_begun
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}

/// CLIENT STRIKE member
pub(crate) fn strike(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let status = cx.engine.replication();
    let acknowledgement = &status.acknowledgement;
    // A server that may lack the member's writes must not run without the member.
    if status.is_replica() || acknowledgement.state() == "unconfirmed" {
        return Err(Error::StrikeUnconfirmed);
    }
    let id = MemberId::parse(args.word(2)).filter(|id| acknowledgement.strike(*id));
    id.ok_or(Error::StrikeUnknown)?;
    cx.engine.host().ask_replicas();
    cx.reply.ok();
    Ok(())
}

/// The configuration asks for acknowledged writes with so many replicas; 0: it does not.
pub(crate) fn configure(engine: &Engine, replicas: i64) {
    let status = &engine.replication().acknowledgement;
    if replicas <= 0 {
        status.cease_asking();
    } else if status.ask() {
        engine.host().ask_replicas();
    }
}

/// Requests acknowledged writes at the start, before there are clients, if the configuration does.
pub fn begin(engine: &Engine) {
    configure(engine, engine.config().snapshot().int(Directive::MIN_REPLICAS_TO_ACKNOWLEDGE));
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::keyspace::record::LogUser;
    use engine::status::acknowledgement::AckNeed;

    #[test]
    fn a_client_says_what_its_replies_wait_for() {
        let mut client = Client::new();
        client.engine().set_logging(LogUser::Replicas, true);
        assert!(!client.engine().replication().acknowledgement.is_asked());
        client.is("CLIENT ACKNOWLEDGE 0", "+OK");
        assert!(!client.engine().replication().acknowledgement.is_asked());
        client.is("CLIENT ACKNOWLEDGE 2 durable", "+OK");
        assert_eq!(client.session().acknowledge, Some(AckNeed { replicas: 2, durable: true }));
        assert!(client.engine().replication().acknowledgement.is_asked());
        client.is("CLIENT ACKNOWLEDGE x", "-ERR value is not an integer or out of range");
        client
            .is("CLIENT ACKNOWLEDGE -1", "-ERR value is out of range")
            .is("CLIENT ACKNOWLEDGE 17", "-ERR value is out of range");
        client.is("CLIENT ACKNOWLEDGE 1 what", "-ERR syntax error");
        let mut other = client.beside();
        other.is("CLIENT ACKNOWLEDGE 1", "+OK");
        client.is("RESET", "+RESET");
        assert_eq!(client.session().acknowledge, None);
        assert!(client.engine().replication().acknowledgement.is_asked());
        other.is("CLIENT ACKNOWLEDGE 0", "+OK");
        assert!(!client.engine().replication().acknowledgement.is_asked());
        other.is("CLIENT ACKNOWLEDGE 1", "+OK");
        drop(other);
        assert!(!client.engine().replication().acknowledgement.is_asked());
    }
}
