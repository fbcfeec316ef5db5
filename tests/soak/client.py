# SPDX-License-Identifier: Apache-2.0
"""One client of the soak over a raw socket: asks, reads and misbehaves in the ways that clients do.

As a program: `client.py HOST PORT EXPECTED.json SEED` asks and compares until it is ended; it prints a line for a wrong
answer and leaves with 1. `client.py --health HOST PORT` prints the milliseconds of each GET /health, ten a second.
"""
import json
import random
import socket
import struct
import sys
import time

TIMEOUT_S = 120


class Wrong(Exception):
    """The server gave an answer that it must not give."""


def http_request(method, path, body=b""):
    head = f"{method} {path} HTTP/1.1\r\nHost: soak\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    if body:
        head += "Content-Type: application/json\r\n"
    return head.encode() + b"\r\n" + body


def connect(address, receive_buffer=0):
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(TIMEOUT_S)
    connection.connect(address)
    return connection


def read_all(connection, pause=lambda: None, most=None):
    """What the server sends until it closes, or until `most` bytes."""
    data = b""
    while most is None or len(data) < most:
        part = connection.recv(65536 if most is None else min(65536, most - len(data)))
        if not part:
            break
        data += part
        pause()
    return data


def split_reply(data):
    """(status, body) of a whole reply; chunked bodies are joined."""
    head, separator, body = data.partition(b"\r\n\r\n")
    if not separator:
        raise Wrong(f"no whole reply head: {data[:80]!r}")
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" not in head.lower():
        return status, body
    joined = b""
    while True:
        size, separator, rest = body.partition(b"\r\n")
        if not separator:
            raise Wrong("a chunked body without its end")
        length = int(size, 16)
        if length == 0:
            return status, joined
        joined += rest[:length]
        body = rest[length + 2:]


def answer_of(status, body, stream):
    """(text, logprobs, finish_reason) as the API gives them."""
    if status != 200:
        raise Wrong(f"status {status}: {body[:200]!r}")
    if not stream:
        choice = json.loads(body)["choices"][0]
        return [choice["text"], choice["logprobs"]["token_logprobs"], choice["finish_reason"]]
    text, logprobs, finish = "", [], None
    frames = body.decode().split("\n\n")
    if frames[-2:] != ["data: [DONE]", ""]:
        raise Wrong(f"a stream without its end: {body[-80:]!r}")
    for frame in frames[:-2]:
        event = json.loads(frame[6:])
        if "error" in event:
            raise Wrong(f"an error in the stream: {frame[:200]}")
        for choice in event["choices"]:
            text += choice["text"]
            if choice.get("logprobs"):
                logprobs += choice["logprobs"]["token_logprobs"]
            finish = choice["finish_reason"] or finish
    return [text, logprobs, finish]


def ask(address, fields, stream, pause=lambda: None, receive_buffer=0, half_close=False):
    """The answer to a completion; None if the server ended a half-closed connection, as it may."""
    body = json.dumps({**fields, "stream": stream}).encode()
    with connect(address, receive_buffer) as connection:
        connection.sendall(http_request("POST", "/v1/completions", body))
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        try:
            data = read_all(connection, pause)
        except ConnectionError:
            if half_close:
                return None
            raise
    if half_close and (not data or not (data.endswith(b"0\r\n\r\n") or not stream)):
        return None
    return answer_of(*split_reply(data), stream)


def close_hard(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


BAD_BODIES = [b"{", b"[]", b"null", b'{"prompt":', b'{"prompt":5.5}', b'{"prompt":"x","max_tokens":-1}', b"\xff\xfe",
              b'{"prompt":"x","unknown_field":1}', b'{"prompt":"x","temperature":"hot"}', b"[" * 5000,
              b'{"prompt":"x","model":"none"}', b'{"prompt":[999999999]}']


class Client:
    """Acts at random, the same way for the same seed. `cases` is a list of {"fields", "answer"}."""

    def __init__(self, address, cases, seed):
        self.address, self.cases, self.random = address, cases, random.Random(seed)
        self.counts = {}

    def act(self):
        kinds = {self.stream: 8, self.whole: 3, self.leave: 4, self.slow_reader: 2, self.half_closed: 2, self.bad_body: 2,
                 self.half_a_request: 1}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        kind()
        self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1

    def compare(self, case, answer):
        if answer is not None and answer != case["answer"]:
            raise Wrong(f"{case['fields']} gave {answer}, alone {case['answer']}")

    def stream(self):
        case = self.random.choice(self.cases)
        self.compare(case, ask(self.address, case["fields"], True))

    def whole(self):
        case = self.random.choice(self.cases)
        self.compare(case, ask(self.address, case["fields"], False))

    def slow_reader(self):
        case = self.random.choice(self.cases)
        self.compare(case, ask(self.address, case["fields"], True, lambda: time.sleep(self.random.uniform(0, 0.1)), 4096))

    def half_closed(self):
        case = self.random.choice(self.cases)
        self.compare(case, ask(self.address, case["fields"], self.random.random() < 0.5, half_close=True))

    def leave(self):
        """Goes away in the middle of a stream, with or without a goodbye."""
        body = json.dumps({**self.random.choice(self.cases)["fields"], "stream": True}).encode()
        connection = connect(self.address)
        connection.sendall(http_request("POST", "/v1/completions", body))
        read_all(connection, most=self.random.choice([0, 1, 200, 1000, 3000]))
        close_hard(connection) if self.random.random() < 0.5 else connection.close()

    def bad_body(self):
        with connect(self.address) as connection:
            connection.sendall(http_request("POST", "/v1/completions", self.random.choice(BAD_BODIES)))
            status, _ = split_reply(read_all(connection))
        if not 400 <= status < 500:
            raise Wrong(f"a bad body got status {status}")

    def half_a_request(self):
        request = http_request("POST", "/v1/completions", json.dumps(self.cases[0]["fields"]).encode())
        connection = connect(self.address)
        connection.sendall(request[:self.random.randrange(1, len(request))])
        time.sleep(self.random.uniform(0, 0.05))
        close_hard(connection) if self.random.random() < 0.5 else connection.close()


def health(address):
    while True:
        begin = time.monotonic()
        with connect(address) as connection:
            connection.sendall(http_request("GET", "/health"))
            status, _ = split_reply(read_all(connection))
        if status != 200:
            sys.exit(1)
        print((time.monotonic() - begin) * 1e3, flush=True)
        time.sleep(0.1)


def main():
    if sys.argv[1] == "--health":
        health((sys.argv[2], int(sys.argv[3])))
    with open(sys.argv[3], encoding="utf-8") as file:
        client = Client((sys.argv[1], int(sys.argv[2])), json.load(file), int(sys.argv[4]))
    while True:
        try:
            client.stream()
        except Wrong as wrong:
            print(wrong, flush=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
