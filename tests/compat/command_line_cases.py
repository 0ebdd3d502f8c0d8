"""The cases of command_line.py: a command line as a shell reads it, files beside it, standard input. `{port}` stands for a
port that is free.

Left out: a byte zero in a line, which ends it here and joins it with
the next one in Valkey.
"""
import dataclasses
from typing import Optional


@dataclasses.dataclass
class Case:
    line: str
    # Text of each; None is a folder, a tuple a link.
    files: dict = dataclasses.field(default_factory=dict)
    stdin: str = ""
    # Our output, where it differs from the peer's.
    expected: Optional[str] = None


# Without files or input.
LINES = r"""
-v
-h
--help
--version
-v --nosuch
--port {port} -v
--port {port} --version x
--test-memory
--test-memory 1 2
--nosuch 1
--nosuch
-- --port {port}
---port {port}
-x
-x 1
--port
--port {port} --maxmemory
--port 99999
--port -1
--port abc
--port ''
--port {port} 7
--port=7
--port {port} --maxmemory=1
--PORT {port} --MaxMemory 1mb
--port {port} --port {port}
--port 1 --port {port}
'--port {port}'
'--port {port} --maxmemory 1mb'
'--port {port}' --maxmemory 1mb
'--port  {port}  ' --maxmemory 1mb
--port '{port}' --maxmemory '1mb' --maxmemory-policy 'allkeys-lru'
--port ' {port}'
--port '"{port}"'
--port {port} --save
--port {port} --save --maxmemory 1mb
--port {port} --save ''
--port {port} --save '' --maxmemory 1mb
--port {port} --save 3600 1 300 100
--port {port} --save '3600 1 300 100'
--port {port} --save 3600 1 --save 300 100
--port {port} --save 3600 1 --save ''
--port {port} --save '' --save 3600 1
--port {port} --save --save 3600 1
--port {port} --save 3600
--port {port} --save a b
--port {port} --save 3600 1 300
--port {port} --save -1 1
--save --port {port} --save 60 1
--port {port} --client-output-buffer-limit normal 1mb 2mb 60
--port {port} --client-output-buffer-limit 'normal 1mb 2mb 60 pubsub 1 2 3'
--port {port} --client-output-buffer-limit normal 1mb 2mb
--port {port} --client-output-buffer-limit nosuch 1 2 3
--port {port} --bind 127.0.0.1 ::1
--port {port} --bind '127.0.0.1 -::1'
--port {port} --bind 127.0.0.1 nosuch.invalid
--port {port} --bind -nosuch.invalid 127.0.0.1
--port {port} --bind 127.0.0.1 --bind '127.0.0.1 -::1'
--port {port} --bind ''
--port {port} --oom-score-adj-values 1 2 3
--port {port} --oom-score-adj-values 1 2
--port {port} --oom-score-adj-values 1 2 3000
--port {port} --oom-score-adj yes --oom-score-adj-values 10 20 30
--port {port} --oom-score-adj maybe
--port {port} --rename-command GET FETCH
--port {port} --rename-command GET ''
--port {port} --rename-command nosuch x
--port {port} --rename-command GET SET
--port {port} --rename-command GET
--port {port} --rename-command GET GET
--port {port} --rename-command GET A --rename-command SET GET
--port {port} --slave-priority 7
--port {port} --slaveof 127.0.0.1 1 --slaveof no one
--port {port} --replicaof no one
--port {port} --replicaof 127.0.0.1
--port {port} --replicaof 127.0.0.1 99999
--port {port} --replicaof 127.0.0.1 abc
--port {port} --loglevel warning
--port {port} --loglevel loud
--port {port} --maxmemory 1kb --maxmemory-clients 5%
--port {port} --maxmemory 1x
--port {port} --maxmemory 99999999999999999999
--port {port} --maxmemory -1
--port {port} --maxmemory-clients 101%
--port {port} --maxclients 0
--port {port} --maxclients 50
--port {port} --timeout -1
--port {port} --timeout abc
--port {port} --databases 0
--port {port} --databases 4 --databases 5
--port {port} --appendonly maybe
--port {port} --appendonly YES
--port {port} --appendfilename a/b
--port {port} --appenddirname a/b
--port {port} --dbfilename a/b
--port {port} --dbfilename ''
--port {port} --dir /nonexistent
--port {port} --dir ..
--port {port} --dir ''
--port {port} --dir
--port {port} --logfile /nonexistent/log
--port {port} --logfile /
--port {port} --logfile ''
--port {port} --pidfile ./pid
--port {port} --pidfile /nonexistent/pid
--port {port} --unixsocket ./socket --unixsocketperm 700
--port {port} --unixsocket ./socket --unixsocketperm 999
--port {port} --unixsocket /nonexistent/socket
--port {port} --notify-keyspace-events KEA
--port {port} --notify-keyspace-events kq!
--port {port} --latency-tracking-info-percentiles 50 99.9
--port {port} --latency-tracking-info-percentiles ''
--port {port} --latency-tracking-info-percentiles 101
--port {port} --requirepass secret --requirepass ''
--port {port} --user default on nopass sanitize-payload ~* '&*' +@all
--port {port} --user
--port {port} --loadmodule
--port {port} --some.module-setting
--port {port} --include /nonexistent.conf
--port {port} --include '/nonexistent*.conf'
--port {port} --include
--port {port} --proc-title-template '{title} {nosuch}'
--port {port} --proc-title-template '{title'
--port {port} --proc-title-template ''
--port {port} --enable-debug-command local
--port {port} --enable-debug-command perhaps
--port {port} --list-max-ziplist-entries 5 --lua-replicate-commands yes --dynamic-hz no
--port {port} --dynamic-hz yes no
--port {port} --io-threads 0
--port {port} --io-threads 257
--port {port} --hash-max-ziplist-entries 7
--port {port} --hz 1000 --repl-timeout 5
--port {port} --cluster-enabled perhaps
--port {port} --cluster-enabled yes --replicaof 127.0.0.1 1
--port {port} --tls-port abc
--port {port} --tcp-backlog -1
--port {port} --activerehashing no --lazyfree-lazy-expire no
--port {port} --shutdown-on-sigterm 'save now'
--port {port} --shutdown-on-sigterm save now
--port {port} --shutdown-on-sigterm nosuch
--port {port} --shutdown-on-sigterm 'save nosave'
--port {port} --shutdown-on-sigint default
--port {port} --shutdown-on-sigint 'default save'
--port {port} --supervised perhaps
--port {port} --syslog-facility local9
--port {port} --lua-time-limit 100 --busy-reply-threshold 200
--port {port} --busy-reply-threshold 200 --lua-time-limit 100
--port {port} --maxmemory-policy nosuch
--port {port} --slowlog-log-slower-than -1
--port {port} --slowlog-log-slower-than -2
--port {port} --lfu-log-factor 1.5
--port {port} --min-slaves-to-write 1 --min-replicas-max-lag 0
nosuch.conf
"""

