from __future__ import annotations

import io
import runpy
from pathlib import Path

import onnx
import pytest

from afterglow.cli import generate
from afterglow.text import Generator
from tests.frontends.gguf.test_front_end import tiny
from tests.text.fakes import FakeDecoder, LetterTokenizer

LESSON = Path(__file__).parent.parent.parent / "examples" / "11_generate_text.py"


@pytest.fixture
def fake(monkeypatch):
    """Every model is a small one, whatever its name."""
    asked = []

    def made(model, *, tokenizer, cache, threads, **options):
        asked.append((model, tokenizer, cache, threads))
        template = "{% for m in messages %}{{ m.content }}.{% endfor %}"
        return Generator(
            FakeDecoder(), tokenizer=LetterTokenizer(), chat_template=template, **options
        )

    monkeypatch.setattr(generate, "Generator", made)
    return asked


def text_of(prompt: str, count: int, **options: object) -> str:
    return (
        Generator(FakeDecoder(), tokenizer=LetterTokenizer())
        .generate(prompt, count, **options)
        .text
    )


def test_the_text_comes_on_standard_output_and_the_speed_on_standard_error(command, fake):
    finished = command("generate", "m.gguf", "--prompt", "once", "-n", "9", "--threads", "1")
    assert finished.status == 0
    assert finished.out == text_of("once", 9) + "\n"
    assert finished.err.startswith("9 tokens, ")
    assert "tokens/s, the first after " in finished.err
    assert fake == [("m.gguf", None, True, 1)]


def test_keys_and_values_are_kept_in_the_type_that_is_asked_for(command, tmp_path, monkeypatch):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny())
    dumped = command("dump", str(path), "--stage", "import", "--cache-type", "int8")
    assert "state @cache.0.keys : i8[1, 2, 64, 16]" in dumped.out
    asked = []

    def made(model, *, cache_type, **options):
        asked.append(cache_type)
        return Generator(FakeDecoder(), tokenizer=LetterTokenizer())

    monkeypatch.setattr(generate, "Generator", made)
    assert not command("generate", str(path), "--prompt", "a", "--cache-type", "float16").status
    assert asked == ["float16"]


def test_options_say_how_tokens_are_chosen(command, fake):
    words = "--temperature 1.5 --top-k 9 --top-p 0.9 --min-p 0.01 --repetition-penalty 1.1 --seed 5"
    finished = command(
        "generate", "m", "--prompt", "a", *words.split(), "--draft", "ngram", "--context", "20"
    )
    options = {"temperature": 1.5, "top_k": 9, "top_p": 0.9, "min_p": 0.01}
    whole = text_of("a", 19, repetition_penalty=1.1, seed=5, **options)
    assert finished.out == whole + "\n"
    stopped = command("generate", "m", "--prompt", "a", *words.split(), "--stop", whole[5:8])
    assert stopped.out == whole[: whole.find(whole[5:8])] + "\n"


def test_a_prompt_comes_from_a_file_or_standard_input(command, fake, tmp_path, monkeypatch):
    (tmp_path / "p").write_text("once")
    whole = command("generate", "m", "--prompt", "once", "-n", "5").out
    assert command("generate", "m", "--prompt-file", str(tmp_path / "p"), "-n", "5").out == whole
    monkeypatch.setattr("sys.stdin", io.StringIO("once"))
    assert command("generate", "m", "--prompt-file", "-", "-n", "5").out == whole


def test_a_chat_is_written_by_the_template(command, fake):
    pytest.importorskip("jinja2", reason="jinja2 is not installed: afterglow[text]")
    words = ("--prompt", "hi", "--system", "be", "--chat", "-n", "5")
    assert command("generate", "m", *words).out == text_of("be.hi.", 5) + "\n"


def test_the_same_as_json(command, fake):
    data = command("generate", "m", "--prompt", "once", "-n", "5", "--json").json
    assert data["text"] == text_of("once", 5)
    assert (len(data["tokens"]), data["prompt_tokens"], data["finish_reason"]) == (5, 5, "length")
    assert data["tokens_per_second"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (),
            "\nerror: a prompt is needed\n  help: write --prompt TEXT, or --prompt-file FILE with "
            "- for standard input",
        ),
        (
            ("--prompt", "a", "--system", "b"),
            "\nerror: --system is for chats\n  help: write --chat, too",
        ),
        (("--prompt", "a", "--top-p", "3"), "error: top_p must be above 0 and at most 1, got 3.0"),
        (("--prompt-file", "/nowhere"), "error: cannot read /nowhere: no such file or directory"),
    ],
)
def test_wrong_usage(command, fake, words, message):
    command.fails(2, message, "generate", "m", *words)


def test_a_model_that_is_not_there(command):
    finished = command("generate", "nowhere.gguf", "--prompt", "a")
    assert finished.status in (1, 2)
    assert finished.err.startswith("error: ")
    assert "nowhere.gguf" in finished.err


def test_an_onnx_model_without_a_tokenizer(command, tmp_path):
    onnx.save(runpy.run_path(str(LESSON))["language_model"](), tmp_path / "m.onnx")
    command.fails(
        2,
        "\nerror: the model has no tokenizer: it takes tokens, not texts\n"
        "  help: give one: Generator(model, tokenizer='tokenizer.json')",
        *("generate", str(tmp_path / "m.onnx"), "--prompt", "a", "--context", "100"),
    )
