//! The admin plane: rights of clients, answers in each state of the server, and wrong requests.

use crate::failing_disks::limit_files;
use crate::harness::{PATIENCE, Server, eventually, free_port, is_peer, send};
use crate::tls::{Authority, with_each_thread_count};
use rustls::{ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// A server with an admin port.
pub struct Watched {
    pub server: Server,
    port: u16,
}

/// Status, head and body of an answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn of(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// The value of the sample with this name and these labels.
    pub fn number(&self, sample: &str) -> Option<f64> {
        let line = self.body.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok())
    }
}

impl Watched {
    pub fn start(options: &[&str]) -> Watched {
        let port = free_port();
        let number = port.to_string();
        let all = [&["--admin-port", &number], options].concat();
        Watched { server: Server::start(&all), port }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(path, "")
    }

    /// `head`: further lines of the request's head.
    fn ask(&self, path: &str, head: &str) -> Answer {
        Answer::of(&self.converse(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n")))
    }

    fn as_user(&self, authorization: &str) -> Answer {
        self.ask("/metrics", &format!("Authorization: Basic {authorization}\r\n"))
    }

    /// Sends this, and reads until the end.
    pub fn converse(&self, request: &str) -> String {
        let mut socket = connect(self.port);
        socket.write_all(request.as_bytes()).expect("a request is sent");
        let mut text = String::new();
        let _ = socket.read_to_string(&mut text);
        text
    }
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// `user:password` as a request has it.
pub const ADA_SECRET: &str = "YWRhOnNlY3JldA==";
const ADA_WRONG: &str = "YWRhOndyb25n";
const BOB_SECRET: &str = "Ym9iOnNlY3JldA==";
const DEFAULT_MASTER: &str = "Om1hc3Rlcg==";

const NAMES: &str = include_str!("dashboard_metrics.txt");

/// Names that the body has, those of parts of distributions among them.
fn served(body: &str) -> Vec<&str> {
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).collect()
}

/// Names of the list that are there in one of these states.
fn wanted<'n>(states: &'n [&str]) -> impl Iterator<Item = &'n str> {
    let lines = NAMES.lines().filter(|line| !line.starts_with('#'));
    let in_state = move |line: &'n str| match line.split_once(' ') {
        Some((name, state)) => states.contains(&state).then_some(name),
        None => Some(line),
    };
    lines.filter_map(in_state)
}

fn missing<'n>(answer: &Answer, states: &'n [&str]) -> Vec<&'n str> {
    let served = served(&answer.body);
    wanted(states).filter(|name| !served.contains(name)).collect()
}

#[test]
fn dashboards_find_their_metrics() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--appendonly", "yes", "--latency-monitor-threshold", "1"]);
    let mut client = watched.server.client();
    for words in [&["SET", "k", "v"][..], &["SET", "e", "v", "EX", "100"], &["GET", "k"], &["INCR", "k"]] {
        let _: redis::RedisResult<redis::Value> = redis::cmd(words[0]).arg(&words[1..]).query(&mut client);
    }
    let _: redis::RedisResult<redis::Value> =
        redis::cmd("EVAL").arg("local n = 0 for i = 1, 5e6 do n = n + i end").arg(0).query(&mut client);
    let primary = watched.server.port.to_string();
    let replica = Watched::start(&["--replicaof", &format!("127.0.0.1 {primary}")]);
    assert!(eventually(|| watched.get("/metrics").body.contains("slave_state=\"online\"")));
    let answer = watched.get("/metrics");
    assert_eq!(missing(&answer, &["errors", "keys", "log", "primary", "spike"]), Vec::<&str>::new());
    for (sample, value) in [
        ("redis_commands_total{cmd=\"incr\"}", 1.0),
        ("redis_commands_failed_calls_total{cmd=\"incr\"}", 1.0),
        ("redis_errors_total{err=\"ERR\"}", 1.0),
        ("redis_db_keys{db=\"db0\"}", 2.0),
        ("redis_db_keys_expiring{db=\"db0\"}", 1.0),
        ("redis_keyspace_hits_total", 1.0),
        ("redis_connected_slaves", 1.0),
        ("cinnabar_ready", 1.0),
    ] {
        assert_eq!(answer.number(sample), Some(value), "{sample}");
    }
    assert!(eventually(|| replica.get("/readyz").status == 200));
    let answer = replica.get("/metrics");
    assert_eq!(missing(&answer, &["keys", "replica"]), Vec::<&str>::new());
    assert!(
        answer
            .body
            .contains(&format!("redis_master_link_up{{master_host=\"127.0.0.1\",master_port=\"{primary}\"}} 1\n"))
    );
    assert!(wanted(&["never"]).filter(|name| served(&answer.body).contains(name)).eq(wanted(&[])));
}

