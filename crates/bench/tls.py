#!/usr/bin/env python3
"""Costs of TLS: servers one after the other, in one run, on a quiet machine. Needs openssl.

usage: tls.py [--only WORD] [--rounds N] [--seconds N] [--port PORT] [--dir DIR] NAME=COMMAND NAME=COMMAND...
A COMMAND gets its ports, --dir and what TLS needs appended: a certificate with a P-256 key, none of clients.
  set         processor time of the whole server per SET of 64 B, 20 clients at pipeline 16: with TLS and without, in turn
  handshakes  as many new sessions a second as clients on the same machine can make, and processor time of the server each
  stall       longest round trip of a plain client during RATE handshakes a second; of one of an idle second server of the
              same kind, asked in turn by the same process (the machine's noise); of the loaded one before
  idle        bytes of memory that an idle connection takes more than without any, as the server counts and as the system
              does, with TLS and without
The numbers are medians of the rounds; in parentheses the lowest and the highest.
"""
import argparse, os, shlex, shutil, socket, ssl, statistics, subprocess, sys, time

from durability import BENCHMARK, PROBE, spread

# New sessions at so many a second, or as fast as they go (0).
SHAKE = r"""
import socket, ssl, sys, time
port, seconds, rate = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
began, count = time.perf_counter(), 0
while time.perf_counter() - began < seconds:
    if rate and count > (time.perf_counter() - began) * rate:
        time.sleep(2e-4)
        continue
    with socket.create_connection(("127.0.0.1", port)) as plain:
        # An answer proves that the server, too, has done its part.
        with context.wrap_socket(plain) as s:
            s.sendall(b"PING\r\n"); s.recv(64)
    count += 1
print(count / (time.perf_counter() - began))
"""
RATE = 1000
CONNECTIONS = 1000


def certificate(place):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                    "-subj", "/CN=localhost", "-keyout", f"{place}/key", "-out", f"{place}/certificate"],
                   check=True, capture_output=True)


