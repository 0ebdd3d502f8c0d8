//! SENTINEL's replies, and the configuration that a Sentinel writes and reads again.

use resp::reply::{Protocol, Reply};
use sentinel::{ConfigLine, Effect, Host, Level, Sentinel};
use std::sync::{Arc, Mutex};

const NOW: i64 = 1_700_000_000_000;

#[derive(Clone, Default)]
struct Surroundings {
    saved: Arc<Mutex<Vec<ConfigLine>>>,
    full: Arc<Mutex<bool>>,
}

impl Host for Surroundings {
    fn resolve(&mut self, name: &str) -> Option<String> {
        (name == "db").then(|| "10.0.0.9".to_string())
    }

    fn is_executable(&mut self, path: &[u8]) -> bool {
        path.starts_with(b"/bin/told")
    }

    fn save(&mut self, lines: Vec<ConfigLine>) -> Result<(), String> {
        if *self.full.lock().unwrap() {
            return Err("disk full".to_string());
        }
        *self.saved.lock().unwrap() = lines;
        Ok(())
    }

    fn log_level(&self) -> String {
        "notice".to_string()
    }

    fn set_log_level(&mut self, _: &str) {}

    fn requirepass(&self) -> Option<Vec<u8>> {
        None
    }

    fn port(&self) -> u16 {
        26379
    }
}

struct Client {
    sentinel: Sentinel,
    surroundings: Surroundings,
}

impl Client {
    fn with(lines: &[&str]) -> Client {
        let surroundings = Surroundings::default();
        let mut sentinel = Sentinel::new(Box::new(surroundings.clone()), 1, NOW);
        for line in lines {
            sentinel.statement(&resp::words::split(line.as_bytes()).unwrap()).unwrap();
        }
        sentinel.start(NOW);
        Client { sentinel, surroundings }
    }

    fn new() -> Client {
        Client::with(&["monitor main 10.0.0.1 6379 2"])
    }

    fn run(&mut self, line: &str) -> String {
        let words = resp::words::split(line.as_bytes()).unwrap();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
        self.sentinel.command(&words, &mut reply, NOW);
        String::from_utf8(reply.into_inner()).unwrap().replace("\r\n", " ").trim_end().to_string()
    }

    #[track_caller]
    fn is(&mut self, line: &str, wanted: &str) -> &mut Client {
        assert_eq!(self.run(line), wanted, "{line}");
        self
    }

    fn hello(&mut self, message: &str) {
        let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
        self.sentinel.publish(sentinel::HELLO_CHANNEL.as_bytes(), message.as_bytes(), &mut reply, NOW);
    }

    /// Returns the Sentinel that starts with the configuration that this one has written.
    fn restarted(&self) -> Client {
        let saved = self.saved();
        Client::with(&sorted(saved.lines().map(|line| line.strip_prefix("sentinel ").unwrap()).collect()))
    }

    fn logged(&mut self, what: &str) -> usize {
        let effects = self.sentinel.take_effects();
        effects.iter().filter(|effect| matches!(effect, Effect::Log { text, .. } if text.contains(what))).count()
    }

    fn saved(&self) -> String {
        let lines = self.surroundings.saved.lock().unwrap();
        lines
            .iter()
            .filter(|line| line.needed)
            .map(|line| String::from_utf8(line.line.clone()).unwrap() + "\n")
            .collect()
    }

    fn events(&mut self) -> Vec<String> {
        let effects = self.sentinel.take_effects().into_iter();
        let published = effects.filter_map(|effect| match effect {
            Effect::Publish { channel, message } => Some(format!("{channel} {message}")),
            _ => None,
        });
        published.collect()
    }
}

#[test]
fn sentinel_replies_where_the_primary_is() {
    let mut client = Client::new();
    client.is("get-master-addr-by-name main", "*2 $8 10.0.0.1 $4 6379").is("GET-PRIMARY-ADDR-BY-NAME nope", "*-1");
    client.is("primary nope", "-ERR No such master with that name").is("sentinels main", "*0").is("slaves main", "*0");
    assert!(
        client.run("master main").starts_with("*40 $4 name $4 main $2 ip $8 10.0.0.1 $4 port $4 6379 $5 runid $0 ")
    );
    client.is(
        "ckquorum main",
        "-NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master",
    );
    client.is("failover main", "-NOGOODSLAVE No suitable replica to promote");
    client.is("failover main coordinated", "-NOGOODPRIMARY Primary does not support FAILOVER command");
}