LONG = "x" * 1_000_000

# With a file, or input.
FILES = [
    Case("a.conf", {"a.conf": "port {port}\nmaxmemory 1mb\n"}),
    Case("./a.conf", {"a.conf": "port {port}\nmaxmemory 1mb"}),
    Case("a.conf --maxmemory 2mb", {"a.conf": "port {port}\nmaxmemory 1mb\n"}),
    Case("--maxmemory 2mb a.conf", {"a.conf": "port {port}\nmaxmemory 1mb\n"}),
    Case("a.conf b.conf", {"a.conf": "port {port}\n", "b.conf": "maxmemory 1mb\n"}),
    Case("a.conf x --maxmemory 1mb", {"a.conf": "port {port}\n"}),
    Case("a.conf -", {"a.conf": "port {port}\nmaxmemory 1mb\n"}, "maxmemory 2mb\n"),
    Case("- a.conf", {"a.conf": "port {port}\n"}, "maxmemory 2mb\n"),
    Case("a.conf - --maxmemory 3mb", {"a.conf": "port {port}\nmaxmemory 1mb\n"}, "maxmemory 2mb\n"),
    Case("a.conf --maxmemory 3mb -", {"a.conf": "port {port}\nmaxmemory 1mb\n"}, "maxmemory 2mb\ntimeout 5\n"),
    Case("a.conf --maxmemory -", {"a.conf": "port {port}\n"}, "timeout 5\n"),
    Case("a.conf --maxmemory - --timeout 3", {"a.conf": "port {port}\n"}),
    Case("-", stdin="port {port}\nmaxmemory 2mb\n"),
    Case("-", stdin="port {port}\nmaxmemory 2mb"),
    Case("-", stdin="port {port}\nnosuch 2mb"),
    Case("- --maxmemory 1mb", stdin="port {port}\nmaxmemory 2mb\n"),
    Case("--maxmemory 1mb -", stdin="port {port}\nmaxmemory 2mb\n"),
    Case("--port {port} - --maxmemory 1mb", stdin="maxmemory 2mb\n"),
    Case("--port {port} --maxmemory 1mb - -", stdin="timeout 2\n"),
    Case("empty.conf --port {port}", {"empty.conf": ""}),
    Case("[a].conf --port {port}", {"a.conf": "maxmemory 1mb\n"}),
    Case("?.conf --port {port}", {"a.conf": "maxmemory 1mb\n", "b.conf": "timeout 7\n"}),
    Case("'*.conf' --port {port}", {"a.conf": "maxmemory 1mb\n", "b.conf": "maxmemory 2mb\n"}),
    Case("'none*.conf' --port {port}"),
    Case("loop", {"loop": ("loop",)}),
    Case("loop/a.conf --port {port}", {"loop": ("loop",)}),
    Case("link --port {port}", {"a.conf": "maxmemory 1mb\n", "link": ("a.conf",)}),
    Case("a.conf/b", {"a.conf": ""}),
    Case("sub/../a.conf", {"a.conf": "port {port}\n", "sub": None}),
    Case("/dev/null --port {port}"),
    Case("a.conf", {"a.conf": "port {port}\n  maxmemory   1mb  \n\ttimeout\t9\n#timeout 5\n  # timeout 4\n\n"}),
    Case("a.conf", {"a.conf": "port {port}\r\nmaxmemory 1mb\r\n"}),
    Case("a.conf", {"a.conf": "PORT {port}\nMAXMEMORY 1MB\nAppendOnly NO\n"}),
    Case("a.conf", {"a.conf": "port {port}\nmaxmemory 1mb # not a comment\n"}),
    Case("a.conf", {"a.conf": "port {port}\nrequirepass \"open\n"}),
    Case("a.conf", {"a.conf": "port {port}\nrequirepass 'a'b\n"}),
    Case("a.conf", {"a.conf": "port {port}\nmasterauth \"a\\x41\\n\\\"b\"\nmasteruser 'it\\'s'\n"}),
    Case("a.conf", {"a.conf": "port {port}\n\"maxmemory\" '1mb'\n"}),
    Case("a.conf", {"a.conf": "port {port}\nmaxmemory\n"}),
    Case("a.conf", {"a.conf": "port {port}\nmaxmemory 1mb 2mb\n"}),
    Case("a.conf", {"a.conf": "port {port}\n\n\nnosuch directive here\n"}),
    Case("a.conf", {"a.conf": "port {port}\nmaxmemory 1mb\nmaxmemory 2mb\ntimeout 1\nmaxmemory 3mb\n"}),
    Case("a.conf", {"a.conf": "port {port}\nsave 10 1\nsave 20 2\n"}),
    Case("a.conf", {"a.conf": "port {port}\nsave 10 1\nsave \"\"\nsave 20 2\n"}),
    Case("a.conf --save 5 5", {"a.conf": "port {port}\nsave 10 1\nsave 20 2\n"}),
    Case("a.conf --save ''", {"a.conf": "port {port}\nsave 10 1\nsave 20 2\n"}),
    Case("a.conf --save", {"a.conf": "port {port}\nsave 10 1\n"}),
    Case("a.conf", {"a.conf": "port {port}\nsave\n"}),
    Case("a.conf", {"a.conf": "port {port}\n" + "#" + LONG + "\nmaxmemory 1mb\n"}),
    Case("a.conf", {"a.conf": "port {port}\nproc-title-template " + LONG[:5000] + "\n"}),
    Case("a.conf", {"a.conf": "port {port}\nnosuch " + LONG[:3000] + "\n"}),
    Case("a.conf", {"a.conf": b"port {port}\nmaxmemory 1mb\n\x00\ntimeout 3\n"}),
    Case("a.conf", {"a.conf": b"port {port}\n\xff\xfe\x01\n"}),
    Case("a.conf", {"a.conf": b"port {port}\nmasterauth \xff\xfe\n"}),
    Case("a.conf", {"a.conf": b"\x7fELF\x02\x01\x01\n\x03\x04"}),
    Case("a.conf", {"a.conf": "\ufeffport {port}\n"}),
    Case("a.conf", {"a.conf": "port {port}\ninclude b.conf\ntimeout 3\n", "b.conf": "maxmemory 1mb\ntimeout 2\n"}),
    Case("a.conf", {"a.conf": "include ./b.conf\nmaxmemory 2mb\n", "b.conf": "port {port}\nmaxmemory 1mb\n"}),
    Case("a.conf", {"a.conf": "port {port}\ninclude ?.inc\n", "1.inc": "timeout 1\n", "2.inc": "timeout 2\nmaxmemory 7mb\n"}),
    Case("a.conf", {"a.conf": "port {port}\ninclude nothing*.inc\n"}),
    Case("a.conf", {"a.conf": "port {port}\ninclude b.conf\n", "b.conf": "timeout 1\nnosuch 1\n"}),
    Case("a.conf", {"a.conf": "port {port}\ninclude b.conf c.conf\n", "b.conf": "timeout 1\n"}),
    Case("a.conf", {"a.conf": "port {port}\ninclude\n"}),
    Case("a.conf", {"a.conf": "port {port}\ninclude nosuch.conf\n"}),
    Case("a.conf --include b.conf", {"a.conf": "port {port}\n", "b.conf": "timeout 77\n"}),
    Case("a.conf", {"a.conf": "port {port}\nsave 1 1\ninclude b.conf\n", "b.conf": "save 2 2\n"}),
    Case("a.conf", {"a.conf": "port {port}\ndir sub\ninclude b.conf\n", "sub": None, "b.conf": "timeout 1\n"}),
    Case("a.conf", {"a.conf": "port {port}\ndir sub\nlogfile ''\n", "sub": None}),
    Case("a.conf", {"a.conf": "port {port}\nsentinel monitor a 127.0.0.1 1 1\n"}),
    Case("--sentinel"),
    Case("--port {port} --sentinel"),
    Case("a.conf --sentinel", {"a.conf": "port {port}\nsentinel monitor a 127.0.0.1 1 0\n"}),
    Case("a.conf --sentinel", {"a.conf": "port {port}\nsentinel nope\n"}),
    Case("a.conf --sentinel", {"a.conf": "port {port}\nsentinel auth-pass a b\n"}),
    Case("a.conf --sentinel", {"a.conf": "port {port}\nloadmodule /nonexistent.so\nsentinel monitor a 127.1 1 1\n"},
         expected="# +monitor master a 127.0.0.1 1 quorum 1"),
    Case("a.conf", {"a.conf": "port {port}\naclfile users\n", "users": "\nuser default on nopass ~* &* +@all\n"}),
    Case("a.conf", {"a.conf": "port {port}\nrename-command GET b\nrename-command b c\nrename-command SET \"\"\n"}),
    Case("a.conf", {"a.conf": "port {port}\nclient-output-buffer-limit normal 1 2 3 slave 4 5 6\n"
                              "client-output-buffer-limit pubsub 7 8 9\n"}),
    Case("a.conf", {"a.conf": "port {port}\nclient-output-buffer-limit \"normal 1 2 3 slave 4 5 6\"\n"}),
    Case("a.conf", {"a.conf": "port {port}\nbind 127.0.0.1\nbind 127.0.0.1 ::1\n"}),
    Case("a.conf", {"a.conf": "port {port}\nio-threads-do-reads yes\nlist-max-ziplist-value 64\n"}),
    Case("a.conf", {"a.conf": "port {port}\nmaxmemory 1gb\nmaxmemory 1g\nmaxmemory 1k\nmaxmemory 100b\n"}),
]

