"""ONNX language models in all forms: the same tokens as ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from afterglow.runtime import TensorInfo
from afterglow.support.errors import AfterglowError
from afterglow.text import Generator
from afterglow.text.past_form import PastForm, find_pairs
from afterglow.types.dtype import f32, i64
from tests.test_startup import COMPILER, imported
from tests.text import onnx_models as models

CONTEXT = 128
PROMPT = [3, 14, 15, 9, 2, 6]
FORMS: dict[str, Callable[[], onnx.ModelProto]] = {
    "exported": models.exported_model,
    "genai": models.genai_model,
    "scattered": lambda: models.scattered_model(CONTEXT),
}


def expected(proto: onnx.ModelProto, prompt: Sequence[int], count: int) -> list[int]:
    """Greedy tokens of ONNX Runtime, which is handed the past in each run."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    inputs = {each.name: each.shape for each in session.get_inputs()}
    caches = {name: shape for name, shape in inputs.items() if len(shape) == 4}
    past = {
        name: np.zeros((1, models.SHARED, room if isinstance(room, int) else 0, models.HEAD), "f4")
        for name, (_, _, room, _) in caches.items()
    }
    feed, start, found = list(prompt), 0, []
    for _ in range(count):
        end = start + len(feed)
        known = {
            "input_ids": np.array([feed]),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(start, end)[None],
            "write_indices": np.array([start]),
            "nonpad_kv_seqlen": np.array([end]),
        }
        given = {name: array for name, array in known.items() if name in inputs}
        logits, *presents = session.run(None, {**given, **past})
        past = dict(zip(past, presents, strict=True))
        feed, start = [int(logits[0, -1].argmax())], end
        found += feed
    return found


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> tuple[onnx.ModelProto, Generator]:
    proto = FORMS[request.param]()
    return proto, Generator(proto, context=CONTEXT, sequences=2)


def test_greedy_tokens_are_those_of_onnx_runtime(form: tuple[onnx.ModelProto, Generator]) -> None:
    proto, generator = form
    wanted = expected(proto, PROMPT, 100)
    assert list(generator.generate(PROMPT, 100).tokens) == wanted
    drafted = Generator(generator.decoder, draft="ngram").generate(PROMPT, 100)
    assert list(drafted.tokens) == wanted
    assert drafted.accepted > 0


def test_sequences_and_prefixes_are_kept_apart(form: tuple[onnx.ModelProto, Generator]) -> None:
    proto, generator = form
    prompts = [PROMPT, [7, 1], [*PROMPT, 4, 4]]
    wanted = [expected(proto, prompt, 8) for prompt in prompts]
    assert [list(g.tokens) for g in generator.generate(prompts, 8)] == wanted
    generator.keep_prefix(PROMPT)
    assert [list(g.tokens) for g in generator.generate(prompts[::-1], 8)] == wanted[::-1]


def test_a_full_context_ends_the_text(form: tuple[onnx.ModelProto, Generator]) -> None:
    _, generator = form
    found = generator.generate(PROMPT, None)
    assert (len(found.tokens), found.finish_reason) == (CONTEXT - len(PROMPT) + 1, "context")


def test_a_saved_model_generates_the_same(tmp_path: Path) -> None:
    proto = models.exported_model()
    first = Generator(proto, context=CONTEXT)
    first.decoder.models[0].save(tmp_path / "m.agc")
    program = f"from afterglow.text import Generator\nGenerator(sys.argv[1]).generate({PROMPT}, 3)"
    assert not imported(program, tmp_path / "m.agc", of=(*COMPILER, "jinja2", "tokenizers"))
    again = Generator(tmp_path / "m.agc", sequences=2)
    assert again.generate(PROMPT, 9).tokens == first.generate(PROMPT, 9).tokens
    assert again.context == CONTEXT


def past(name: str, *shape: int | str) -> TensorInfo:
    return TensorInfo(name, f32, shape)


@pytest.mark.parametrize(
    ("taken", "given"),
    [
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_values.11.value", "present_key_values.11.value"),
        ("past_key_values_0_key", "present_key_values_0_key"),
        ("past_key_0", "present_key_0"),
        ("past.0.k", "present.0.k"),
        ("key_cache.3", "updated_key_cache.3"),
        ("k_cache_1", "k_cache_out_1"),
        ("cache_0", "new_cache_0"),
    ],
)
def test_a_past_is_found_by_its_name(taken: str, given: str) -> None:
    shape, longer = (1, 2, "past", 4), (1, 2, "total", 4)
    others = [past("logits", 1, "s", 50), past("present.7.key", *longer)]
    ((one, other),) = find_pairs([past(taken, *shape)], [*others, past(given, *longer)])
    assert (one.name, other.name) == (taken, given)


def test_what_differs_in_type_is_no_past() -> None:
    wrong = [past("present.0", 1, 3, "total", 4), TensorInfo("present.0", i64, (1, 2, "t", 4))]
    assert not find_pairs([past("past.0", 1, 2, "past", 4)], wrong)


def test_dimensions_of_the_forms() -> None:
    inputs = [
        TensorInfo("input_ids", i64, ("b", "s")),
        TensorInfo("attention_mask", i64, ("b", "t")),
        past("past.0", "b", 2, "p", 4),
    ]
    found = PastForm.of(
        inputs, [past("logits", "b", "s", 9), past("present.0", "b", 2, "t", 4)], 99
    )
    assert found.state == {"past.0": "present.0"}
    assert found.dims == {"b": 1, "s": (1, 64), "p": (0, 98), "t": "p + s"}


def test_a_model_that_is_no_language_model(tmp_path: Path) -> None:
    x, y = (onnx.helper.make_tensor_value_info(n, 1, (2, 3)) for n in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "relu.onnx"
    onnx.save(onnx.helper.make_model(graph, ir_version=10), path)
    with pytest.raises(AfterglowError) as caught:
        Generator(path)
    assert str(caught.value) == (
        "error: the model is not a language model that keeps its past\n"
        "    inputs  x: f32[2, 3]\n"
        "    outputs y: f32[2, 3]\n"
        "  help: give a GGUF file, a folder of Hugging Face, or ONNX with input_ids, "
        "past_key_values and present, exported with its cache"
    )
