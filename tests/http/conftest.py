# SPDX-License-Identifier: Apache-2.0
"""A served tiny-qwen3: the golden model's weights with the Qwen3 tokenizer, on a free port.

LOCKSTEP_BUILD names the build folder (default: build).
"""
import json
import os
import pathlib

import pytest

from serving import SERVED_NAME, Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build"))


def assemble(target, generation_config):
    """A model directory as one has it from Hugging Face."""
    target.mkdir()
    golden = ROOT / "tests/data/golden/tiny-qwen3"
    for name in ("config.json", "model.safetensors"):
        (target / name).symlink_to(golden / name)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (target / name).symlink_to(BUILD / "testdata/qwen3-tokenizer" / name)
    (target / "generation_config.json").write_text(json.dumps(generation_config))
    return target


@pytest.fixture(scope="session")
def make_model(tmp_path_factory):
    def make(**generation_config):
        return assemble(tmp_path_factory.mktemp("model") / "tiny-qwen3", generation_config)

    return make


@pytest.fixture(scope="session")
def start_server(make_model, tmp_path_factory):
    """start_server(model=DIR, flags=[...]) -> Server; all are ended with the session."""
    started = []

    def start(model=None, flags=()):
        model = model or make_model(eos_token_id=[151645, 151643])
        log = tmp_path_factory.mktemp("log") / "server.log"
        server = Server([BUILD / "lockstep", "serve", "--model", model, "--port", "0", "--served-model-name", SERVED_NAME,
                         "--max-model-len", "256", "--num-kv-blocks", "256", *flags], log)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def server(start_server):
    return start_server()


@pytest.fixture(autouse=True)
def server_lives(request):
    """After each test the shared server must still answer a plain request on a new connection."""
    yield
    if "server" in request.fixturenames:
        shared = request.getfixturevalue("server")
        assert shared.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status == 200
