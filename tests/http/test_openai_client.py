# SPDX-License-Identifier: Apache-2.0
"""The official client streams and completes."""
import openai
import pytest

from serving import SERVED_NAME, force

MESSAGES = [{"role": "user", "content": "Say ab."}]


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"http://{server.host}:{server.port}/v1", api_key="none", max_retries=0) as made:
        yield made


def forced(token):
    fields = force(token)
    return {"temperature": fields["temperature"], "logit_bias": fields["logit_bias"]}


def test_chat(client):
    answer = client.chat.completions.create(model=SERVED_NAME, messages=MESSAGES, max_completion_tokens=4, logprobs=True, top_logprobs=2, **forced(370))
    assert answer.choices[0].message.content == "abababab"
    assert answer.choices[0].finish_reason == "length"
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 2
    assert answer.usage.completion_tokens == 4
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0


def test_chat_stream(client):
    stream = client.chat.completions.create(model=SERVED_NAME, messages=MESSAGES, max_tokens=4, stream=True,
                                            stream_options={"include_usage": True}, **forced(370))
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "abababab"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 4


def test_completions(client):
    answer = client.completions.create(model=SERVED_NAME, prompt=["x", "y"], max_tokens=2, logprobs=1, **forced(370))
    assert [choice.text for choice in answer.choices] == ["abab", "abab"]
    stream = client.completions.create(model=SERVED_NAME, prompt="x", max_tokens=3, stream=True, **forced(370))
    assert "".join(chunk.choices[0].text for chunk in stream) == "ababab"


def test_models_and_errors(client):
    assert [model.id for model in client.models.list()] == [SERVED_NAME]
    assert client.models.retrieve(SERVED_NAME).id == SERVED_NAME
    with pytest.raises(openai.NotFoundError) as wrong:
        client.completions.create(model="nope", prompt="x")
    assert wrong.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=SERVED_NAME, messages=MESSAGES, temperature=3)
    assert bad.value.param == "temperature"


@pytest.mark.anyio
async def test_async_stream(server):
    async with openai.AsyncOpenAI(base_url=f"http://{server.host}:{server.port}/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(model=SERVED_NAME, messages=MESSAGES, max_tokens=4, stream=True, **forced(370))
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "abababab"


@pytest.fixture
def anyio_backend():
    return "asyncio"
