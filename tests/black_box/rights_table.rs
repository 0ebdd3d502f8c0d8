//! Rights that change while a client does something: every way to read and write by every change of users.
//!
//! [`TABLE`] has a line for each way and a column for each change. A cell shows the outcome of the command that is
//! under way or sent after the change has been acknowledged; it both reads and writes:
//!
//! ```text
//!   ran     has its effect                     noauth  refused: the client has no user
//!   no      refused: the user has no right     closed  the connection is closed, and nothing was revealed or written
//!   first   has its effect before the change is acknowledged, or is refused
//!   wrote   MIGRATE's AUTH is refused, and RESTORE behind it is run: as the user of a connection that was open, or as
//!           the default one
//!   ends    closed with the right to the command that the connection is in, or, while its reply is half
//!           written, to some key; in Valkey it continues
//!   moved   not carried to the node that has the key, to which the client is redirected
//!   -       the way is not there
//! ```
//!
//! Cells are Valkey's 9.1.2, as far as it has the way: with `CINNABAR_TEST_SERVER` the same table is held against that.

#[path = "rights_table/elsewhere.rs"]
mod elsewhere;
#[path = "rights_table/stage.rs"]
mod stage;
#[path = "rights_table/ways.rs"]
mod ways;

use crate::harness::{address_that_is_not_loopback, is_peer};
use crate::tls::Authority;
use elsewhere::{ELSEWHERE, Place};
use stage::{Change, Stage, USER};
use std::collections::BTreeMap;
use ways::{Door, PROXIED, WAYS, Way};

const fn change(name: &'static str, user: &'static str, lines: &'static str) -> Change {
    Change { name, user, lines, denies: true, file: USER, is_of_strangers: false }
}

const fn harmless(name: &'static str, user: &'static str, lines: &'static str) -> Change {
    Change { denies: false, ..change(name, user, lines) }
}

const fn load(name: &'static str, file: &'static str) -> Change {
    Change { file, ..change(name, "u", "ACL LOAD") }
}

const CHANGES: &[Change] = &[
    harmless("none", "u", "CLIENT ID"),
    change("delete", "u", "ACL DELUSER u"),
    change("again", "u", "ACL DELUSER u; ACL SETUSER u on >x ~* &* +@all"),
    load("gone", ""),
    load("less", "user u on >x ~* &* -@all\n"),
    harmless("same", "u", "ACL LOAD"),
    harmless("off", "u", "ACL SETUSER u off"),
    harmless("pass", "u", "ACL SETUSER u resetpass >y"),
    change("-all", "u", "ACL SETUSER u -@all"),
    change("-cmd", "u", "ACL SETUSER u -getset -get -sort -blpop -dbsize"),
    change("keys", "u", "ACL SETUSER u resetkeys"),
    change("some", "u", "ACL SETUSER u resetkeys ~{secret}mine"),
    change("%R", "u", "ACL SETUSER u resetkeys %R~*"),
    harmless("chans", "u", "ACL SETUSER u resetchannels"),
    change("dbs", "u", "ACL SETUSER u resetdbs db=1"),
    harmless("d.none", "default", "PING"),
    harmless("d.pass", "default", "CONFIG SET requirepass y"),
    harmless("d.off", "default", "ACL SETUSER default off"),
    change("d.-all", "default", "ACL SETUSER default -@all"),
    change("d.keys", "default", "ACL SETUSER default resetkeys"),
    change("d.reset", "default", "ACL SETUSER default reset"),
    Change { is_of_strangers: true, ..harmless("d.prot", "default", "CONFIG SET protected-mode yes") },
];