#[test]
fn a_node_tells_of_its_cluster() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--cluster-enabled", "yes"]);
    assert_eq!(missing(&watched.get("/metrics"), &["cluster"]), Vec::<&str>::new());
    assert_eq!(watched.get("/metrics").number("redis_cluster_known_nodes"), Some(1.0));
}

#[test]
fn a_user_that_may_run_info_may_see_metrics() {
    if is_peer() {
        return;
    }
    let users = ["--user ada on >secret -@all +info", "--user bob on >secret +@all -info"];
    let words = users.iter().flat_map(|user| user.split(' '));
    let watched = Watched::start(&["--requirepass", "master"].into_iter().chain(words).collect::<Vec<&str>>());
    let answer = watched.get("/metrics");
    assert_eq!(answer.status, 401);
    assert!(answer.head.contains("www-authenticate: basic realm=\"cinnabar\""), "{}", answer.head);
    assert_eq!(watched.as_user(ADA_SECRET).status, 200);
    assert_eq!(watched.as_user(DEFAULT_MASTER).status, 200);
    assert_eq!((watched.as_user(ADA_WRONG).status, watched.as_user(BOB_SECRET).status), (401, 403));
    assert_eq!((watched.get("/healthz").status, watched.get("/readyz").status), (200, 200), "probes are nobody");
    let mut client = watched.server.client_with_password(&["--requirepass", "master"]);
    let log: Vec<Vec<redis::Value>> = redis::cmd("ACL").arg("LOG").query(&mut client).expect("a log");
    let shown = format!("{log:?}");
    assert!(log.len() == 2 && shown.contains("/metrics") && shown.contains("bob"), "{shown}");
}

#[test]
fn the_admin_port_answers_when_no_client_is_let_in() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--maxclients", "2"]);
    let mut clients: Vec<TcpStream> = (0..2).map(|_| watched.server.socket()).collect();
    for client in &mut clients {
        send(client, b"PING\r\n");
        let mut reply = [0; 7];
        client.read_exact(&mut reply).expect("a reply");
    }
    let mut refused = watched.server.socket();
    let mut text = String::new();
    let _ = refused.read_to_string(&mut text);
    assert!(text.starts_with("-ERR max number of clients reached"), "{text}");
    let answer = watched.get("/metrics");
    assert_eq!((answer.status, answer.number("redis_connected_clients")), (200, Some(2.0)));
    assert!(answer.number("redis_rejected_connections_total") >= Some(1.0));
}

