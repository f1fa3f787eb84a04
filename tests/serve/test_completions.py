"""Language models answer as OpenAI's clients expect it."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from afterglow.serve.repository import ModelState
from afterglow.text import Generator
from tests.frontends.gguf.test_front_end import tiny
from tests.serve.models import DOUBLE, save
from tests.serve.test_http_app import ask
from tests.text.fakes import FakeDecoder, LetterTokenizer

TEMPLATE = "{% for m in messages %}{{ m.content }}.{% endfor %}"


def letters():
    return Generator(FakeDecoder(), tokenizer=LetterTokenizer(), chat_template=TEMPLATE)


@pytest.fixture
def server(tmp_path, serving):
    save(tmp_path, "net.onnx", DOUBLE)
    made = serving()
    made.core.repository.models["letters"] = ModelState(text=letters())
    return made


def post(server, path, content):
    status, text, _ = ask(server, "POST", path, json.dumps(content).encode())
    return status, json.loads(text)


def streamed(server, path, content):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    connection.request("POST", path, json.dumps(content | {"stream": True}))
    answer = connection.getresponse()
    assert answer.getheader("content-type") == "text/event-stream"
    lines = [line[6:] for line in answer.read().decode().split("\n\n") if line]
    connection.close()
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


GREEDY = {"model": "letters", "max_tokens": 8, "temperature": 0}


def test_a_completion_is_what_the_generator_generates(server):
    expected = letters().generate("once", 8)
    status, answer = post(server, "/v1/completions", GREEDY | {"prompt": "once"})
    assert status == 200
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == expected.text
    assert answer["choices"][0]["finish_reason"] == expected.finish_reason
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13}


def test_a_stream_has_the_same_text_in_pieces(server):
    events = streamed(server, "/v1/completions", GREEDY | {"prompt": "once"})
    text = "".join(event["choices"][0]["text"] for event in events)
    assert text == letters().generate("once", 8).text
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert len(events) > 4


def test_a_chat_goes_through_the_template(server):
    pytest.importorskip("jinja2", reason="jinja2 is not installed: afterglow[text]")
    content = GREEDY | {"messages": [{"role": "user", "content": "hello"}]}
    expected = letters().generate(LetterTokenizer().encode("hello."), 8).text
    status, answer = post(server, "/v1/chat/completions", content)
    assert (status, answer["object"]) == (200, "chat.completion")
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": expected}
    events = streamed(server, "/v1/chat/completions", content)
    assert "".join(event["choices"][0]["delta"]["content"] for event in events) == expected


def test_the_list_has_language_models_only(server):
    status, text, _ = ask(server, "GET", "/v1/models")
    assert (status, [row["id"] for row in json.loads(text)["data"]]) == (200, ["letters"])


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ({"model": "nothing", "prompt": "a"}, 404, "there is no model 'nothing'"),
        ({"model": "net", "prompt": "a"}, 400, "model 'net' is not a language model"),
        ({"prompt": "a"}, 400, "the model must be named"),
        (GREEDY | {"prompt": 7}, 400, "the prompt must be a text"),
        (GREEDY | {"prompt": "a", "max_tokens": 0}, 400, "max_tokens must be a whole number"),
        (GREEDY | {"prompt": "a", "temperature": "hot"}, 400, "temperature must be a number"),
        (GREEDY | {"prompt": "a", "n": 2}, 400, "n must be 1"),
        (GREEDY | {"prompt": "a" * 100}, 400, "a context of 64"),
    ],
)
def test_errors_have_the_form_of_the_interface(server, content, status, message):
    found, answer = post(server, "/v1/completions", content)
    assert message in answer["error"]["message"]
    assert (found, answer["error"]["type"]) == (status, "invalid_request_error")


def test_a_text_whose_client_vanishes_ends(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    content = {"model": "letters", "prompt": "once", "max_tokens": 10**6, "stream": True}
    server.core.repository.models["letters"].text = Generator(
        FakeDecoder(context=4096), tokenizer=LetterTokenizer()
    )
    connection.request("POST", "/v1/completions", json.dumps(content))
    connection.getresponse().read(100)
    assert server.core.completions.active == 1
    connection.close()
    until = time.monotonic() + 5
    while server.core.completions.active and time.monotonic() < until:
        time.sleep(0.01)
    assert server.core.completions.active == 0


def test_a_gguf_file_of_the_folder_is_a_language_model(tmp_path, serving):
    (tmp_path / "small.gguf").write_bytes(tiny())
    server = serving()
    index = server.core.repository.index()
    assert [(row["name"], row["state"]) for row in index] == [("small", "READY")]
    assert ask(server, "GET", "/v2/models/small/ready")[0] == 200
    status, text, _ = ask(server, "POST", "/v2/models/small/infer", b"{}")
    assert (status, "/v1/completions" in json.loads(text)["error"]) == (400, True)