class Server:
    port = 0

    def __init__(self, command, options):
        Server.port += 2
        self.port, self.tls_port, place = Server.port, Server.port + 1, options.place
        self.certificate = f"{place}/certificate"
        words = [*shlex.split(command), "--port", str(self.port), "--dir", place, "--save", "", "--tls-port", str(self.tls_port),
                 "--tls-cert-file", self.certificate, "--tls-key-file", f"{place}/key", "--tls-ca-cert-file", self.certificate,
                 "--tls-auth-clients", "no", "--maxclients", "5000"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), 600)
                return
            except OSError:
                time.sleep(0.001)
        raise SystemExit(f"{command} did not start")

    def info(self, field):
        self.socket.sendall(b"INFO everything\r\n")
        reply = self.socket.recv(1 << 16)
        whole = int(reply[1:reply.index(b"\r\n")]) + reply.index(b"\r\n") + 4
        while len(reply) < whole:
            reply += self.socket.recv(1 << 16)
        for line in reply.decode().split("\r\n"):
            if line.startswith(field + ":"):
                return int(line[len(field) + 1:])
        raise SystemExit(f"no {field} in INFO")

    def busy(self):
        """Seconds of processor time."""
        tasks = f"/proc/{self.process.pid}/task"
        return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9

    def resident(self):
        return int(open(f"/proc/{self.process.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def bench(self, tls, *words):
        port = ["-p", str(self.tls_port), "--tls", "--cacert", self.certificate] if tls else ["-p", str(self.port)]
        subprocess.run([BENCHMARK, *port, *map(str, words)], capture_output=True, check=True)

    def stop(self):
        self.process.kill()
        self.process.wait()


def on_each(options):
    """Returns the servers by name, all running."""
    return {name: Server(command, options) for name, command in options.servers}


def sets(options):
    servers, count, costs = on_each(options), options.sets, {}
    for turn in range(options.rounds + 1):
        for name, server in servers.items():
            for tls in True, False:
                was = server.busy()
                server.bench(tls, "-q", "-c", 20, "-P", 16, "-n", count, "-r", 100000, "-d", 64, "-t", "set")
                # The first round fills.
                if turn:
                    costs.setdefault((name, tls), []).append((server.busy() - was) / count * 1e6)
    for (name, tls), values in costs.items():
        print(f"| set | {name} | {'TLS' if tls else 'plain'} | {spread(values)} us |", flush=True)
    for server in servers.values():
        server.stop()


def shake(server, seconds, rate, processes):
    """Starts clients that make so many handshakes a second together."""
    words = [sys.executable, "-c", SHAKE, str(server.tls_port), str(seconds), str(rate / processes)]
    return [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(processes)]


def total(clients):
    return sum(float(client.communicate()[0]) for client in clients)


def handshakes(options):
    servers, rates, costs = on_each(options), {}, {}
    for _ in range(options.rounds):
        for name, server in servers.items():
            was = server.busy()
            rate = total(shake(server, options.seconds, 0, 3))
            rates.setdefault(name, []).append(rate)
            costs.setdefault(name, []).append((server.busy() - was) / (rate * options.seconds) * 1e6)
    for name in servers:
        print(f"| handshakes | {name} | {spread(rates[name], '{:.0f}')} a second, {spread(costs[name], '{:.0f}')} us each |", flush=True)
        servers[name].stop()


def probe(server, idle, during):
    ports = [str(server.port), str(idle.port)]
    asker = subprocess.Popen([sys.executable, "-c", PROBE, *ports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    asker.stdout.readline()
    answer = during()
    return answer, [float(word) for word in asker.communicate("x\n")[0].split()]


def stall(options):
    for name, command in options.servers:
        server, idle = Server(command, options), Server(command, options)
        waits, rates = [], []
        for _ in range(options.rounds):
            _, before = probe(server, idle, lambda: time.sleep(options.seconds))
            clients = shake(server, options.seconds + 0.5, RATE, 2)
            time.sleep(0.3)
            _, during = probe(server, idle, lambda: time.sleep(options.seconds - 0.5))
            rates.append(total(clients))
            waits.append((*during, before[0], during[0] - during[1]))
        columns = [spread(column) for column in zip(*waits)]
        print(f"| stall | {name} | {columns[0]} ms, idle server {columns[1]}, beyond it {columns[3]}, before {columns[2]}; "
              f"{spread(rates, '{:.0f}')} handshakes a second |", flush=True)
        for each in server, idle:
            each.stop()


def idle(options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, command in options.servers:
        for tls in True, False:
            server, held = Server(command, options), []
            counts = []
            for _ in range(2):
                # The first thousand brings what all connections share.
                for _ in range(CONNECTIONS):
                    s = socket.create_connection(("127.0.0.1", server.tls_port if tls else server.port))
                    s = context.wrap_socket(s) if tls else s
                    s.sendall(b"PING\r\n")
                    s.recv(64)
                    held.append(s)
                time.sleep(3)
                counts.append((server.info("used_memory"), server.resident()))
            used, resident = ((after - before) / CONNECTIONS for before, after in zip(*counts))
            print(f"| idle | {name} | {'TLS' if tls else 'plain'} | {used:.0f} B counted, {resident:.0f} B resident |", flush=True)
            server.stop()
            for s in held:
                s.close()


CASES = {"set": sets, "handshakes": handshakes, "stall": stall, "idle": idle}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--sets", type=int, default=1_000_000)
    parser.add_argument("--port", type=int, default=23300)
    parser.add_argument("--dir", default="/tmp/tls-bench")
    parser.add_argument("servers", nargs="+", metavar="NAME=COMMAND")
    options = parser.parse_args()
    options.servers = [word.split("=", 1) for word in options.servers]
    options.place, Server.port = os.path.join(options.dir, "data"), options.port
    shutil.rmtree(options.place, ignore_errors=True)
    os.makedirs(options.place)
    certificate(options.place)
    for name, case in CASES.items():
        if options.only in (None, name):
            case(options)


if __name__ == "__main__":
    main()
