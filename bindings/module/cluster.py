#!/usr/bin/env python3
"""A cluster of three masters and three replicas with the module, put to the test.

  python3 cluster.py MODULE [--entries 1000000] [--maps 2000] [--slots 2000] [--server redis-server|valkey-server]

It starts six servers in a folder that goes away, puts entries while 2,000 slots are moved from one master to another,
while a master is killed and its replica takes over, and while the killed server comes back (the last quarter is held
back until the kill); then it ends all servers and starts them again. At the end every entry that a replica had confirmed
(WAIT 1) must be there with its value, and each replica must hold what its master holds. Needs Python 3.8, and the
server and command line of Redis or Valkey: without
--server the first that is installed. Ends with 0 if all held.
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SERVERS = ("redis-server", "valkey-server")
SLOT_COUNT = 16384
BATCH = 250
NODE_TIMEOUT_MS = 2000
PATIENCE_S = 120
# How long a batch waits for a replica, and how long a killed server stays away.
WAIT_MS = 200
ABSENCE_S = 5


class ServerError(Exception):
    """An error that a server answered."""


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc


def encode(words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Connection:
    """A connection to one server; errors are values."""

    def __init__(self, port, timeout=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.stream = self.socket.makefile("rb")

    def send(self, requests):
        self.socket.sendall(b"".join(map(encode, requests)))

    def ask(self, *words):
        self.send([words])
        reply = self.reply()
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def reply(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ServerError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        length = int(rest)
        if length < 0:
            return None
        if kind == b"*":
            return [self.reply() for _ in range(length)]
        data = self.stream.read(length + 2)
        if len(data) < length + 2:
            raise ConnectionError("the server closed the connection")
        return data[:-2]

    def close(self):
        self.socket.close()


class Node:
    """A server of the cluster, in a folder of its own."""

    def __init__(self, folder, port, options):
        self.folder, self.port, self.options = os.path.join(folder, str(port)), port, options
        os.makedirs(self.folder)
        self.process = None

    def start(self):
        words = [self.options.server, "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder]
        words += ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS]
        words += ["--appendonly", "yes", "--save", "", "--enable-debug-command", "yes"]
        words += ["--logfile", os.path.join(self.folder, "log"), "--loadmodule", self.options.module]
        self.process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL)
        eventually(f"{self.port} answers", lambda: Connection(self.port).ask("PING") == b"PONG")

    def end(self, signal_number):
        # A server that writes its first append-only file refuses to end, and must be asked again.
        while self.process.poll() is None:
            self.process.send_signal(signal_number)
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                pass


def eventually(what, holds):
    end, why = time.time() + PATIENCE_S, ""
    while time.time() < end:
        try:
            if holds():
                return
        except (OSError, ServerError) as error:
            why = f": {error}"
        time.sleep(0.05)
    raise SystemExit(f"cluster.py: not in time: {what}{why}")


def told(text):
    print(f"{time.time() - STARTED:7.1f} s  {text}", flush=True)


class Cluster:
    """The servers, and which of them has which slot."""

    def __init__(self, options, folder):
        first = free_ports()
        self.options = options
        self.nodes = {}
        for port in range(first, first + 6):
            self.nodes[port] = Node(folder, port, options)

    def create(self):
        for node in self.nodes.values():
            node.start()
        places = [f"127.0.0.1:{port}" for port in self.nodes]
        self.manage("create", *places, "--cluster-replicas", "1")
        self.wait_whole()

    def manage(self, command, *words):
        words = [command_line(self.options.server), "--cluster", command, *map(str, words), "--cluster-yes"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"cluster.py: {' '.join(words)}\n{done.stdout[-2000:]}{done.stderr}")

    def rows(self):
        """(id, port, is master, id of its master, is alive, ranges) of each server, as a living one tells."""
        for port, node in self.nodes.items():
            if node.process.poll() is not None:
                continue
            text = Connection(port).ask("CLUSTER", "NODES").decode()
            rows = []
            for line in text.splitlines():
                words = line.split()
                flags = words[2].split(",")
                ranges = [part.split("-") for part in words[8:] if not part.startswith("[")]
                ranges = [(int(part[0]), int(part[-1])) for part in ranges]
                port = int(words[1].split("@")[0].split(":")[1])
                alive = not {"fail", "fail?", "noaddr", "handshake"} & set(flags)
                rows.append((words[0], port, "master" in flags, words[3], alive, ranges))
            return rows
        raise SystemExit("cluster.py: no server lives")

    def masters(self):
        return [row for row in self.rows() if row[2] and row[4] and row[5]]

    def slots(self):
        owners = [0] * SLOT_COUNT
        for _, port, _, _, _, ranges in self.masters():
            for first, last in ranges:
                owners[first : last + 1] = [port] * (last + 1 - first)
        return owners

    def wait_whole(self):
        """All servers agree that all slots are served, and each master has its replica."""

        def holds():
            for port in self.nodes:
                info = Connection(port).ask("CLUSTER", "INFO").decode()
                if "cluster_state:ok" not in info or "cluster_slots_ok:16384" not in info:
                    return False
                replication = Connection(port).ask("INFO", "replication").decode()
                if "role:slave" in replication and "master_link_status:up" not in replication:
                    return False
            rows = self.rows()
            return len(self.masters()) == 3 and sum(not row[2] and row[4] for row in rows) == 3

        eventually("the cluster is whole", holds)


def installed_server():
    for server in SERVERS:
        if shutil.which(server):
            return server
    return SERVERS[0]


def command_line(server):
    """The client that belongs to a server, or the other one."""
    own = os.path.basename(server).replace("-server", "-cli")
    return own if shutil.which(own) else "redis-cli"


def free_ports():
    """The first of six ports that are free, whose ports of the bus are free as well."""
    for first in range(21000 + os.getpid() % 500 * 10, 50000, 10):
        try:
            for port in [*range(first, first + 6), *range(first + 10000, first + 10006)]:
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise SystemExit("cluster.py: no ports are free")


class Loader(threading.Thread):
    """Puts all entries, again where it must, until a replica has confirmed each of them."""

    def __init__(self, cluster, options):
        super().__init__(daemon=True)
        self.cluster, self.options = cluster, options
        self.done, self.repeated, self.longest_s = 0, 0, 0.0
        self.failure = None
        # Set when the last quarter may be put: behind the kill.
        self.may_end = threading.Event()
        self.slot_of = [crc16(b"map:%d" % number) % SLOT_COUNT for number in range(options.maps)]

    def run(self):
        try:
            self.load()
        except BaseException as error:  # the main thread tells it
            self.failure = error

    def load(self):
        owners, connections = self.cluster.slots(), {}
        # Each batch is of one map, so that one server has it.
        per_map = self.options.entries // self.options.maps
        pending = [(number, start) for start in range(0, per_map, BATCH) for number in range(self.options.maps)]
        last = time.time()
        held_back = len(pending) * 3 // 4
        pending, rest = pending[:held_back], pending[held_back:]
        while pending:
            again = []
            for number, start in pending:
                port = owners[self.slot_of[number]]
                stop = min(start + BATCH, per_map)
                try:
                    if port not in connections:
                        connections[port] = Connection(port, 5)
                    if self.put(connections[port], number, start, stop):
                        self.done += stop - start
                        self.longest_s = max(self.longest_s, time.time() - last)
                        last = time.time()
                        continue
                except OSError:
                    connections.pop(port, None)
                self.repeated += 1
                again.append((number, start))
                if len(again) % 20 == 1:
                    time.sleep(0.02)
                    owners = self.slots_or(owners)
            pending = again
            if not pending and rest:
                self.may_end.wait()
                pending, rest, last = rest, [], time.time()
            if pending:
                owners = self.slots_or(owners)

    def slots_or(self, owners):
        try:
            return self.cluster.slots()
        except (OSError, ServerError, ValueError, IndexError):
            return owners

    def put(self, connection, number, start, stop):
        """Whether a replica has confirmed it."""
        words = [b"EL.MPUT", b"map:%d" % number]
        for entry in range(start, stop):
            words += [b"entry:%08d" % entry, value_of(number, entry)]
        connection.send([words, ("WAIT", "1", WAIT_MS)])
        put, confirmed = connection.reply(), connection.reply()
        return not isinstance(put, ServerError) and isinstance(confirmed, int) and confirmed >= 1


def value_of(number, entry):
    return b"value:%d:%d" % (number, entry)


def check(cluster, options):
    """Every entry is there, and masters and replicas hold the same."""
    owners = cluster.slots()
    connections = {port: Connection(port, 60) for port in set(owners)}
    per_map, missing = options.entries // options.maps, 0
    for number in range(options.maps):
        connection = connections[owners[crc16(b"map:%d" % number) % SLOT_COUNT]]
        found = connection.ask("EL.RANGE", b"map:%d" % number, "-", "+") or []
        found = dict(zip(found[::2], found[1::2]))
        for entry in range(per_map):
            missing += found.get(b"entry:%08d" % entry) != value_of(number, entry)
    told(f"looked at {per_map * options.maps} confirmed entries: {missing} are missing or wrong")

    compared, different = 0, 0
    by_id = {row[0]: row[1] for row in cluster.rows()}
    for _, port, is_master, master, _, _ in cluster.rows():
        if is_master:
            continue
        digest = lambda port: Connection(port, 600).ask("DEBUG", "DIGEST")
        eventually("the replica has all", lambda: offset(port) == offset(by_id[master]))
        different += digest(port) != digest(by_id[master])
        compared += 1
    told(f"compared {compared} replicas with their masters: {different} differ")
    return missing == 0 and different == 0 and compared == 3


def offset(port):
    info = Connection(port).ask("INFO", "replication").decode()
    return info.split("master_repl_offset:")[1].split("\r\n")[0]


def part(loader, total, share):
    """Waits until so much is loaded."""
    while loader.is_alive() and loader.done < total * share:
        time.sleep(0.02)
    if loader.failure:
        raise SystemExit(f"cluster.py: {loader.failure}")


def run(options, folder, cluster):
    cluster.create()
    told("6 servers: 3 masters, 3 replicas")
    loader = Loader(cluster, options)
    total = options.entries // options.maps * options.maps
    loader.start()

    part(loader, total, 0.1)
    source, target = cluster.masters()[:2]
    began, before = time.time(), loader.done
    words = ["--cluster-from", source[0], "--cluster-to", target[0], "--cluster-slots", options.slots]
    cluster.manage("reshard", f"127.0.0.1:{source[1]}", *words)
    told(
        f"moved {options.slots} slots in {time.time() - began:.1f} s, and put {loader.done - before} entries meanwhile"
    )

    part(loader, total, 0.5)
    victim = cluster.masters()[0][1]
    if not loader.is_alive():
        raise SystemExit("cluster.py: all was put before the kill")
    before = loader.done
    cluster.nodes[victim].end(signal.SIGKILL)
    loader.may_end.set()
    began = time.time()
    eventually(
        "a replica takes over",
        lambda: victim not in [row[1] for row in cluster.masters()] and len(cluster.masters()) == 3,
    )
    told(
        f"killed a master with {total - before} of {total} entries to come; its replica took over after "
        f"{time.time() - began:.1f} s"
    )
    # Its slots are served, and nothing there can be confirmed: the new master has no replica.
    time.sleep(ABSENCE_S)
    cluster.nodes[victim].start()
    told("the killed server is back, as a replica")

    loader.join()
    part(loader, total, 1)
    told(
        f"{loader.done} entries are confirmed by a replica; {loader.repeated} batches were put again, and the longest "
        f"time without a confirmation was {loader.longest_s:.1f} s"
    )
    cluster.wait_whole()

    for node in cluster.nodes.values():
        node.end(signal.SIGTERM)
    for node in cluster.nodes.values():
        node.start()
    cluster.wait_whole()
    told("ended all servers and started them again")
    return check(cluster, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", help="libeverleaf_module.so")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--maps", type=int, default=2_000)
    parser.add_argument("--slots", type=int, default=2_000)
    parser.add_argument("--server", default=installed_server())
    options = parser.parse_args()
    options.module = os.path.abspath(options.module)
    folder = tempfile.mkdtemp(prefix="everleaf-cluster-")
    cluster = Cluster(options, folder)
    try:
        good = run(options, folder, cluster)
    except BaseException:
        for port in cluster.nodes:
            path = os.path.join(folder, str(port), "log")
            if os.path.exists(path):
                with open(path, errors="replace") as log:
                    print(port, *log.readlines()[-5:], sep="\n  ", file=sys.stderr)
        raise
    finally:
        for node in cluster.nodes.values():
            if node.process and node.process.poll() is None:
                node.end(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if good else 1)


STARTED = time.time()

if __name__ == "__main__":
    main()