#[test]
fn the_admin_port_answers_while_a_script_runs_away() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--busy-reply-threshold", "100"]);
    let mut client = watched.server.client();
    let _: () = redis::cmd("SET").arg("k").arg("v").arg("EX").arg(1000).query(&mut client).expect("a reply");
    assert_eq!(watched.get("/metrics").number("redis_db_keys_expiring{db=\"db0\"}"), Some(1.0));
    let mut busy = watched.server.socket();
    // The key's shard is the script's.
    send(&mut busy, b"*4\r\n$4\r\nEVAL\r\n$71\r\nredis.call('TTL', KEYS[1]) redis.call('GET', KEYS[1]) while true do end\r\n$1\r\n1\r\n$1\r\nk\r\n");
    let stuck = || {
        let answer = watched.get("/metrics");
        let present = |worker| answer.number(&format!("cinnabar_worker_current_tick_seconds{{worker=\"{worker}\"}}"));
        (answer.status == 200 && [0, 1].into_iter().any(|worker| present(worker) > Some(0.2))).then_some(answer)
    };
    let mut seen = None;
    assert!(eventually(|| {
        seen = stuck();
        seen.is_some()
    }));
    let answer = seen.expect("an answer");
    let of_db = |name: &str| answer.number(&format!("{name}{{db=\"db0\"}}"));
    assert_eq!(of_db("redis_db_keys"), Some(1.0));
    assert_eq!(of_db("redis_db_keys_expiring"), Some(1.0), "as it was seen last");
    assert_eq!(watched.get("/readyz").status, 200, "the script's keys are its own affair");
    let _: redis::RedisResult<()> = redis::cmd("SCRIPT").arg("KILL").query(&mut client);
}

#[test]
fn the_admin_port_answers_while_the_data_set_is_loaded() {
    if is_peer() {
        return;
    }
    // A tenth of a millisecond a key, which the file's 20,000 keep for two seconds.
    let mut watched = Watched::start(&["--key-load-delay", "100", "--enable-debug-command", "yes"]);
    let mut client = watched.server.client();
    let _: () = redis::cmd("DEBUG").arg("POPULATE").arg(20_000).query(&mut client).expect("keys");
    let _: () = redis::cmd("SAVE").query(&mut client).expect("a file");
    watched.server.restart();
    let (ready, metrics) = (watched.get("/readyz"), watched.get("/metrics"));
    assert_eq!((ready.status, &*ready.body), (503, "{\"ready\":false,\"reasons\":[\"loading\"]}\n"));
    assert_eq!((watched.get("/healthz").status, metrics.number("redis_loading_dump_file")), (200, Some(1.0)));
    assert!(eventually(|| watched.get("/readyz").status == 200));
    assert_eq!(watched.get("/metrics").number("redis_db_keys{db=\"db0\"}"), Some(20_000.0));
}

#[test]
fn a_replica_without_its_primary_is_not_ready() {
    if is_peer() {
        return;
    }
    let nobody = free_port().to_string();
    let watched = Watched::start(&["--replicaof", &format!("127.0.0.1 {nobody}")]);
    let answer = watched.get("/readyz");
    assert_eq!((answer.status, &*answer.body), (503, "{\"ready\":false,\"reasons\":[\"primary-link\"]}\n"));
    assert_eq!(watched.get("/metrics").number("cinnabar_not_ready{reason=\"primary-link\"}"), Some(1.0));
    let mut client = watched.server.client();
    let _: () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut client).expect("a reply");
    assert!(eventually(|| watched.get("/readyz").status == 200));
}

#[test]
fn a_full_server_that_keeps_all_is_not_ready() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--maxmemory-policy", "noeviction"]);
    let mut client = watched.server.client();
    let _: () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1mb").query(&mut client).expect("a reply");
    assert!(eventually(|| watched.get("/readyz").body.contains("memory")));
    let _: () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0").query(&mut client).expect("a reply");
    assert!(eventually(|| watched.get("/readyz").status == 200));
}

