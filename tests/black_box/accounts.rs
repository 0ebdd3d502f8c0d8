//! Money that all clients move at once, in every way that there is: the sum never changes, and no client hangs.
//!
//! ```text
//!   account:0..99   numbers           transactions, WATCH loops, scripts with and without declared keys
//!   purse:0..9      lists of notes,   a transaction moves a note's worth between an account and a purse;
//!                   each worth its    BLMOVE moves notes, BLMPOP and BLPOP ring bells
//!                   text
//! ```
//!
//! Auditors look at everything in one moment, by a transaction and by a script. Meanwhile SWAPDB and walks over the
//! keyspace take locks their own way. By hand: `CINNABAR_STRESS=60` runs for a minute.

use crate::dialogue::ask;
use crate::harness::{Server, is_peer};
use redis::{Connection, FromRedisValue, Pipeline, RedisResult};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const ACCOUNTS: u64 = 100;
const PURSES: u64 = 10;
const BELLS: u64 = 4;
const BALANCE: i64 = 1000;

/// Moves what account 1 can spare to account 2, both declared.
const DECLARED: &str = "local n = math.min(tonumber(ARGV[1]), tonumber(redis.call('GET', KEYS[1])))
    redis.call('DECRBY', KEYS[1], n) redis.call('INCRBY', KEYS[2], n) return n";
/// Moves money between undeclared keys.
const UNDECLARED: &str = "local from, to = 'account:' .. ARGV[1], 'account:' .. ARGV[2]
    redis.call('DECRBY', from, 3) redis.call('INCRBY', to, 3) return 3";
/// Declares the account that it takes from and not the one that it gives to.
const HALF_DECLARED: &str = "redis.call('DECRBY', KEYS[1], 2) redis.call('INCRBY', 'account:' .. ARGV[1], 2) return 2";
/// Keeps to its key, but for the one time that it learns of another after it has changed its own. The round makes it a
/// script of its own each time.
const LATE: &str = "local round = ROUND
    redis.call('DECRBY', KEYS[1], 5) redis.call('INCRBY', ARGV[1] == '' and KEYS[1] or ARGV[1], 5) return round";
/// All that there is.
const AUDIT: &str = "local sum = 0
    for i = 0, 99 do sum = sum + redis.call('GET', 'account:' .. i) end
    for i = 0, 9 do for _, note in ipairs(redis.call('LRANGE', 'purse:' .. i, 0, -1)) do sum = sum + note end end
    return sum";

type Deed = fn(&mut Connection, u64) -> RedisResult<()>;

/// Deeds that clients repeat; `n` differs each time.
const DEEDS: [(&str, Deed); 11] = [
    ("transactions", transaction),
    ("WATCH loops", watch_loop),
    ("scripts with declared keys", |client, n| script(client, DECLARED, &[n, n / 100], &[7])),
    ("scripts without", |client, n| script(client, UNDECLARED, &[], &[n % 100, n / 100 % 100])),
    ("scripts with some", |client, n| script(client, HALF_DECLARED, &[n], &[n / 100 % 100])),
    ("scripts that learn late", late_script),
    ("withdrawals", withdraw),
    ("deposits", deposit),
    ("notes handed on", hand_on),
    ("bells rung", ring),
    ("databases swapped", swap),
];

fn account(n: u64) -> String {
    format!("account:{}", n % ACCOUNTS)
}

fn purse(n: u64) -> String {
    format!("purse:{}", n % PURSES)
}

fn transaction(client: &mut Connection, n: u64) -> RedisResult<()> {
    let mut pipeline = redis::pipe();
    pipeline.atomic();
    pipeline.cmd("DECRBY").arg(account(n)).arg(4).cmd("INCRBY").arg(account(n / 100)).arg(1);
    pipeline.cmd("INCRBY").arg(account(n / 7)).arg(3);
    pipeline.query::<Vec<i64>>(client).map(drop)
}

fn watch_loop(client: &mut Connection, n: u64) -> RedisResult<()> {
    let (from, to) = (account(n), account(n / 100));
    if from == to {
        return Ok(());
    }
    loop {
        redis::cmd("WATCH").arg(&from).arg(&to).exec(client)?;
        let (has, had): (i64, i64) = redis::cmd("MGET").arg(&from).arg(&to).query(client)?;
        let mut pipeline = redis::pipe();
        pipeline.atomic().cmd("SET").arg(&from).arg(has - 6).cmd("SET").arg(&to).arg(had + 6);
        if pipeline.query::<Option<(String, String)>>(client)?.is_some() {
            return Ok(());
        }
    }
}

fn script(client: &mut Connection, text: &str, accounts: &[u64], words: &[u64]) -> RedisResult<()> {
    let mut request = redis::cmd("EVAL");
    request.arg(text).arg(accounts.len());
    accounts.iter().for_each(|n| _ = request.arg(account(*n)));
    request.arg(words).exec(client)
}

fn late_script(client: &mut Connection, n: u64) -> RedisResult<()> {
    let text = LATE.replace("ROUND", &n.to_string());
    let mut call = |to: &str| redis::cmd("EVAL").arg(&text).arg(1).arg(account(n)).arg(to).exec(client);
    call("")?;
    call(&account(n / 100))
}

