# SPDX-License-Identifier: Apache-2.0
"""Starts `lockstep serve` and talks to it with the standard library only."""
import http.client
import json
import os
import re
import signal
import subprocess
import time

SERVED_NAME = "M"


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object, its shape checked."""
        assert self.headers["content-type"] == "application/json"
        error = self.json["error"]
        assert isinstance(error["message"], str) and isinstance(error["type"], str) and {"param", "code"} <= set(error)
        return error

    @property
    def choice(self):
        assert self.status == 200, self.body
        return self.json["choices"][0]

    @property
    def events(self):
        """A stream's payloads; the last must be [DONE] and is left out."""
        assert self.status == 200, self.body
        assert self.headers["content-type"].startswith("text/event-stream")
        frames = self.body.decode("utf-8").split("\n\n")
        assert frames.pop() == "" and frames.pop() == "data: [DONE]"
        assert all(frame.startswith("data: ") for frame in frames)
        return [json.loads(frame[6:]) for frame in frames]


def stream_text(events, index=0):
    """(text, finish_reason) of one choice."""
    text, finish = "", None
    for event in events:
        for choice in event["choices"]:
            if choice["index"] == index:
                assert finish is None, "a chunk after the last"
                text += choice["text"] if "text" in choice else choice["delta"].get("content", "")
                finish = choice["finish_reason"]
    return text, finish


def force(token):
    """Every step gives this id."""
    return {"temperature": 0, "logit_bias": {str(token): 100}}


class Server:
    def __init__(self, command, log, timeout=60):
        self.log_path = log
        self.log = open(log, "wb")
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=self.log)
        ready = re.compile(rb"http://([\d.]+):(\d+)")
        deadline = time.monotonic() + timeout
        for line in self.process.stdout:
            match = ready.search(line)
            if match:
                self.host, self.port = match[1].decode(), int(match[2])
                break
            assert time.monotonic() < deadline, "not ready in time"
        else:
            raise AssertionError("serve ended: " + self.log_text())

    def log_text(self):
        return self.log_path.read_text(errors="replace")

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        connection = self.connect(timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, fields, **kwargs):
        body = fields if isinstance(fields, (bytes, str)) else json.dumps(fields)
        return self.request("POST", path, body=body, headers={"Content-Type": "application/json"}, **kwargs)

    def complete(self, prompt="x", **fields):
        return self.post("/v1/completions", {"model": SERVED_NAME, "prompt": prompt, **fields})

    def chat(self, content="hi", messages=None, **fields):
        messages = messages if messages is not None else [{"role": "user", "content": content}]
        return self.post("/v1/chat/completions", {"model": SERVED_NAME, "messages": messages, **fields})

    def rendered(self, messages, **fields):
        """The prompt that these messages become."""
        reply = self.post("/tokenize", {"messages": messages, **fields})
        assert reply.status == 200, reply.body
        return self.post("/detokenize", {"tokens": reply.json["tokens"]}).json["prompt"]

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", self.get("/metrics").body.decode(), re.M)
        return float(found[1])

    def histogram(self, name):
        """(upper bound, requests up to it), as they are listed."""
        text = self.get("/metrics").body.decode()
        assert len(re.findall(rf"^# TYPE {re.escape(name)} histogram$", text, re.M)) == 1, name
        found = re.findall(rf'^{re.escape(name)}_bucket{{.*,le="([^"]+)"}} (\d+)$', text, re.M)
        return [(float(bound), int(count)) for bound, count in found]

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