const TABLE: &str = "
way               | none | delete | again  | gone   | less  | same | off    | pass   | -all  | -cmd  | keys  | some  | %R    | chans  | dbs   | d.none | d.pass | d.off  | d.-all | d.keys | d.reset | d.prot
array             | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
inline            | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
two halves        | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
unix socket       | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
TLS               | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
book              | -    | -      | -      | -      | -     | -    | -      | -      | -     | -     | -     | -     | -     | -      | -     | ran    | ran    | ran    | no     | no     | no      | ran
console           | ran  | noauth | ran    | noauth | no    | ran  | noauth | noauth | no    | no    | no    | no    | no    | ran    | no    | ran    | noauth | noauth | no     | no     | noauth  | no
migrate           | ran  | noauth | ran    | wrote  | no    | ran  | wrote  | wrote  | no    | ran   | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
RESP3             | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
script            | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
script by sum     | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
script, any key   | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
SORT              | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | ran   | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
queued SORT       | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | ran   | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
SORT in a script  | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
script, pcall     | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
function          | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
queued            | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
queued, watched   | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
queued script     | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
queued function   | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
BLPOP             | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
BLMOVE            | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | ran   | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
BLMPOP            | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | ran   | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
BZPOPMIN          | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | ran   | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
BZMPOP            | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | ran   | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
XREAD             | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | ran   | no    | no    | ran   | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
XREADGROUP        | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | ran   | no    | no    | ran   | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
behind BLPOP      | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
EXEC after BLPOP  | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
paused            | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
paused script     | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
paused function   | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
paused EXEC       | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | no    | no    | no    | no    | ran    | no    | ran    | ran    | ran    | no     | no     | no      | ran
running script    | -    | first  | first  | first  | first | -    | -      | -      | first | first | first | first | first | -      | first | -      | -      | -      | first  | first  | first   | -
running function  | -    | first  | first  | first  | first | -    | -      | -      | first | first | first | first | first | -      | first | -      | -      | -      | first  | first  | first   | -
SUBSCRIBE         | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | closed | ran   | ran    | ran    | ran    | ran    | ran    | closed  | ran
PSUBSCRIBE        | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | closed | ran   | ran    | ran    | ran    | ran    | ran    | closed  | ran
SSUBSCRIBE        | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | closed | ran   | ran    | ran    | ran    | ran    | ran    | closed  | ran
SUBSCRIBE, RESP3  | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | closed | ran   | ran    | ran    | ran    | ran    | ran    | closed  | ran
keyspace events   | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | closed | ran   | ran    | ran    | ran    | ran    | ran    | closed  | ran
MONITOR           | ran  | closed | closed | closed | ends  | ran  | ran    | ran    | ends  | ran   | ran   | ran   | ran   | ran    | ran   | ran    | ran    | ran    | ends   | ran    | ends    | ran
tracking          | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | ran    | ran   | ran    | ran    | ran    | ran    | ran    | ran     | ran
tracking, BCAST   | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | ran    | ran   | ran    | ran    | ran    | ran    | ran    | ran     | ran
replica           | ran  | closed | closed | closed | ends  | ran  | ran    | ran    | ends  | ran   | ran   | ran   | ran   | ran    | ran   | ran    | ran    | ran    | ends   | ran    | ends    | ran
Sentinel          | ran  | closed | closed | closed | no    | ran  | ran    | ran    | no    | ran   | ran   | ran   | ran   | ran    | ran   | ran    | ran    | ran    | no     | ran    | no      | ran
Sentinel's events | ran  | closed | closed | closed | ran   | ran  | ran    | ran    | ran   | ran   | ran   | ran   | ran   | closed | ran   | ran    | ran    | ran    | ran    | ran    | closed  | ran
";

/// Table of the work of another node for a client of the first. The change is made at the first.
const PROXIED_TABLE: &str = "
way             | none | delete | again  | gone   | less | same | off | pass | -all | -cmd  | keys | some  | %R  | chans | dbs | d.none | d.pass | d.off | d.-all | d.keys | d.reset | d.prot
array           | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | no    | no   | no    | no  | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
two halves      | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | no    | no   | no    | no  | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
script          | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | moved | no   | no    | no  | moved | no  | ran    | ran    | ran   | no     | no     | no      | ran
script by sum   | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | moved | no   | no    | no  | moved | no  | ran    | ran    | ran   | no     | no     | no      | ran
function        | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | moved | no   | no    | no  | moved | no  | ran    | ran    | ran   | no     | no     | no      | ran
MGET            | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | ran   | no   | no    | ran | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
script, any key | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | moved | no   | moved | no  | moved | no  | ran    | ran    | ran   | no     | no     | no      | ran
SORT            | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | no    | no   | moved | ran | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
queued SORT     | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | no    | no   | moved | ran | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
queued          | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | no    | no   | no    | no  | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
queued script   | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | moved | no   | no    | no  | moved | no  | ran    | ran    | ran   | no     | no     | no      | ran
queued, any key | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | moved | no   | moved | no  | moved | no  | ran    | ran    | ran   | no     | no     | no      | ran
paused          | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | no    | no   | no    | no  | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
paused script   | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | moved | no   | no    | no  | moved | no  | ran    | ran    | ran   | no     | no     | no      | ran
paused EXEC     | ran  | closed | closed | closed | no   | ran  | ran | ran  | no   | no    | no   | no    | no  | ran   | no  | ran    | ran    | ran   | no     | no     | no      | ran
";