# Cases in which our output differs from the peer's.
OWN = [
    Case("--test-memory 2", expected="Your memory passed this test."),
    Case("--test-memory x", expected="status 0"),
    Case("--test-memory 99999999999999", expected="Unable to allocate 99999999999999 megabytes"),
    Case("--check-system", expected="[xen-clocksource]...OK"),
    Case("--port {port} --loadmodule /nonexistent.so", expected="# Can't load module from /nonexistent.so: server aborting"),
    Case("--port {port} --some.setting 1", expected="# Unused Module Configuration: some.setting"),
    Case("--port {port} --cluster-enabled yes", expected="* No cluster configuration found, I'm "),
    Case("--port {port} --cluster-enabled yes --tls-cluster yes", expected="# No tls-cert-file configured!"),
    Case("--port {port} --replicaof 127.0.0.1 1", expected="* Connecting to PRIMARY 127.0.0.1:1"),
    Case("--port {port} --slave-priority 7 --repl-timeout 5 --masterauth a --cluster-node-timeout 9 --active-defrag-cycle-us 9",
         expected="# These directives of the configuration have no effect: active-defrag-cycle-us (Active defragmentation cannot be enabled: "
                  "Cinnabar has none)"),
    Case("a.conf", {"a.conf": "port {port}\nactivedefrag yes\n"}, expected="at line 2"),
    Case("--port {port} --tls-port 1", expected="# No tls-cert-file configured!"),
    Case("--port {port} --tls-cert-file x", expected="* Ready to accept connections tcp"),
    Case("--port {port} --aclfile /nonexistent", expected="status 1"),
    Case("--port {port} --user alice on '>p' ~* +get"),
    Case("--port {port} --user default off", expected="# The user 'default' is disabled (there is no 'on' modifier"),
    Case("--port {port} --requirepass x --user default on nopass ~* '&*' +@all"),
    Case("a.conf", {"a.conf": "port {port}\naclfile users\n", "users": "user default on nopass ~* &* -@all +get\n"},
         expected="* Ready to accept connections tcp"),
    Case("a.conf", {"a.conf": "port {port}\naclfile users\nuser default off\n", "users": ""}, expected="status 1"),
    Case("./nosuch.conf --port {port}", expected="can't open config file 'FOLDER/nosuch.conf': No such file or directory"),
    Case("--port {port} --unixsocketgroup nosuchgroup --unixsocket ./socket",
         expected="# Failed opening Unix socket: getgrnam error for group 'nosuchgroup': there is none"),
    Case("folder", {"folder": None}, expected="can't open config file 'FOLDER/folder': Is a directory"),
    Case("a.conf", {"a.conf": "include b.conf\n", "b.conf": None}, expected="can't open config file 'b.conf': Is a directory"),
    Case("a.conf", {"a.conf": "port {port}\ninclude a.conf\n"}, expected="Too many nested includes"),
    Case("a.conf", {"a.conf": "port {port}\ninclude b.conf\n", "b.conf": "include a.conf\n"}, expected="Too many nested includes"),
]

CASES = [Case(line) for line in LINES.strip().splitlines()] + FILES + OWN
