#!/usr/bin/env python3
"""Clients of other languages as smoke tests: one server, with TLS where the client has it, and a cluster where it knows one.

    languages.py --server target/release/cinnabar-server --cli target/release/cinnabar-cli --work FOLDER [--turn N | --only NAME...]

Packages that a client needs are installed first, from Debian, the Python index, npm or the registry of Rust. With --turn N one
group of three runs. A client's program is in `languages/`; it reads PORT, TLS_PORT, CA (the authority's file) and CLUSTER_PORT
(a node of three) from its environment, and ends with a status.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

from secure_clients import make_certificates
from wire import free_port

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "languages")
PATIENCE = 120


class Smoke:
    """A client's program: the words that run it, and the packages that it needs."""

    def __init__(self, *run, build=None, debian=(), pypi=(), npm=()):
        self.run, self.build, self.pypi, self.npm = run, build, pypi, npm
        # The interpreter of Debian has no environments of its own.
        self.debian = ["python3-venv"] if pypi and sys.executable.startswith("/usr/bin/") else debian


# {here} is the folder of the programs, {work} one for what is made. Groups take turns.
GROUPS = [
    {
        "valkey-py": Smoke("{work}/venv/bin/python", "{here}/valkey_py.py", pypi=["valkey==6.2.0"]),
        "coredis": Smoke("{work}/venv/bin/python", "{here}/coredis_py.py", pypi=["coredis==6.9.0"]),
        "ioredis": Smoke("node", "{here}/ioredis.js", "ioredis", npm=["ioredis@6.0.0"]),
        "iovalkey": Smoke("node", "{here}/ioredis.js", "iovalkey", npm=["iovalkey@0.4.0"]),
        "node-redis": Smoke("node", "{here}/node_redis.js", npm=["redis@6.3.1"]),
    },
    {
        "phpredis": Smoke("php", "{here}/phpredis.php", debian=["php-cli", "php-redis"]),
        "Predis": Smoke("php", "{here}/predis.php", debian=["php-cli", "php-predis"]),
        "Redis.pm": Smoke("perl", "{here}/redis_pm.pl", debian=["libredis-perl"]),
        "redis-rb": Smoke("ruby", "{here}/redis_rb.rb", debian=["ruby", "ruby-redis"]),
        "lua-redis": Smoke("lua5.1", "{here}/lua_redis.lua", debian=["lua5.1", "lua-redis"]),
    },
    {
        "hiredis": Smoke("{work}/hiredis", build="cc -o {work}/hiredis {here}/hiredis.c -lhiredis", debian=["libhiredis-dev"]),
        "redigo": Smoke(
            "{work}/redigo", build="go build -o {work}/redigo {here}/redigo.go",
            debian=["golang-go", "golang-github-gomodule-redigo-dev"],
        ),
        "redis-rs": Smoke(
            "{work}/redis_rs/debug/redis-rs-smoke",
            build="cargo build --quiet --locked --manifest-path {here}/redis_rs/Cargo.toml --target-dir {work}/redis_rs",
        ),
    },
]


def run(words, **options):
    subprocess.run(words, check=True, timeout=600, **options)


def install(smokes, work):
    """Installs missing packages from the registries."""
    debian = sorted({package for smoke in smokes for package in smoke.debian})
    if debian and subprocess.run(["dpkg", "-s", *debian], capture_output=True, check=False).returncode:
        run(["apt-get", "-qq", "update"])
        run(["apt-get", "-qq", "-y", "install", "--no-install-recommends", *debian], stdout=subprocess.DEVNULL)
    pypi = [package for smoke in smokes for package in smoke.pypi]
    if pypi:
        run([sys.executable, "-m", "venv", f"{work}/venv"])
        run([f"{work}/venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", *pypi])
    npm = [package for smoke in smokes for package in smoke.npm]
    if npm:
        run(["npm", "install", "--prefer-offline", "--silent", "--no-audit", "--no-fund", "--prefix", f"{work}/node", *npm])


class Servers:
    """A server with TLS, and a cluster of three nodes."""

    def __init__(self, options):
        self.server, self.cli, self.processes = os.path.abspath(options.server), options.cli, []

    def begin(self, work):
        make_certificates(f"{work}/tls")
        self.port, self.tls_port = free_port(), free_port()
        tls = f"{work}/tls"
        files = ["--tls-cert-file", f"{tls}/server.crt", "--tls-key-file", f"{tls}/server.key", "--tls-ca-cert-file", f"{tls}/ca.crt"]
        self.start(f"{work}/one", self.port, "--tls-port", self.tls_port, "--tls-auth-clients", "no", *files)
        self.nodes = [free_port() for _ in range(3)]
        for node in self.nodes:
            # The bus listens on a port that no other server tries.
            self.start(f"{work}/{node}", node, "--cluster-enabled", "yes", "--cluster-port", free_port())
        for port in (self.port, *self.nodes):
            self.until(lambda port=port: self.ask(port, "PING") == b"PONG\n", f"the server at port {port}")
        create = [self.cli, "--cluster", "create", *(f"127.0.0.1:{node}" for node in self.nodes), "--cluster-yes"]
        run(create, stdout=subprocess.DEVNULL)
        for node in self.nodes:
            self.until(lambda node=node: b"cluster_state:ok" in self.ask(node, "CLUSTER", "INFO"), "the cluster")
        self.environment = dict(
            os.environ, PORT=str(self.port), TLS_PORT=str(self.tls_port), CA=f"{tls}/ca.crt", CLUSTER_PORT=str(self.nodes[0]),
            NODE_PATH=f"{work}/node/node_modules", GOPATH="/usr/share/gocode", GO111MODULE="off", GOCACHE=f"{work}/go",
        )

    def start(self, folder, port, *options):
        os.makedirs(folder)
        words = [self.server, "--port", port, "--dir", folder, "--save", "", *options]
        with open(f"{folder}/log", "wb") as log:
            self.processes.append(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log))

    def ask(self, port, *words):
        return subprocess.run([self.cli, "-p", str(port), *words], capture_output=True, check=False).stdout

    def until(self, condition, name):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"{name} does not come up")
            time.sleep(0.05)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


def chosen(options):
    if not shutil.which("npm"):
        print("npm is not here: its clients are left out")
        for group in GROUPS:
            for name in [name for name, smoke in group.items() if smoke.npm]:
                del group[name]
    everyone = {name: smoke for group in GROUPS for name, smoke in group.items()}
    if options.only:
        return {name: everyone[name] for name in options.only}
    return everyone if options.turn is None else GROUPS[options.turn % len(GROUPS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--cli", required=True)
    parser.add_argument("--work", required=True, help="a folder for what is made, which is emptied")
    parser.add_argument("--turn", type=int)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    work, smokes = os.path.abspath(options.work), chosen(options)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    install(smokes.values(), work)
    servers, failed = Servers(options), []
    try:
        servers.begin(work)
        for name, smoke in smokes.items():
            began = time.monotonic()
            for words in ([smoke.build.split()] if smoke.build else []) + [smoke.run]:
                words = [word.format(here=HERE, work=work) for word in words]
                done = subprocess.run(words, env=servers.environment, check=False, timeout=PATIENCE)
                if done.returncode:
                    failed.append(name)
                    break
            print(f"{name}: {'failed' if name in failed else 'passed'} ({time.monotonic() - began:.1f} s)", flush=True)
    finally:
        servers.stop()
    print(f"languages.py: {len(smokes) - len(failed)} clients passed, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