#[test]
fn the_admin_port_answers_during_a_save_and_reports_a_disk_that_fails() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&["--appendonly", "yes", "--rdb-key-save-delay", "100"]);
    let mut client = watched.server.client();
    let mut run = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        redis::cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut client)
    };
    run("MSET a 1 b 2 c 3").expect("a reply");
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("save")
        .arg("3600 1000")
        .query::<()>(&mut watched.server.client())
        .expect("a reply");
    for key in 0..3000 {
        run(&format!("SET key:{key} v")).expect("a reply");
    }
    run("BGSAVE").expect("a reply");
    assert_eq!(watched.get("/metrics").number("redis_rdb_bgsave_in_progress"), Some(1.0));
    assert!(eventually(|| watched.get("/metrics").number("redis_rdb_bgsave_in_progress") == Some(0.0)));
    limit_files(&watched.server, Some(0));
    run("BGSAVE").expect("a reply");
    assert!(eventually(|| watched.get("/readyz").body.contains("[\"save\"]")));
    let _ = run("CONFIG SET stop-writes-on-bgsave-error no");
    let mut writer = watched.server.socket();
    send(&mut writer, b"SET k v\r\n");
    assert!(eventually(|| watched.get("/readyz").body.contains("[\"log\"]")));
    assert!(watched.get("/metrics").number("cinnabar_log_unwritten_bytes") > Some(0.0));
    limit_files(&watched.server, None);
    assert!(eventually(|| watched.get("/readyz").status == 200));
}

