//! The text of `--help`, with every option that there is.

/// The text of `--help`.
pub const HELP: &str = "\
Usage: cinnabar-benchmark [OPTIONS] [--] [COMMAND ARGS...]

Loads a server from many connections and reports throughput and latency. Without
a command it runs its own tests; ';' as an argument of its own separates several
commands, a number before a command repeats it.

Placeholders in arguments:
 __rand_int__       a number of 12 digits below that of -r, another at each place
 __rand_1st__ ... __rand_9th__
                    the same, but one number for all places of that name
 {tag}              with --cluster, a tag whose slot the node has
 __data__           as many bytes as -d says

Options:
 -h <hostname>      Server's host name (default 127.0.0.1)
 -p <port>          Server's port (default 6379)
 -s <socket>        Server's Unix socket, instead of host and port
 -a <password>      Password to authenticate with
 --user <name>      User to authenticate as (with -a)
 -u <uri>           valkey://user:password@host:port/dbnum (or redis://;
                    valkeys:// with TLS)
 -c <clients>       Connections (default 50)
 -n <requests>      Requests (default 100000)
 --duration <s>     Run for so many seconds instead of -n requests
 --warmup <s>       Load for so many seconds before anything is recorded
 -d <size>          Bytes of a value (default 3)
 --dbnum <db>       Database (default 0)
 -3                 RESP3
 --threads <num>    Threads that load (default 1)
 --cluster          Load all primaries of the cluster that the server is of, each
                    with keys of its slots: {tag} in a command's keys becomes
                    what routes it, and every key of a command needs it
 --rfr <mode>       Nodes that --cluster loads: no (default) the primaries, yes
                    the replicas, all of them; replicas are for reads only
 --mptcp            Connect with MPTCP, over several paths
 --fuzz             Send random commands, made of the server's COMMAND DOCS, and
                    count replies; the data is of no more use afterwards
 --fuzz-mode <modes>
                    malformed-commands: spoil some of them; config-commands: also
                    CONFIG SET; separated by commas
 --fuzz-loglevel <level>
                    none, error, info (default) or debug
 --enable-tracking  Turn client tracking on first
 -k <boolean>       1: keep connections, 0: connect anew for each batch (default 1)
 -r <range>         Random keys, members and scores from so many; without it all
                    requests of a test use the same key
 --sequential       Numbers count up instead of being random
 -P <numreq>        Requests that are sent before their replies are awaited
                    (default 1); of several commands: times they are sent
 --rps <requests>   Requests per second at most. Latencies count from the moment
                    at which a request was due, so a server that falls behind
                    cannot hide it
 -q                 One line a test
 --precision <n>    Decimal places of latencies (default 0)
 --csv              Comma separated values
 -l                 Run the tests for ever
 -t <tests>         Only these tests, separated by commas
 -I                 Open the connections and wait
 -x                 Read the last argument from standard input
 --workload <mix>   Several commands at once, each as often as its weight says, such
                    as get=80,set=15,incr=5; a test's name or, with a blank in it, a
                    command: 'hgetall h:__rand_int__=3,get=7'
 --zipf <theta>     Few of the numbers of -r come often, by Zipf's law: about 0.99 as
                    in caches; 0 comes most often
 --rate <requests>  Open loop: so many requests per second, sent when they are due,
                    whether others were answered or not. Latencies count from when
                    a request was due
 --compare <host:port>
                    Load that server, too, in turns with the first, and compare;
                    also a socket's path. Login and encryption are the same
 --rounds <n>       Turns of each server (default 3)
 --min-ratio <r>    Status 2 where the first server's throughput is below so many
                    times the other's
 --svg <file>       Draw latencies by percentile
 --json             Report as JSON
 --seed <num>       Seed of random numbers (default: the time)
 --num-functions <num>
                    Functions in the library of the test function_load (default 10)
 --num-keys-in-fcall <num>
                    Keys that the test fcall gives (default 1)
 --tls              Encrypt connections with TLS
 --sni <host>       The server's name, as it is told
 --cacert <file>    Certificates of authorities to trust (default: the system's)
 --cacertdir <folder>
                    A folder of such certificates
 --insecure         Trust any server
 --cert <file>      The certificate to show
 --key <file>       The private key of that certificate
 --tls-ciphers <list>
                    Ciphers of TLS 1.2, in OpenSSL's words
 --tls-ciphersuites <list>
                    Ciphers of TLS 1.3
 --help             This text
 --version          Version

Examples:
   cinnabar-benchmark -h 192.168.1.1 -p 6379 -n 100000 -c 20
   cinnabar-benchmark -t set,get -n 1000000 -r 1000000 -P 16 -q
   cinnabar-benchmark -t ping,set,get --csv
   cinnabar-benchmark -r 10000 -n 10000 lpush list __rand_int__
   cinnabar-benchmark -- multi ';' set key:__rand_int__ __data__ ';' exec
";