#[test]
fn a_vote_is_given_once_an_epoch() {
    let mut client = Client::new();
    client.is("is-master-down-by-addr 10.0.0.1 6379 5 *", "*3 :0 $1 * :0");
    client.is("is-master-down-by-addr 10.0.0.1 6379 5 a", "*3 :0 $1 a :5");
    assert!(client.saved().contains("sentinel leader-epoch main 5\n"), "before anybody hears of it");
    client.is("is-master-down-by-addr 10.0.0.1 6379 5 b", "*3 :0 $1 a :5");
    client.is("is-master-down-by-addr 10.0.0.1 6379 4 b", "*3 :0 $1 a :5");
    client.is("is-master-down-by-addr 10.0.0.1 6379 6 b", "*3 :0 $1 b :6");
    client.is("is-master-down-by-addr 10.0.0.2 6379 7 b", "*3 :0 $1 * :0");
    // The epoch is still known after a restart.
    client.restarted().is("is-master-down-by-addr 10.0.0.1 6379 6 c", "*3 :0 $1 * :6");
}

const PEER: &str = "10.0.0.5,26379,0123456789012345678901234567890123456789";

#[test]
fn an_epoch_that_cannot_be_is_refused_and_logged() {
    let mut client = Client::with(&["monitor main 10.0.0.1 6379 2", "current-epoch 5"]);
    client.is("is-master-down-by-addr 10.0.0.1 6379 9223372036854775807 a", "*3 :0 $1 * :0");
    client.is("is-master-down-by-addr 10.0.0.1 6379 -1 a", "*3 :0 $1 * :0");
    assert_eq!(client.logged("too far ahead"), 1, "once, however many come at once");
    for (current, config) in [("18446744073709551615", "0"), ("6", "18446744073709551615"), ("20000000", "0")] {
        client.hello(&format!("{PEER},{current},main,10.0.0.2,6379,{config}"));
    }
    client.is("sentinels main", "*0").is("get-primary-addr-by-name main", "*2 $8 10.0.0.1 $4 6379");
    // The next epoch is as good as ever, after a restart too.
    client.is("is-master-down-by-addr 10.0.0.1 6379 6 a", "*3 :0 $1 a :6");
    client.restarted().is("is-master-down-by-addr 10.0.0.1 6379 7 b", "*3 :0 $1 b :7");
}

#[test]
fn epochs_that_were_missed_are_caught_up_with() {
    let mut client = Client::with(&["monitor main 10.0.0.1 6379 2", "current-epoch 5"]);
    client.hello(&format!("{PEER},100000,main,10.0.0.2,6380,99999"));
    client.is("get-primary-addr-by-name main", "*2 $8 10.0.0.2 $4 6380");
    assert!(client.saved().contains("sentinel current-epoch 100000\n"));
    // A Sentinel without epochs joins an old group, and its own failovers have epochs after that.
    let mut fresh = Client::new();
    fresh.hello(&format!("{PEER},5000000,main,10.0.0.2,6380,7"));
    fresh.is("get-primary-addr-by-name main", "*2 $8 10.0.0.2 $4 6380");
    fresh.is("is-master-down-by-addr 10.0.0.2 6380 5000001 a", "*3 :0 $1 a :5000001");
}

#[test]
fn one_message_does_not_part_a_fresh_sentinel_from_its_group() {
    let largest: u64 = 1 << 24;
    let mut fresh = Client::new();
    // An epoch beyond the largest is believed neither at once nor step by step, before the group knows of the first.
    for epoch in [1 << 62, largest + 1, largest, 2 * largest, largest + 1] {
        fresh.hello(&format!("{PEER},{epoch},main,10.0.0.1,6379,0"));
    }
    assert!(fresh.saved().contains(&format!("sentinel current-epoch {largest}\n")));
    // The group believes its own epochs, and continues together.
    let mut member = Client::with(&["monitor main 10.0.0.1 6379 2", "current-epoch 3"]);
    member.hello(&format!("{PEER},{largest},main,10.0.0.1,6379,0"));
    assert!(member.saved().contains(&format!("sentinel current-epoch {largest}\n")));
}

