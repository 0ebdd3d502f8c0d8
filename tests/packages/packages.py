#!/usr/bin/env python3
"""Installs the packages into a small Debian of its own, and uses what they bring, as root.

usage: packages.py --deb FILE --names FILE --root FOLDER
FOLDER is made by debootstrap if it is not there. The checks: the chart as Helm renders it, dpkg installs, the account and
its folders, unit files (systemd-analyze in the root), the server as its unit starts it, with the word to the supervisor that it is
ready, the programs under other names, completions, the container's entry point and health check, the chart's scripts with three
servers, and purge.
"""
import argparse, json, os, shutil, socket, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "../..")
sys.path.insert(0, os.path.join(HERE, "../compat"))
from wire import Client, free_port

PATIENCE = 30


def run(*words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90, **options)
    return done.returncode, done.stdout


def must(*words, **options):
    status, output = run(*words, **options)
    if status:
        raise SystemExit(f"{' '.join(words)}: status {status}\n{output}")
    return output


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {PATIENCE} s")
        time.sleep(0.05)


class Root:
    """A Debian in a folder, whose processes are ended with it."""

    def __init__(self, path):
        self.path, self.processes = os.path.abspath(path), []
        if not os.path.exists(self.inside("usr/bin/dpkg")):
            packages = "--include=adduser,procps,bash-completion,systemd"
            subprocess.run(["debootstrap", "--variant=minbase", packages, "bookworm", self.path], check=True, stdout=subprocess.DEVNULL)
        for name in ("null", "urandom"):
            if not os.path.exists(self.inside("dev", name)):
                raise SystemExit(f"no /dev/{name} in {self.path}")

    def inside(self, *parts):
        return os.path.join(self.path, *(part.lstrip("/") for part in parts))

    def must(self, *words, **options):
        return must("chroot", self.path, *words, **options)

    def start(self, *words, user=None, **environment):
        drop = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--"] if user else []
        log = open(self.inside("tmp", f"log-{len(self.processes)}"), "w+")
        environment = {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin", **environment}
        process = subprocess.Popen(["chroot", self.path, *drop, *words], env=environment, stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        process.log = log.name
        return process

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def connected(port, process):
    def attempt():
        if process.poll() is not None:
            raise SystemExit(f"ended with {process.returncode}: {open(process.log).read()}")
        try:
            return Client(port)
        except OSError:
            return None
    return until(attempt, f"a server at {port}")


def owner(root, path):
    return root.must("stat", "-c", "%U:%G %a", path).strip()


def look_at_files(root):
    assert owner(root, "/var/lib/cinnabar") == "cinnabar:cinnabar 750", owner(root, "/var/lib/cinnabar")
    assert owner(root, "/etc/cinnabar/cinnabar.conf") == "cinnabar:cinnabar 640"
    assert owner(root, "/etc/cinnabar") == "cinnabar:cinnabar 750"
    for page in ("man1/cinnabar-server.1", "man1/cinnabar-cli.1", "man1/cinnabar-benchmark.1", "man1/cinnabar-check-rdb.1",
                 "man1/cinnabar-check-aof.1", "man5/cinnabar.conf.5"):
        assert any(os.path.exists(root.inside("usr/share/man", page + end)) for end in ("", ".gz")), page
    completed = root.must("bash", "-c", "source /usr/share/bash-completion/completions/cinnabar-cli; COMP_CWORD=1; "
                          "COMP_WORDS=(cinnabar-cli zrangest); _cinnabar_cli cinnabar-cli zrangest; echo ${COMPREPLY[@]}")
    assert completed == "zrangestore\n", completed
    completed = root.must("bash", "-c", "source /usr/share/bash-completion/completions/cinnabar-server; COMP_CWORD=1; "
                          "COMP_WORDS=(cinnabar-server --appendf); _cinnabar_server cinnabar-server --appendf; echo ${COMPREPLY[@]}")
    assert "--appendfsync" in completed.split(), completed
    completed = root.must("bash", "-c", "source /usr/share/bash-completion/completions/cinnabar-benchmark; COMP_CWORD=1; "
                          "COMP_WORDS=(cinnabar-benchmark --workl); _cinnabar_benchmark cinnabar-benchmark --workl; echo ${COMPREPLY[@]}")
    assert completed == "--workload\n", completed


def look_at_units(root):
    for unit in ("cinnabar-server.service", "cinnabar-sentinel.service"):
        path = root.inside("lib/systemd/system", unit)
        if not os.path.exists(path):
            path = root.inside("usr/lib/systemd/system", unit)
        output = must("systemd-analyze", "verify", "--man=no", f"--root={root.path}", path)
        assert not output.strip(), output
        exposure = must("systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", f"--root={root.path}", path)
        print(exposure.strip().splitlines()[-1])


def serve_as_the_unit_does(root):
    """Serves as `cinnabar`, with the packaged file, under a supervisor that waits for READY=1."""
    port, path = free_port(), "/tmp/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(root.inside(path))
        os.chmod(root.inside(path), 0o777)
        notify.settimeout(PATIENCE)
        server = root.start("cinnabar-server", "/etc/cinnabar/cinnabar.conf", "--port", str(port), user="cinnabar", NOTIFY_SOCKET=path)
        words = b""
        while b"READY=1" not in words:
            words += notify.recv(4096) + b"\n"
    client = connected(port, server)
    assert client("SET", "k", "v") == b"+OK"
    assert client("CONFIG", "SET", "maxmemory", "100mb") == b"+OK"
    assert client("CONFIG", "REWRITE") == b"+OK"
    assert "maxmemory 100mb" in open(root.inside("etc/cinnabar/cinnabar.conf")).read()
    server.terminate()
    assert server.wait(PATIENCE) == 0
    assert os.path.exists(root.inside("var/lib/cinnabar/dump.rdb"))
    assert "ready to exit" in open(root.inside("var/log/cinnabar/cinnabar-server.log")).read()
    os.remove(root.inside(path))


def use_other_names(root):
    port = free_port()
    status, commit = run("git", "-C", SOURCE, "rev-parse", "HEAD")
    known = commit[:8] if status == 0 else None
    server = root.start("redis-server", "--port", str(port), "--save", "", user="cinnabar")
    connected(port, server)
    for cli in ("redis-cli", "valkey-cli", "cinnabar-cli"):
        assert root.must(cli, "-p", str(port), "PING") == "PONG\n"
    info = root.must("redis-cli", "-p", str(port), "INFO", "server")
    assert "redis_version:7.2.4\r" in info or "redis_version:7.2.4\n" in info, info
    for tool in ("redis-server", "valkey-server", "cinnabar-server"):
        version = root.must(tool, "--version")
        assert version.startswith("Cinnabar server v="), version
        # Programs do not know the commit if the source is no repository.
        assert known is None or f" sha={known}:" in version, version
    for tool in ("redis-check-rdb", "valkey-check-rdb", "redis-check-aof", "valkey-check-aof"):
        assert "v=" in root.must(tool, "--version")
    assert "PING" in root.must("redis-benchmark", "-p", str(port), "-t", "ping", "-n", "100", "-q")
    shutil.copy(os.path.join(SOURCE, "packaging/debian/sentinel.conf"), root.inside("tmp/sentinel.conf"))
    root.must("chown", "cinnabar", "/tmp/sentinel.conf")
    for program in ("redis-sentinel", "valkey-sentinel", "cinnabar-sentinel"):
        at = free_port()
        sentinel = root.start(program, "/tmp/sentinel.conf", "--port", str(at), user="cinnabar")
        assert connected(at, sentinel)("ROLE")[0] == b"sentinel"
        sentinel.terminate()
        assert sentinel.wait(PATIENCE) == 0
    server.terminate()
    assert server.wait(PATIENCE) == 0


def enter_as_a_container(root):
    """Runs the image's entry point and health check, which depend only on the programs and the account."""
    for script in ("docker-entrypoint.sh", "healthcheck.sh"):
        shutil.copy(os.path.join(SOURCE, "packaging/container", script), root.inside("usr/local/bin"))
    data = root.inside("data")
    os.makedirs(data, exist_ok=True)

    def entered(*words, **environment):
        port = free_port()
        given = [str(port) if word == "PORT" else word for word in words]
        process = root.start("sh", "-c", 'cd /data && exec docker-entrypoint.sh "$@"', "sh", *given, HEALTHCHECK_PORT=str(port),
                             **{name: value.replace("PORT", str(port)) for name, value in environment.items()})
        client = connected(port, process)
        user = must("ps", "-o", "uid=", "-p", str(process.pid)).strip()
        assert user == root.must("id", "-u", "cinnabar").strip(), f"it runs as {user}"
        healthy, said = run("chroot", root.path, "env", f"HEALTHCHECK_PORT={port}", "healthcheck.sh")
        assert healthy == 0, said
        return process, client

    def ended(process):
        process.terminate()
        assert process.wait(PATIENCE) == 0
        healthy, _ = run("chroot", root.path, "env", f"HEALTHCHECK_PORT={free_port()}", "healthcheck.sh")
        assert healthy == 1

    protected = lambda client: client("CONFIG", "GET", "protected-mode")[1]
    process, client = entered("--port", "PORT")
    assert protected(client) == b"no"
    assert client("SET", "k", "v") == b"+OK" and client("SAVE") == b"+OK"
    assert os.path.exists(os.path.join(data, "dump.rdb")) and os.stat(os.path.join(data, "dump.rdb")).st_mode & 0o77 == 0
    ended(process)
    process, client = entered("cinnabar-server", VALKEY_EXTRA_FLAGS="--port PORT --maxmemory 50mb")
    assert client("CONFIG", "GET", "maxmemory")[1] == b"52428800"
    ended(process)
    with open(os.path.join(data, "own.conf"), "w") as file:
        file.write("protected-mode yes\nrequirepass secret\n")
    process, client = entered("own.conf", "--port", "PORT")
    assert client("PING").startswith(b"-NOAUTH") and client("AUTH", "secret") == b"+OK"
    assert protected(client) == b"yes"
    ended(process)
    # Another program is run as it is.
    said = root.must("docker-entrypoint.sh", "sh", "-c", "id -un")
    assert said == "root\n", said


class Pods:
    """The chart's scripts in as many servers, each with an address of its own as pods have."""

    def __init__(self, root, count, **environment):
        self.root, self.port, self.password = root, free_port(), "secret"
        scripts = os.path.join(SOURCE, "packaging/helm/cinnabar/files")
        for script in os.listdir(scripts):
            shutil.copy(os.path.join(scripts, script), root.inside("tmp"))
        with open(root.inside("etc/hosts"), "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"127.0.0.{at + 1} set-{at}.pods\n" for at in range(count)))
        common = {"PODS": str(count), "SET": "set", "DOMAIN": "pods", "PORT": str(self.port), "PASSWORD": "secret", **environment}
        self.environments = []
        for at in range(count):
            data, settings = f"/tmp/{environment['MODE']}-{at}", f"/tmp/chart-{at}.conf"
            os.makedirs(root.inside(data))
            with open(root.inside(settings), "w") as file:
                file.write(f'save ""\nbind 127.0.0.{at + 1}\nbind-source-addr 127.0.0.{at + 1}\n')
            self.environments.append({"POD": f"set-{at}", "DATA": data, "SETTINGS": settings, **common})
        self.servers = [root.start("sh", "/tmp/start.sh", **each) for each in self.environments]

    def ask(self, at, port, *words):
        status, said = run("chroot", self.root.path, "env", f"REDISCLI_AUTH={self.password}", "timeout", "3", "cinnabar-cli", "--no-auth-warning",
                           "-h", f"127.0.0.{at + 1}", "-p", str(port), *words)
        return said if status == 0 else ""

    def run(self, at, script):
        environment = [f"{name}={value}" for name, value in self.environments[at].items()]
        return must("chroot", self.root.path, "env", *environment, "sh", f"/tmp/{script}")

    def end(self, at):
        self.servers[at].terminate()
        assert self.servers[at].wait(PATIENCE) == 0


def lead_and_follow_as_pods(root):
    """Three servers with a Sentinel within each; the primary hands over before it ends."""
    sentinel = free_port()
    pods = Pods(root, 3, MODE="replicated", SENTINEL_PORT=str(sentinel), DOWN_AFTER="2000")
    role = lambda at: pods.ask(at, pods.port, "ROLE").split("\n")[0]
    until(lambda: [role(at) for at in range(3)] == ["master", "slave", "slave"], "a primary and two replicas")
    sees = lambda at: "num-other-sentinels\n2\n" in pods.ask(at, sentinel, "SENTINEL", "MASTER", "primary")
    until(lambda: all(sees(at) for at in range(3)), "Sentinels that know each other")
    until(lambda: pods.ask(0, pods.port, "SET", "k", "v") == "OK\n", "a write")
    # stop.sh asks the server of its own pod by the loopback's address: the first one's.
    pods.run(0, "stop.sh")
    until(lambda: role(0) == "slave", "a primary that hands over")
    pods.end(0)
    leader = until(lambda: next((at for at in (1, 2) if role(at) == "master"), None), "a new primary")
    assert pods.ask(leader, pods.port, "GET", "k") == "v\n"
    pods.servers[0] = root.start("sh", "/tmp/start.sh", **pods.environments[0])
    until(lambda: role(0) == "slave" and pods.ask(0, pods.port, "GET", "k") == "v\n", "the first pod as a replica")
    assert "secret" not in open(f"/proc/{pods.servers[0].pid}/cmdline").read(), "who lists processes sees the password"
    # Another password, for all of them: servers, and the Sentinels that ask them.
    for at in range(3):
        pods.end(at)
    for environment in pods.environments:
        environment["PASSWORD"] = pods.password = 'a "new" one'
    pods.servers = [root.start("sh", "/tmp/start.sh", **each) for each in pods.environments]
    until(lambda: sorted(role(at) for at in range(3)) == ["master", "slave", "slave"], "the three again")
    up = lambda at: "\nflags\nmaster\n" in pods.ask(at, sentinel, "SENTINEL", "MASTER", "primary")
    until(lambda: all(up(at) and sees(at) for at in range(3)), "Sentinels that know the new password")
    for at in range(3):
        pods.end(at)


def join_as_pods(root):
    """Servers that become one cluster, and a job that finds it so the next time."""
    pods = Pods(root, 3, MODE="cluster", NODE_TIMEOUT="2000", REPLICAS_PER_PRIMARY="0")
    for _ in range(2):
        pods.run(0, "join.sh")
        until(lambda: all("cluster_state:ok" in pods.ask(at, pods.port, "CLUSTER", "INFO") for at in range(3)), "a cluster")
    assert "set-1.pods" in pods.ask(0, pods.port, "CLUSTER", "SLOTS")
    for at in range(3):
        pods.end(at)


def check_chart():
    """The values follow their schema, and the schema refuses wrong ones."""
    import jsonschema, yaml

    chart = os.path.join(SOURCE, "packaging/helm/cinnabar")
    schema = json.load(open(os.path.join(chart, "values.schema.json")))
    values = yaml.safe_load(open(os.path.join(chart, "values.yaml")))
    validator = jsonschema.Draft202012Validator(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator.validate(values)
    missing = [name for name in schema["properties"] if name not in values and name != "global"]
    assert not missing, f"values.yaml does not show {missing}"
    for wrong in ({"mode": "sentinel"}, {"replicas": 2}, {"replicas": 4}, {"persistence": {"size": "much"}}, {"prot": 1}):
        assert not validator.is_valid({**values, **wrong}), wrong
    version = yaml.safe_load(open(os.path.join(chart, "Chart.yaml")))["appVersion"]
    assert f'version = "{version}"' in open(os.path.join(SOURCE, "Cargo.toml")).read(), "the chart's version is the program's"


def render_chart():
    """Helm's own engine renders the chart in every mode, and Kubernetes' schemas accept the result."""
    import helm_python, kubernetes_validate, yaml

    path = os.path.join(SOURCE, "packaging/helm/cinnabar")
    assert not helm_python.lint(path)["errors"]
    everything = {
        "adminPort": 9121, "auth": {"existingSecret": "secret"}, "image": {"tag": "1"}, "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"kubernetes.io/arch": "amd64"}, "tolerations": [{"operator": "Exists"}], "podAnnotations": {"a": "b"},
        "resources": {"limits": {"memory": "1Gi"}}, "persistence": {"enabled": False}, "podDisruptionBudget": {"enabled": False},
    }
    kinds = {"standalone": set(), "replicated": {"PodDisruptionBudget"}, "cluster": {"PodDisruptionBudget", "Job"}}
    with helm_python.Chart.load(path) as chart:
        for mode, others in kinds.items():
            for more in ({}, everything):
                rendered = chart.render({"mode": mode, **more}, name="cache", namespace="default")
                made = set()
                for name, text in rendered.items():
                    for manifest in yaml.safe_load_all(text) if name.endswith(".yaml") else ():
                        if manifest:
                            kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
                            made.add(manifest["kind"])
                budget = {"PodDisruptionBudget"} if more else set()
                assert made == {"ConfigMap", "Service", "StatefulSet"} | others - budget, (mode, made)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("deb", "names", "root"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    check_chart()
    render_chart()
    root = Root(options.root)
    try:
        for package in (options.deb, options.names):
            shutil.copy(package, root.inside("tmp"))
        root.must("dpkg", "-i", "/tmp/" + os.path.basename(options.deb))
        look_at_files(root)
        look_at_units(root)
        serve_as_the_unit_does(root)
        root.must("dpkg", "-i", "/tmp/" + os.path.basename(options.names))
        use_other_names(root)
        enter_as_a_container(root)
        lead_and_follow_as_pods(root)
        join_as_pods(root)
        root.must("dpkg", "--purge", "cinnabar-names", "cinnabar")
        assert not os.path.exists(root.inside("var/lib/cinnabar")) and not os.path.exists(root.inside("usr/bin/cinnabar-server"))
    finally:
        root.end()
    print("packages.py: installed, used and removed")


main()
