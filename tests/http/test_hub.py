# SPDX-License-Identifier: Apache-2.0
"""`--model org/name` against a fake Hugging Face Hub: what is asked, what lands in the cache, what goes wrong."""
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import BUILD
from fake_hub import COMMIT, FakeHub
from serving import Server

CHUNK = 1 << 20


@pytest.fixture
def hub(make_model):
    hub = FakeHub()
    hub.repositories["org/tiny"] = {path.name: path.read_bytes() for path in sorted(pathlib.Path(make_model()).iterdir())}
    hub.repositories["org/tiny"] |= {"README.md": b"x", "pytorch_model.bin": b"pickle", "onnx/model.onnx": b"x"}
    yield hub
    hub.close()


@pytest.fixture
def environment(hub, tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return clean | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "LOCKSTEP_HUB_CHUNK_BYTES": str(CHUNK)}


@pytest.fixture
def inspect(environment):
    def run(model="org/tiny", **more):
        return subprocess.run([BUILD / "lockstep", "inspect", "--model", model], env=environment | more, capture_output=True,
                              text=True, timeout=60)

    return run


def folder(environment, name="models--org--tiny"):
    return pathlib.Path(environment["HF_HOME"]) / "hub" / name


def weights(hub):
    return hub.repositories["org/tiny"]["model.safetensors"]


def leftovers(environment):
    return [path.name for path in (folder(environment) / "blobs").iterdir() if ".lockstep." in path.name]


def test_a_model_is_downloaded_into_hugging_faces_cache_and_used_from_there(hub, environment, inspect):
    done = inspect()
    assert done.returncode == 0, done.stderr
    snapshot = folder(environment) / "snapshots" / COMMIT
    assert (folder(environment) / "refs/main").read_text() == COMMIT
    wanted = {name for name in hub.repositories["org/tiny"] if name.endswith((".json", ".safetensors", ".jinja"))}
    assert {path.name for path in snapshot.iterdir()} <= wanted and (snapshot / "model.safetensors").exists()
    for path in snapshot.iterdir():
        data = hub.repositories["org/tiny"][path.name]
        assert path.is_symlink() and path.read_bytes() == data
        name = hashlib.sha256(data) if path.suffix == ".safetensors" else hashlib.sha1(b"blob %d\0" % len(data) + data)
        assert os.readlink(path) == f"../../blobs/{name.hexdigest()}"
    assert leftovers(environment) == []
    assert not any("README" in path or ".bin" in path or "onnx" in path for _, _, path, _ in hub.log)
    hub.log.clear()
    again = inspect()
    assert again.returncode == 0 and hub.log == [], "a whole model in the cache needs no request"
    assert inspect(HF_HUB_OFFLINE="1").returncode == 0