#[test]
fn a_file_with_an_epoch_that_cannot_be_is_no_end() {
    let largest = u64::MAX;
    let epochs = ["current-epoch", "config-epoch main", "leader-epoch main"].map(|name| format!("{name} {largest}"));
    let mut lines = vec!["monitor main 10.0.0.1 6379 2"];
    lines.extend(epochs.iter().map(String::as_str));
    let mut client = Client::with(&sorted(lines));
    assert_eq!(client.logged("is refused"), 3);
    client.is("is-master-down-by-addr 10.0.0.1 6379 1 a", "*3 :0 $1 a :1");
}

#[test]
fn words_of_any_kind_come_back_from_the_file() {
    let names = ["two words", "it's", "a \\\"quote\\\"", "back\\\\slash", "#"];
    let mut client = Client::with(&["resolve-hostnames yes", "announce-hostnames yes"]);
    for name in names {
        client.is(&format!("monitor \"{name}\" 10.0.0.1 6379 2"), "+OK");
        client.is(&format!("set \"{name}\" auth-pass \" a \\\"b\\\" 'c' \" auth-user \"u u\""), "+OK");
        client.is(&format!("set \"{name}\" rename-command config \"c \\\" d\""), "+OK");
    }
    let scripts =
        ["notification-script \"two words\" \"/bin/told me\"", "client-reconfig-script it's \"/bin/told\\nme\""];
    for line in scripts {
        client.sentinel.statement(&resp::words::split(line.replace("it's", "\"it's\"").as_bytes()).unwrap()).unwrap();
    }
    client.is("config set announce-ip \"not an address\" sentinel-pass \"p \\\"p\"", "+OK");
    // Another Sentinel's claimed name never becomes a line of the file by itself.
    client.hello("x\nsentinel monitor evil 10.9.9.9 1 1,26379,an id,0,two words,10.0.0.1,6379,0");
    let saved = client.saved();
    assert!(!saved.lines().any(|line| line.starts_with("sentinel monitor evil")), "{saved}");
    let mut again = client.restarted();
    again.is("flushconfig", "+OK");
    assert_eq!(again.saved(), saved);
    for name in names {
        again.is(&format!("get-primary-addr-by-name \"{name}\""), "*2 $8 10.0.0.1 $4 6379");
    }
    assert!(again.run("sentinels \"two words\"").contains("$5 an id"));
}

fn sorted(mut lines: Vec<&str>) -> Vec<&str> {
    sentinel::load_order(&mut lines, |line| line.split(' ').next().unwrap().as_bytes());
    lines
}

#[test]
fn watching_begins_and_ends() {
    let mut client = Client::new();
    client.events();
    client.is("monitor other 10.0.0.2 1 0", "-ERR Quorum must be 1 or greater.");
    client.is("monitor other db 1 1", "-ERR Invalid IP address or hostname specified");
    client.is("monitor other 10.0.0.2 70000 1", "-ERR Invalid port number.");
    client.is("monitor main 10.0.0.2 1 1", "-ERR Duplicate master name.");
    client.is(
        "monitor \"a\\nb\" 10.0.0.2 1 1",
        "-ERR Invalid argument at index 2 for SENTINEL MONITOR: control characters are not allowed",
    );
    client.is("config set resolve-hostnames yes announce-hostnames yes", "+OK").is("monitor other db 1 1", "+OK");
    client.is("get-master-addr-by-name other", "*2 $2 db $1 1");
    assert_eq!(client.events(), ["+monitor master other db 1 quorum 1"]);
    client.is("reset o*", ":1").is("remove other", "+OK").is("remove other", "-ERR No such master with that name");
    assert_eq!(client.events(), ["+reset-master master other db 1", "-monitor master other db 1"]);
}

#[test]
fn settings_of_a_primary() {
    let mut client = Client::new();
    client.events();
    client.is("set main down-after-milliseconds 5 auth-pass secret rename-command config cfg", "+OK");
    let wanted = ["down-after-milliseconds 5", "auth-pass ******", "rename-command config cfg"];
    assert_eq!(client.events(), wanted.map(|text| format!("+set master main 10.0.0.1 6379 {text}")));
    client.is("set main quorum 0", "-ERR Invalid argument '0' for SENTINEL SET 'quorum'");
    client.is("set main quorum", "-ERR Unknown option or number of arguments for SENTINEL SET 'quorum'");
    assert!(
        client
            .run("set main notification-script /bin/told")
            .starts_with("-ERR Reconfiguration of scripts path is denied")
    );
    let saved = client.saved();
    for line in
        ["down-after-milliseconds main 5", "auth-pass main \"secret\"", "rename-command main \"config\" \"cfg\""]
    {
        assert!(saved.contains(&format!("sentinel {line}\n")), "{saved}");
    }
    *client.surroundings.full.lock().unwrap() = true;
    client.is("flushconfig", "-ERR Failed to save config file. Check server logs.");
    let warned =
        |effect: &Effect| matches!(effect, Effect::Log { level: Level::Warning, text } if text.ends_with("disk full"));
    assert!(client.sentinel.take_effects().iter().any(warned));
}