fn withdraw(client: &mut Connection, n: u64) -> RedisResult<()> {
    let worth = n % 50 + 1;
    let mut pipeline = redis::pipe();
    pipeline.atomic().cmd("DECRBY").arg(account(n)).arg(worth).cmd("RPUSH").arg(purse(n)).arg(worth);
    pipeline.query::<(i64, i64)>(client).map(drop)
}

fn deposit(client: &mut Connection, n: u64) -> RedisResult<()> {
    let take = "local note = redis.call('LPOP', KEYS[1]) or 0 redis.call('INCRBY', KEYS[2], note) return note";
    redis::cmd("EVAL").arg(take).arg(2).arg(purse(n)).arg(account(n)).exec(client)
}

/// Waits for a note; within a transaction it would not wait.
fn hand_on(client: &mut Connection, n: u64) -> RedisResult<()> {
    let mut request = redis::cmd("BLMOVE");
    request.arg(purse(n)).arg(purse(n / 10)).arg("LEFT").arg("RIGHT").arg(0.02);
    if n.is_multiple_of(3) {
        let mut pipeline = redis::pipe();
        pipeline.atomic().add_command(request);
        return pipeline.query::<(Option<String>,)>(client).map(drop);
    }
    request.exec(client)
}

/// Clients that wait at a bell, by every command for it, and others that ring it.
fn ring(client: &mut Connection, n: u64) -> RedisResult<()> {
    let bell = |n: u64| format!("bell:{}", n % BELLS);
    match n % 4 {
        0 => redis::cmd("BLPOP").arg(bell(n / 4)).arg(bell(n / 16)).arg(0.02).exec(client),
        1 => redis::cmd("BLMPOP").arg(0.02).arg(1).arg(bell(n / 4)).arg("RIGHT").exec(client),
        2 => redis::cmd("EVAL").arg("return redis.call('LPUSH', ARGV[1], 1)").arg(0).arg(bell(n / 4)).exec(client),
        _ => redis::pipe().atomic().cmd("RPUSH").arg(bell(n / 4)).arg(1).cmd("PING").exec(client),
    }
}

fn swap(client: &mut Connection, n: u64) -> RedisResult<()> {
    std::thread::sleep(Duration::from_millis(10));
    redis::cmd("SWAPDB").arg(1 + n % 3).arg(4).exec(client)?;
    redis::cmd("KEYS")
        .arg("account:*")
        .query::<Vec<String>>(client)
        .map(|keys| assert_eq!(keys.len(), ACCOUNTS as usize))
}

/// Returns the sum of all accounts and purses, in one moment.
fn audit(client: &mut Connection) -> i64 {
    let mut everything = Pipeline::new();
    everything.atomic().cmd("MGET");
    (0..ACCOUNTS).for_each(|n| _ = everything.arg(account(n)));
    (0..PURSES).for_each(|n| _ = everything.cmd("LRANGE").arg(purse(n)).arg(0).arg(-1));
    let lists: Vec<Vec<i64>> = everything.query(client).expect("everything");
    lists.iter().flatten().sum()
}

fn seconds() -> u64 {
    std::env::var("CINNABAR_STRESS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[test]
fn the_sum_of_all_accounts_never_changes() {
    let server = Server::start_with_threads(4, &[]);
    let mut client = server.client();
    (0..ACCOUNTS).for_each(|n| assert_eq!(ask(&mut client, &format!("SET {} {BALANCE}", account(n))), "OK"));
    let (stop, done) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; DEEDS.len()]);
    let mut audits = 0;
    let sum = BALANCE * ACCOUNTS as i64;
    std::thread::scope(|scope| {
        for client in 0..3 * DEEDS.len() {
            let (server, stop, done) = (&server, &stop, &done);
            scope.spawn(move || {
                let (name, deed) = DEEDS[client % DEEDS.len()];
                let mut connection = server.client();
                // Steps of a large prime number: each client goes its own way, the same in each run.
                let mut n = client as u64;
                while !stop.load(Relaxed) {
                    n = (n + 2_654_435_761) % (1 << 40);
                    deed(&mut connection, n).unwrap_or_else(|error| panic!("{name}: {error}"));
                    done[client % DEEDS.len()].fetch_add(1, Relaxed);
                }
            });
        }
        let _guard = StopAtEnd(&stop);
        let until = std::time::Instant::now() + Duration::from_secs(seconds());
        while std::time::Instant::now() < until {
            assert_eq!(audit(&mut client), sum, "as a transaction sees it");
            let seen = redis::cmd("EVAL").arg(AUDIT).arg(0).query(&mut client).expect("a sum");
            assert_eq!(i64::from_redis_value(seen).expect("a number"), sum, "as a script sees it");
            audits += 1;
        }
    });
    assert_eq!(audit(&mut client), sum);
    assert!(audits > 0);
    for ((name, _), count) in DEEDS.iter().zip(&done) {
        println!("{:>8} {name}", count.load(Relaxed));
        assert!(count.load(Relaxed) > 0, "no {name}");
    }
    println!("{audits:>8} audits");
    if !is_peer() {
        assert!(ask(&mut client, "INFO clients").contains("blocked_clients:0\\r"), "a client still waits");
    }
    assert!(server.stop().success());
}

/// A thread that ends, by a failure or not, lets the others end.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