#[test]
fn wrong_requests_are_refused_and_end_nothing() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&[]);
    assert_eq!((watched.get("/nope").status, watched.get("/").status), (404, 421));
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(200));
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405),
        ("GET / HTTP/9.9\r\n\r\n", 400),
        ("PING\r\n\r\n", 400),
        ("*1\r\n$4\r\nPING\r\n", 400),
        (&long, 431),
        (&many, 431),
    ] {
        let text = watched.converse(request);
        let head = request.lines().next().unwrap_or_default();
        let found = if text.is_empty() { 0 } else { Answer::of(&text).status };
        // An address that is too long has a status of its own.
        assert!(found == status || (status == 431 && found == 414), "{} {}", &head[..head.len().min(30)], text);
    }
    // A client that sends nothing does not delay others.
    let silent: Vec<TcpStream> = (0..8).map(|_| connect(watched.port)).collect();
    assert_eq!(watched.get("/healthz").status, 200);
    drop(silent);
    assert!(eventually(|| watched.get("/healthz").status == 200));
    let answer = Answer::of(&watched.converse("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(answer.status == 200 && answer.body.is_empty() && answer.head.contains("content-length: "));
}

#[test]
fn open_metrics_is_for_who_asks_for_it() {
    if is_peer() {
        return;
    }
    let watched = Watched::start(&[]);
    let answer =
        watched.ask("/metrics", "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2\r\n");
    assert!(answer.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(answer.body.ends_with("\n# EOF\n") && answer.body.contains("# TYPE redis_keyspace_hits counter\n"));
    assert!(answer.body.contains("\nredis_keyspace_hits_total 0\n"));
}

#[test]
fn a_certificate_or_a_password_lets_in_over_tls() {
    if is_peer() {
        return;
    }
    let port = free_port();
    let number = port.to_string();
    let options = ["--requirepass", "master", "--tls-auth-clients", "optional", "--tls-admin", "yes"];
    with_each_thread_count(&[&options[..], &["--admin-port", &number]].concat(), |server| {
        let status = |certificate: Option<&str>, head: &str| {
            let mut client = server.client_at(port, certificate);
            let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{head}\r\n");
            client.write_all(request.as_bytes()).expect("a request is sent");
            let mut text = String::new();
            let _ = client.read_to_string(&mut text);
            Answer::of(&text).status
        };
        let password = format!("Authorization: Basic {DEFAULT_MASTER}\r\n");
        assert_eq!((status(None, ""), status(None, &password), status(Some("client"), "")), (401, 200, 200));
        let mut client = server.plain_client("master");
        let mut run = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            redis::cmd(words[0]).arg(&words[1..]).query::<()>(&mut client).expect("a reply");
        };
        run("CONFIG SET tls-auth-clients-user CN");
        assert_eq!(status(Some("client"), ""), 401, "it names a user that is not there");
        run("ACL SETUSER client on -@all +ping");
        assert_eq!(status(Some("client"), ""), 403);
        run("ACL SETUSER client +info");
        assert_eq!(status(Some("client"), ""), 200);
        let mut plain = connect(port);
        plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").expect("a request is sent");
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"));
    });
}

/// The next connection to a collector.
fn next(collector: &TcpListener) -> TcpStream {
    let (socket, _) = collector.accept().expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// The request over it: its first line, its head and its body. It is answered with this status.
fn collect(stream: impl Read + Write, status: &str) -> (String, String, String) {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).expect("a line");
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).expect("a line") > 2 {
        head.push_str(&line.to_lowercase());
        line.clear();
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    reader.read_exact(&mut body).expect("a body");
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
    reader.into_inner().write_all(answer.as_bytes()).expect("an answer is sent");
    (first, head, String::from_utf8(body).expect("text"))
}

#[test]
fn metrics_are_sent_to_a_collector_again_and_again() {
    if is_peer() {
        return;
    }
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", collector.local_addr().expect("an address"));
    let headers = ["--otlp-headers", "Api-Key=s3cret%2C,x-other=y"];
    let server = Server::start(&["--otlp-endpoint", &endpoint, "--otlp-interval", "1", headers[0], headers[1]]);
    let (first, head, body) = collect(next(&collector), "200 OK");
    assert_eq!(first, "POST /v1/metrics HTTP/1.1\r\n");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert!(head.contains("api-key: s3cret,\r\n") && head.contains("x-other: y\r\n"), "{head}");
    for part in ["\"name\":\"redis_up\"", "\"service.name\"", "\"isMonotonic\":true", "\"explicitBounds\":["] {
        assert!(body.contains(part), "{part}{body}");
    }
    collect(next(&collector), "503 Service Unavailable");
    collect(next(&collector), "200 OK");
    let told = |text: &str| server.folder.read("stdout").contains(text);
    assert!(eventually(|| told("Metrics cannot be sent to 127.0.0.1") && told("are sent to 127.0.0.1")));
}

#[test]
fn a_collector_over_tls_is_the_one_that_its_certificate_names() {
    if is_peer() {
        return;
    }
    let authority = Authority::new();
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = collector.local_addr().expect("an address").port();
    let start = |host: &str| {
        let (endpoint, file) = (format!("https://{host}:{port}/"), authority.path("ca.crt"));
        let options = ["--otlp-endpoint", &endpoint, "--otlp-ca-cert-file", &file, "--otlp-interval", "1"];
        Server::start(&options)
    };
    let accept = || {
        let tls = ServerConnection::new(authority.server_settings()).expect("a connection");
        StreamOwned::new(tls, next(&collector))
    };
    let server = start("localhost");
    let (first, _, body) = collect(accept(), "200 OK");
    assert!(first == "POST /v1/metrics HTTP/1.1\r\n" && body.contains("redis_up"), "{first}");
    drop(server);
    let server = start("127.0.0.1");
    let read = accept().read(&mut [0]);
    assert!(read.is_err() || matches!(read, Ok(0)), "another's certificate is refused");
    assert!(eventually(|| server.folder.read("stdout").contains("Metrics cannot be sent to 127.0.0.1")));
}

#[test]
fn an_endpoint_that_is_none_keeps_the_server_from_starting() {
    if is_peer() {
        return;
    }
    let folder = crate::harness::Folder::new();
    let port = free_port().to_string();
    for (options, why) in [
        (vec!["--otlp-endpoint", "collector"], "otlp-endpoint is not of the form"),
        (vec!["--otlp-endpoint", "http://collector", "--otlp-headers", "key"], "otlp-headers is not of the form"),
        (vec!["--otlp-endpoint", "https://collector", "--otlp-ca-cert-file", "/no/such/file"], "/no/such/file"),
    ] {
        let (status, _) = crate::harness::run_to_end(&folder, &[vec!["--port", &port], options].concat());
        assert!(!status.success() && folder.read("stdout").contains(why), "{why}");
    }
}