def test_a_large_file_comes_in_ranges_and_a_cut_one_goes_on(hub, environment, inspect):
    data, path = weights(hub), hub.blob_path(weights(hub))
    assert len(data) > 3 * CHUNK, "the model is too small to be cut"
    hub.trouble[path] = [("cut", 1000)] * 4
    done = inspect()
    assert done.returncode == 0, done.stderr
    assert (folder(environment) / "snapshots" / COMMIT / "model.safetensors").read_bytes() == data
    ranges = [tuple(int(n) for n in text.removeprefix("bytes=").split("-")) for text in hub.gets(path)]
    assert sum(begin % CHUNK == 1000 for begin, _ in ranges) == 4, "only what was missing is asked for"
    assert len(ranges) == 4 + -(-len(data) // CHUNK)


def test_a_killed_download_goes_on_in_the_next_run(hub, environment, inspect):
    data, path = weights(hub), hub.blob_path(weights(hub))
    hub.trouble[path] = [None, None, None] + [503] * 1000
    first = subprocess.Popen([BUILD / "lockstep", "inspect", "--model", "org/tiny"], env=environment, stderr=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while sum(1 for range_ in hub.gets(path)) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    first.send_signal(signal.SIGKILL)
    first.wait()
    hub.trouble.clear()
    hub.log.clear()
    done = inspect()
    assert done.returncode == 0, done.stderr
    assert (folder(environment) / "snapshots" / COMMIT / "model.safetensors").read_bytes() == data
    assert len(hub.gets(path)) == -(-len(data) // CHUNK) - 3 and leftovers(environment) == []


def test_a_wrong_hash_is_fetched_once_more_then_refused(hub, environment, inspect):
    path = hub.blob_path(weights(hub))
    hub.trouble[path] = ["wrong"]
    done = inspect()
    assert done.returncode == 0, done.stderr
    assert "its hash is wrong" in done.stderr
    hub.repositories["org/other"] = hub.repositories["org/tiny"]
    hub.trouble[path] = ["wrong"] * 100
    failed = inspect("org/other")
    assert failed.returncode != 0 and "model.safetensors: its hash is" in failed.stderr and hashlib.sha256(weights(hub)).hexdigest() in failed.stderr
    blobs = [entry.name for entry in (folder(environment, "models--org--other") / "blobs").iterdir()]
    assert not any(hashlib.sha256(weights(hub)).hexdigest() in name for name in blobs), "nothing wrong stays"
    assert not (folder(environment, "models--org--other") / "snapshots" / COMMIT / "model.safetensors").exists()


def test_a_small_file_with_a_wrong_hash_is_refused_too(hub, inspect):
    hub.trouble[f"/org/tiny/resolve/{COMMIT}/config.json"] = ["wrong"] * 2
    failed = inspect()
    assert failed.returncode != 0 and "config.json: its hash is" in failed.stderr


def test_busy_servers_are_asked_again(hub, inspect):
    hub.trouble["/api/models/org/tiny/revision/main"] = [503, 429]
    hub.trouble[hub.blob_path(weights(hub))] = [429, 500]
    done = inspect()
    assert done.returncode == 0, done.stderr


def test_a_server_without_ranges(hub, environment, inspect):
    hub.ranges = False
    failed = inspect()
    assert failed.returncode != 0 and "no Range" in failed.stderr
    done = inspect(LOCKSTEP_HUB_CHUNK_BYTES=str(1 << 30))
    assert done.returncode == 0, done.stderr


def test_the_token_goes_to_the_hub_only(hub, inspect):
    hub.token = "hf_secret"
    failed = inspect()
    assert failed.returncode != 0 and "HF_TOKEN" in failed.stderr
    done = inspect(HF_TOKEN="hf_secret")
    assert done.returncode == 0 and "hf_secret" not in done.stderr + done.stdout, done.stderr
    cdn = [headers for role, _, _, headers in hub.log if role == "cdn"]
    assert cdn and not any("Authorization" in headers for headers in cdn)


@pytest.mark.parametrize("model, code, expected", [
    ("org/gated", "GatedRepo", "accept its terms at"), ("org/none", None, "there is no such model, or it is private"),
    ("org/tiny@v9", None, "there is no revision v9"), ("org/tiny:Q4_K_M", None, "no .gguf file"),
    ("org/na--me", None, "has '--' or '..'"), ("justname", None, "as org/name"), ("./org/name", None, "no such file or folder")])
def test_what_can_not_be_had_is_said(hub, inspect, model, code, expected):
    if code:
        hub.token, hub.refusal_code = "other", code
    failed = inspect(model)
    assert failed.returncode != 0 and expected in failed.stderr, failed.stderr


def test_offline_without_the_model(hub, inspect):
    failed = inspect(HF_HUB_OFFLINE="1")
    assert failed.returncode != 0 and "HF_HUB_OFFLINE is set" in failed.stderr and hub.log == []


def test_file_names_that_lead_elsewhere_are_refused(hub, environment, inspect):
    hub.more_names = ["../../../evil.json"]
    failed = inspect()
    assert failed.returncode != 0 and "leads out of its folder" in failed.stderr
    assert not list(pathlib.Path(environment["HF_HOME"]).rglob("evil*"))


def test_an_endpoint_that_is_not_there(inspect):
    failed = inspect(HF_ENDPOINT="http://127.0.0.1:9", LOCKSTEP_HUB_RETRIES="0")
    assert failed.returncode != 0 and "127.0.0.1:9" in failed.stderr


def test_shards_and_a_gguf_file(hub, environment, inspect, tmp_path):
    tiny = hub.repositories["org/tiny"]
    shard = "model-00001-of-00001.safetensors"
    header = json.loads(weights(hub)[8:8 + int.from_bytes(weights(hub)[:8], "little")])
    index = {"metadata": {}, "weight_map": {name: shard for name in header if name != "__metadata__"}}
    hub.repositories["org/shards"] = {name: data for name, data in tiny.items() if name != "model.safetensors"} | {
        shard: weights(hub), "model.safetensors.index.json": json.dumps(index).encode(), "consolidated.safetensors": b"not asked for"}
    done = inspect("org/shards")
    assert done.returncode == 0, done.stderr
    assert not any("consolidated" in path for _, _, path, _ in hub.log)
    hub.repositories["org/gguf"] = {"a-Q4_0.gguf": b"GGUF-a", "dir/b-Q8_0.gguf": b"GGUF-b"}
    failed = inspect("org/gguf")
    assert failed.returncode != 0 and "a-Q4_0.gguf, dir/b-Q8_0.gguf" in failed.stderr
    inspect("org/gguf:q8_0")
    link = folder(environment, "models--org--gguf") / "snapshots" / COMMIT / "dir/b-Q8_0.gguf"
    assert link.read_bytes() == b"GGUF-b" and not (link.parent.parent / "a-Q4_0.gguf").exists()


def test_two_processes_share_one_download(hub, environment):
    path = hub.blob_path(weights(hub))
    commands = [subprocess.Popen([BUILD / "lockstep", "inspect", "--model", "org/tiny"], env=environment, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for command in commands:
        _, messages = command.communicate(timeout=60)
        assert command.returncode == 0, messages
    assert len(hub.gets(path)) == -(-len(weights(hub)) // CHUNK)


def test_a_served_model_has_its_hub_name(hub, environment, tmp_path, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    server = Server([BUILD / "lockstep", "serve", "--model", "org/tiny", "--port", "0", "--max-model-len", "256", "--num-kv-blocks", "64"],
                    tmp_path / "log")
    try:
        assert json.loads(server.request("GET", "/v1/models").body)["data"][0]["id"] == "org/tiny"
        body = json.dumps({"model": "org/tiny", "prompt": "a", "max_tokens": 2})
        assert server.request("POST", "/v1/completions", body, {"Content-Type": "application/json"}).status == 200
    finally:
        server.kill()
