//! redis-rs: one server, and a cluster.

use redis::{Commands, RedisResult, Script, cluster::ClusterClient};
use std::collections::HashMap;

fn main() -> RedisResult<()> {
    let port = |name| std::env::var(name).expect("a port");
    let mut client = redis::Client::open(format!("redis://127.0.0.1:{}/?protocol=resp3", port("PORT")))?.get_connection()?;
    redis::cmd("FLUSHALL").exec(&mut client)?;
    let value: Vec<u8> = (0..102_400).map(|index: u32| index as u8).collect();
    let () = client.set("bytes", &value)?;
    assert_eq!(client.get::<_, Vec<u8>>("bytes")?, value);
    let mut pipe = redis::pipe();
    for _ in 0..1000 {
        pipe.incr("n", 1);
    }
    assert_eq!(pipe.query::<Vec<u64>>(&mut client)?.last(), Some(&1000));
    let counts: Vec<u64> = redis::pipe().atomic().incr("n", 1).incr("n", 1).query(&mut client)?;
    assert_eq!(counts, [1001, 1002]);
    let () = client.hset_multiple("h", &[("a", 1), ("b", 2)])?;
    assert_eq!(client.hgetall::<_, HashMap<String, u8>>("h")?, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
    let words: Vec<String> = Script::new("return {KEYS[1], ARGV[1]}").key("k").arg("v").invoke(&mut client)?;
    assert_eq!(words, ["k", "v"]);
    let wrong = client.lpush::<_, _, u64>("h", 1).expect_err("a list in a hash");
    assert_eq!(wrong.code(), Some("WRONGTYPE"));
    let nodes = vec![format!("redis://127.0.0.1:{}/", port("CLUSTER_PORT"))];
    let mut cluster = ClusterClient::new(nodes)?.get_connection()?;
    for number in 0..200 {
        let () = cluster.set(format!("key:{number}"), number)?;
    }
    for number in 0..200 {
        assert_eq!(cluster.get::<_, u32>(format!("key:{number}"))?, number);
    }
    Ok(())
}
