//! [`command::core::acl_check`] with the commands of the rooms.

use crate::testing::Client;

/// The number of keys is above the limit of a piece.
const KEYS: usize = 5000;

#[test]
fn a_command_of_several_pieces_stops_where_its_user_loses_a_right() {
    for change in ["ACL SETUSER u -@all", "ACL SETUSER u resetkeys", "ACL DELUSER u"] {
        for words in [&["KEYS", "*"], &["DELPREFIX", "key:"]] {
            let mut admin = Client::new();
            (0..KEYS).for_each(|n| _ = admin.is(&format!("SET key:{n} v"), "+OK"));
            admin.is("ACL SETUSER u on nopass ~* +@all", "+OK");
            let mut client = admin.beside();
            client.is("AUTH u x", "+OK");
            let mut running = client.begin(words);
            assert!(!running.step(), "{words:?} has more than a piece");
            admin.run(change);
            let left = admin.run("DBSIZE");
            assert_ne!(left, ":0", "{words:?}");
            assert!(running.step() && running.is_cut_off(), "{words:?} {change}");
            admin.is("DBSIZE", &left);
        }
    }
}

#[test]
fn a_command_of_several_pieces_goes_on_where_its_user_keeps_its_rights() {
    let mut admin = Client::new();
    (0..KEYS).for_each(|n| _ = admin.is(&format!("SET key:{n} v"), "+OK"));
    admin.is("ACL SETUSER u on nopass ~* +@all", "+OK");
    let mut client = admin.beside();
    client.is("AUTH u x", "+OK");
    let mut running = client.begin(&["DELPREFIX", "key:"]);
    assert!(!running.step());
    admin.is("ACL SETUSER u >another", "+OK").is("ACL SETUSER v on", "+OK");
    // Rights to other commands and to channels do not matter.
    admin.is("ACL SETUSER u -get resetchannels", "+OK");
    assert_eq!(running.end(), format!(":{KEYS}"));
}
