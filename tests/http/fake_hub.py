# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face Hub on this machine: an endpoint, and a second host that large files are redirected to."""
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

COMMIT = "c0ffee" + "0" * 34


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=None, length=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.server.hub, urllib.parse.unquote(self.path)
        with hub.lock:
            hub.log.append((self.server.role, self.command, path, dict(self.headers)))
            trouble = hub.trouble.get(path, []) if self.command == "GET" else []
            action = trouble.pop(0) if trouble else None
        if isinstance(action, int):
            return self.answer(action, b"busy", {"Retry-After": "1"} if action == 429 else {})
        if self.server.role == "cdn":
            return self.send_file(hub.blobs[path.removeprefix("/blobs/")], action)
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.answer(401, b"{}", {"X-Error-Code": hub.refusal_code} if hub.refusal_code else {})
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path)
        if match:
            if match[1] not in hub.repositories:
                return self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            if match[2] not in hub.revisions:
                return self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            files = hub.repositories[match[1]]
            listing = {"id": match[1], "sha": hub.commit, "siblings": [{"rfilename": name} for name in [*files, *hub.more_names]]}
            return self.answer(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if not match or match[2] not in {hub.commit, "main"} or match[3] not in hub.repositories.get(match[1], {}):
            return self.answer(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        data = hub.repositories[match[1]][match[3]]
        headers = {"X-Repo-Commit": hub.commit}
        if match[3].endswith((".safetensors", ".gguf")):
            digest = hashlib.sha256(data).hexdigest()
            hub.blobs.setdefault(digest, data)
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data)), "ETag": '"of-the-redirect"',
                        "Location": f"{hub.cdn_url}/blobs/{digest}"}
            return self.answer(302, b"", headers)
        headers["ETag"] = '"' + hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() + '"'
        return self.send_file(data, action, headers)

    def send_file(self, data, action, headers=None):
        headers = dict(headers or {})
        status, first, last = 200, 0, len(data) - 1
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if self.server.hub.ranges else None
        if match:
            status, first, last = 206, int(match[1]), min(int(match[2]), last)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        body = data[first:last + 1]
        if action == "wrong":
            body = bytes(len(body))
        if action and action[0] == "cut":
            self.answer(status, body[:action[1]], headers, length=len(body))
            self.close_connection = True
            return
        self.answer(status, body, headers)


class FakeHub:
    """trouble[path] is a list of what the next GETs of a path meet: a status, ("cut", bytes) or "wrong"."""

    def __init__(self):
        self.repositories, self.revisions, self.blobs = {}, {"main", COMMIT}, {}
        self.commit, self.token, self.refusal_code, self.ranges = COMMIT, None, None, True
        self.more_names, self.trouble, self.log, self.lock = [], {}, [], threading.Lock()
        self.servers = [self._serve("hub"), self._serve("cdn")]
        self.url, self.cdn_url = (f"http://127.0.0.1:{server.server_address[1]}" for server in self.servers)

    def _serve(self, role):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        server.daemon_threads, server.hub, server.role = True, self, role
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def blob_path(self, data):
        return "/blobs/" + hashlib.sha256(data).hexdigest()

    def gets(self, path):
        """The Range headers of all GETs of a path, None where there was none."""
        return [headers.get("Range") for _, method, logged, headers in self.log if method == "GET" and logged == path]

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