/// Table of work that continues without the connection, or for long, each at servers of its own: a source of slots that
/// writes, MIGRATE whose target is slow, a reply and a deletion that are half done, a reply that waits for the disk,
/// and a command of which half was sent while the server loaded.
const ELSEWHERE_TABLE: &str = "
way         | none | delete | again  | gone   | less   | same | off | pass | -all   | -cmd   | keys   | some   | %R     | chans | dbs    | d.none | d.pass | d.off | d.-all | d.keys | d.reset | d.prot
slots       | ran  | closed | closed | closed | ends   | ran  | ran | ran  | ends   | ran    | ran    | ran    | ran    | ran   | ran    | -      | -      | -     | -      | -      | -       | -
slow target | ran  | closed | closed | closed | no     | ran  | ran | ran  | no     | ran    | no     | no     | no     | ran   | no     | ran    | ran    | ran   | no     | no     | no      | ran
KEYS        | ran  | closed | closed | closed | ends   | ran  | ran | ran  | ends   | ran    | ends   | ends   | ends   | ran   | ends   | ran    | ran    | ran   | ends   | ends   | ends    | ran
DELPREFIX   | -    | closed | closed | closed | closed | -    | -   | -    | closed | ran    | closed | closed | closed | -     | closed | -      | -      | -     | closed | closed | closed  | -
slow disk   | ran  | closed | closed | -      | -      | -    | ran | -    | ran    | -      | -      | -      | -      | -     | -      | -      | -      | -     | -      | -      | -       | -
loading     | ran  | closed | closed | -      | -      | -    | ran | ran  | no     | no     | no     | no     | no     | ran   | no     | -      | -      | -     | -      | -      | -       | -
";

/// Whether a way is there for this user and this server.
fn is_there(way: &Way, change: &Change) -> bool {
    let is_ours = matches!(way.door, Door::Book | Door::Console | Door::Sentinel) || way.name.starts_with("running");
    // A running script is asked about the changes that forbid what it does.
    let is_of_interest = !way.is_running || change.denies;
    let is_far = !change.is_of_strangers || address_that_is_not_loopback().is_some();
    is_of_interest && is_far && !(is_ours && is_peer() || way.door == Door::Book && change.user == "u")
}

/// Whether a cell is as the table has it. A running script that is written `first` may be stopped, too.
fn is_as_expected(expected: &str, found: &str) -> bool {
    let expected = match expected {
        "ends" if is_peer() => "ran",
        "ends" => "closed",
        other => other,
    };
    found == expected || expected == "first" && matches!(found, "no" | "closed")
}

/// Compares every cell with the table, and shows all the differences at once. A cell that is not found is not there.
fn hold_against<'w>(
    table: &str,
    ways: impl Iterator<Item = &'w str>,
    mut find: impl FnMut(&str, &Change) -> Option<&'static str>,
) {
    let mut differences = String::new();
    let mut lines = table.lines().skip(2);
    for way in ways {
        let mut cells = lines.next().expect("a line for each way").split('|').map(str::trim);
        assert_eq!(cells.next(), Some(way));
        for change in CHANGES {
            let expected = cells.next().expect("a cell for each change");
            match find(way, change) {
                None => assert!(expected == "-" || is_peer() || change.is_of_strangers, "{way} by {}", change.name),
                Some(found) if !is_as_expected(expected, found) => {
                    differences += &format!("{way} by {}: {found}, expected {expected}\n", change.name);
                }
                Some(_) => {}
            }
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

fn hold_ways_against(table: &str, ways: &[Way], mut stage: Stage<'_>) {
    hold_against(table, ways.iter().map(|way| way.name), |name, change| {
        let way = ways.iter().find(|way| way.name == name).expect("a way of that name");
        is_there(way, change).then(|| stage.cell(way, change))
    });
    assert!(stage.server.stop().success() && stage.other.stop().success());
}

#[test]
fn nothing_is_read_or_written_once_a_change_of_rights_is_acknowledged() {
    let authority = Authority::new();
    hold_ways_against(TABLE, WAYS, Stage::start(&authority));
}

#[test]
fn nothing_is_read_or_written_at_another_node_once_a_change_of_rights_is_acknowledged() {
    if is_peer() {
        return;
    }
    let authority = Authority::new();
    hold_ways_against(PROXIED_TABLE, PROXIED, Stage::start_proxy(&authority));
}

#[test]
fn nothing_goes_on_elsewhere_once_a_change_of_rights_is_acknowledged() {
    let mut stages: BTreeMap<&str, Place> = BTreeMap::new();
    hold_against(ELSEWHERE_TABLE, ELSEWHERE.iter().map(|row| row.name), |name, change| {
        let row = ELSEWHERE.iter().find(|row| row.name == name).expect("a row of that name");
        (row.cell)(stages.entry(row.name).or_insert_with(row.start), change)
    });
    assert!(stages.into_values().all(Place::stop));
}
