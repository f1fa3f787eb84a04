"""Chat templates, as models bring them."""

from __future__ import annotations

import sys

import pytest

from afterglow.support.errors import ModelError, UnsupportedError, UsageError
from afterglow.text import Generator
from afterglow.text.chat import render_chat
from tests.text.fakes import FakeDecoder, LetterTokenizer

CHATML = """\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
HELLO = [{"role": "user", "content": "hello"}]


def rendered(template: str, **variables: object) -> str:
    pytest.importorskip("jinja2", reason="jinja2 is not installed: afterglow[text]")
    return render_chat(template, HELLO, **variables)


def test_a_template_writes_the_conversation() -> None:
    assert rendered(CHATML) == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert rendered(CHATML, add_generation_prompt=False).endswith("<|im_end|>\n")


def test_templates_have_what_those_of_models_use() -> None:
    template = (
        "{{ bos_token }}{% for m in messages %}{% if loop.first %}{{ m.content | trim }}"
        "{% break %}{% endif %}{% endfor %}{{ tools | tojson }}{{ strftime_now('%%') }}"
        "{% set ns = namespace(n=1) %}{% set ns.n = 2 %}{{ ns.n }}"
    )
    tools = [{"name": "größe<"}]
    assert rendered(template, bos_token="<s>", tools=tools) == '<s>hello[{"name": "größe<"}]%2'


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% for x in range(10**9) %}{% endfor %}",
        "{{ messages[0].nothing.more }}",
        "{% if %}",
        "{{ 1 / 0 }}",
        "{{ messages | nofilter }}",
        "{% include 'x' %}",
    ],
)
def test_templates_that_reach_out_or_are_wrong_are_errors(template: str) -> None:
    with pytest.raises(ModelError, match="the chat template"):
        rendered(template)


def test_a_template_may_refuse_messages() -> None:
    with pytest.raises(UsageError) as caught:
        rendered("{{ raise_exception('roles must alternate') }}")
    assert caught.value.what == "the chat template refuses the messages: roles must alternate"


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UnsupportedError) as caught:
        render_chat(CHATML, HELLO)
    assert str(caught.value) == (
        "error: chat templates need the package jinja2\n  help: pip install 'afterglow[text]'"
    )


@pytest.mark.parametrize("messages", ["hello", [], [{"content": "x"}], ["x"], None])
def test_messages_that_are_none(messages: object) -> None:
    with pytest.raises(UsageError, match="messages of a chat must be a list of dictionaries"):
        render_chat(CHATML, messages)


def test_a_generator_makes_the_prompt_of_a_chat() -> None:
    pytest.importorskip("jinja2", reason="jinja2 is not installed: afterglow[text]")
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}.{% endfor %}"
    made = Generator(FakeDecoder(), tokenizer=LetterTokenizer(), chat_template=template)
    assert made.chat_tokens(HELLO) == LetterTokenizer().encode("hello.")
    with pytest.raises(UsageError, match="the model has no chat template"):
        Generator(FakeDecoder(), tokenizer=LetterTokenizer()).chat_tokens(HELLO)