#[test]
fn settings_of_the_sentinel() {
    let mut client = Client::new();
    client.is("config get announce-*", "*6 $18 announce-hostnames $2 no $11 announce-ip $0  $13 announce-port $1 0");
    client.is("config set announce-port x", "-ERR Invalid value 'x' to SENTINEL CONFIG SET 'announce-port'");
    client.is("config set announce-port 1 nope 2", "-ERR Invalid argument 'nope' to SENTINEL CONFIG SET");
    client.is("config get announce-port", "*2 $13 announce-port $1 0");
    client.is("config set announce-port 7 sentinel-pass p", "+OK");
    assert!(client.saved().contains("sentinel announce-port 7\nsentinel sentinel-pass \"p\"\n"));
    client.is("debug info-period 0", "-ERR Invalid argument '0' for SENTINEL DEBUG 'info-period'");
    client.is("debug info-period", "-ERR Unknown option or number of arguments for SENTINEL DEBUG 'info-period'");
    client.is("debug INFO-PERIOD 5", "+OK");
    assert!(client.run("debug").starts_with("*26 $11 INFO-PERIOD $1 5 $11 PING-PERIOD $4 1000 "));
}

#[test]
fn scripts_are_called_for_what_is_important() {
    let mut client = Client::with(&["monitor main 10.0.0.1 6379 2", "notification-script main /bin/told"]);
    client.sentinel.tick(NOW + 1);
    let runs = |effect: &Effect| matches!(effect, Effect::RunScript { argv, .. } if argv[1] == b"+monitor");
    assert!(client.sentinel.take_effects().iter().any(runs));
    assert!(client.run("pending-scripts").starts_with("*1 *10 $4 argv *3 $9 /bin/told $8 +monitor "));
}

#[test]
fn statements_that_are_wrong() {
    for (line, wanted) in [
        ("nope", "Unrecognized sentinel configuration statement."),
        ("monitor main 10.0.0.1 1", "Unrecognized sentinel configuration statement."),
        ("monitor x 10.0.0.1 1 0", "Quorum must be 1 or greater."),
        ("monitor main 10.0.0.1 1 1", "Duplicate master name."),
        ("monitor x nobody 1 1", "Can't resolve instance hostname."),
        ("monitor x 10.0.0.1 70000 1", "Invalid port number."),
        ("down-after-milliseconds main 0", "negative or zero time parameter."),
        ("primary-reboot-down-after-period main -1", "negative time parameter."),
        ("myid x", "Malformed Sentinel id in myid option."),
        ("notification-script main /x", "Notification script seems non existing or non executable."),
        ("auth-pass nope x", "No such master with specified name."),
        ("deny-scripts-reconfig x", "Please specify yes or no for the deny-scripts-reconfig options."),
    ] {
        let mut client = Client::new();
        let words = resp::words::split(line.as_bytes()).unwrap();
        assert_eq!(client.sentinel.statement(&words), Err(wanted.to_string()), "{line}");
    }
}

#[test]
fn tilt_is_entered_when_time_jumps() {
    let mut client = Client::new();
    client.events();
    client.sentinel.tick(NOW + 100);
    client.sentinel.tick(NOW + 60_000);
    assert_eq!(client.events(), ["+tilt #tilt mode entered"]);
    assert!(client.sentinel.info(NOW + 60_000).contains("sentinel_tilt:1\r\nsentinel_tilt_since_seconds:0\r\n"));
    let mut now = NOW + 60_000;
    while now < NOW + 91_000 {
        now += 100;
        client.sentinel.tick(now);
    }
    assert_eq!(client.events(), ["-tilt #tilt mode exited", "+sdown master main 10.0.0.1 6379"]);
}
