//! [`command::core::slot_use`] with the commands of the rooms.

use crate::testing::Client;
use engine::stats::slot_traffic::SlotUse;

#[test]
fn transactions_and_scripts_count_as_a_whole() {
    let mut client = Client::new();
    client.engine().count_by_slot(true);
    let slot = engine::data::slot::slot_of(b"a");
    let taken = |client: &mut Client| {
        let SlotUse { nanos: _, received, sent } = client.engine().slot_traffic().of(slot);
        client.engine().slot_traffic().reset(|_| true);
        (received, sent)
    };
    client.is("SET a 1", "+OK");
    assert_eq!(taken(&mut client).1, 5);
    client.is("MULTI", "+OK").is("SET a 1", "+QUEUED").is("GET a", "+QUEUED");
    assert_eq!(taken(&mut client), (0, 0));
    client.is("EXEC", "[+OK 1]");
    let (received, sent) = taken(&mut client);
    assert_eq!(sent, 4 + 5 + 7);
    assert!(received > 15 + 27 + 20, "MULTI, and all that was queued");
    client.is("EVAL redis.call('set','a',1) 0", "nil");
    assert!(taken(&mut client).0 > 0);
    client.is("MULTI", "+OK").is("SET a 1", "+QUEUED").is("GET b", "+QUEUED").is("EXEC", "[+OK nil]");
    client.is("MGET a b", "[1 nil]").is("PING", "+PONG");
    assert_eq!(taken(&mut client), (0, 0), "what goes across slots counts for none");
}
