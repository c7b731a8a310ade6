#!/usr/bin/env python3
"""Moves the pairs of a store into an ordered map of a server or cluster, and back.

  everleaf export store.pool --format jsonl | python3 move.py into 127.0.0.1:7001 users
  python3 move.py from 127.0.0.1:7001 users | everleaf load new.pool - --format jsonl

Every server of the cluster will do. Needs Python 3.8 and nothing else. `into` waits at its end until a
replica has everything, if there is one, and ends with code 1 if none says so within five seconds. The times at which keys expire are not in the file, so they stay behind.
"""

import base64
import json
import re
import socket
import sys

BATCH = 200
BATCH_SIZE = 1 << 20


class ServerError(Exception):
    """An error that a server answered."""


class Server:
    """A connection that follows the cluster to the server of one key."""

    def __init__(self, address):
        self.connect(address)

    def connect(self, address):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]") or "127.0.0.1", int(port)), 60)
        self.stream = self.socket.makefile("rb")

    def ask(self, *words):
        for _ in range(16):
            try:
                return self.ask_here(*words)
            except ServerError as error:
                kind, _, rest = str(error).partition(" ")
                if kind not in ("MOVED", "ASK"):
                    raise
                self.connect(rest.split()[1])
                if kind == "ASK":
                    self.ask_here(b"ASKING")
        raise ServerError("the cluster sends us round in circles")

    def ask_here(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(parts))
        return self.reply()

    def reply(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ServerError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ServerError(rest.decode(errors="replace"))
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
            raise ServerError("the server closed the connection")
        return data[:-2]


def member(pair, name):
    if name in pair:
        return pair[name].encode()
    return base64.b64decode(pair[name + "_b64"], validate=True)


def put_member(pair, name, value):
    try:
        pair[name] = value.decode()
    except UnicodeDecodeError:
        pair[name + "_b64"] = base64.b64encode(value).decode()


def has_replica(server):
    found = re.search(rb"^connected_slaves:(\d+)", server.ask_here(b"INFO", b"replication"), re.M)
    return found is not None and int(found.group(1)) > 0


def into(server, key):
    batch, size, total = [], 0, 0

    def send():
        if batch:
            server.ask(b"EL.MPUT", key, *batch)

    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        pair = json.loads(line)
        words = [member(pair, "key"), member(pair, "value")]
        batch += words
        size += sum(map(len, words))
        total += 1
        if len(batch) >= 2 * BATCH or size >= BATCH_SIZE:
            send()
            batch, size = [], 0
    send()
    replicas = server.ask_here(b"WAIT", b"1", b"5000") if total else 0
    print(f"put {total} entries; replicas that have them: {replicas}", file=sys.stderr)
    if total and not replicas and has_replica(server):
        raise ServerError("there is a replica, and it has not confirmed: wait until it is in step, and run it again")


def out_of(server, key):
    cursor, total = b"0", 0
    while True:
        cursor, found = server.ask(b"EL.SCAN", key, cursor, b"COUNT", b"1000")
        for name, value in zip(found[::2], found[1::2]):
            pair = {}
            put_member(pair, "key", name)
            put_member(pair, "value", value)
            print(json.dumps(pair, ensure_ascii=False, separators=(",", ":")))
            total += 1
        if cursor == b"0":
            break
    print(f"read {total} entries", file=sys.stderr)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("into", "from"):
        sys.exit(__doc__)
    sys.stdin.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        run = into if sys.argv[1] == "into" else out_of
        run(Server(sys.argv[2]), sys.argv[3].encode())
    except (OSError, ServerError, ValueError, KeyError) as error:
        sys.exit(f"move.py: {error}")


if __name__ == "__main__":
    main()
