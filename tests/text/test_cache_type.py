"""Language models that keep keys and values in fewer bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.runtime import CompiledModel
from afterglow.support.errors import UsageError
from afterglow.text import Generator
from afterglow.text.decoder import CachedDecoder
from tests.frontends.gguf.test_front_end import TOKENS, feed, rows, tiny
from tests.text.fakes import FakeDecoder

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
DIMS = {"context": 32, "sequences": 2, "tokens": (1, 8)}


def compiled(cache_type: str, **options: Any) -> CompiledModel:
    return ag.compile(tiny(), dims=DIMS, cache_type=cache_type, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny())
    return path


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_logits_are_near_those_of_floats_of_32_bits(backend: str) -> None:
    found = {}
    for name in ("float32", "float16", "int8"):
        model = compiled(name, backend=backend)
        prefill = model(*feed(TOKENS[:6]), rows(2, 5))
        found[name] = np.concatenate((prefill, model(*feed(TOKENS[6:7], 6), rows(0))))
    largest = np.abs(found["float32"]).max()
    for name, tolerance in (("float16", 1e-3), ("int8", 0.05)):
        error = np.abs(found[name] - found["float32"]).max()
        assert 0 < error < tolerance * largest


def test_states_take_less_memory() -> None:
    states = {
        name: compiled(name, backend="interpreter").compiled.states
        for name in ("float32", "float16", "int8")
    }
    sizes = {name: sum(s.type.nbytes for s in each.values()) for name, each in states.items()}
    assert sizes["float16"] * 2 == sizes["float32"]
    assert sizes["int8"] * 4 == sizes["float32"] * (16 + 4) / 16  # heads of 16, with a scale each
    assert str(states["float16"]["cache.0.keys"].type) == "f16[2, 2, 32, 16]"
    assert str(states["int8"]["cache.1.values"].type) == "i8[2, 2, 32, 16]"
    assert str(states["int8"]["cache.1.values.scales"].type) == "f32[2, 2, 32, 1]"


@pytest.mark.parametrize("name", ["float16", "int8"])
def test_sequences_take_over_rows_and_their_scales(name: str) -> None:
    decoder = CachedDecoder(compiled(name, backend="interpreter"))
    expected = decoder.step(*feed(TOKENS), rows(7))
    decoder.copy(0, 1, 6)
    np.testing.assert_allclose(decoder.step(*feed(TOKENS[6:], 6, 1), rows(1)), expected, atol=1e-5)
    saved = decoder.read(0, 6)
    other = CachedDecoder(compiled(name, backend="interpreter"))
    other.write(1, saved)
    np.testing.assert_allclose(other.step(*feed(TOKENS[6:], 6, 1), rows(1)), expected, atol=1e-5)


def test_a_generator_takes_the_option_and_shifts_its_context(path: Path, tmp_path: Path) -> None:
    made = Generator(path, context=16, cache_type="int8", backend="interpreter")
    made.save_prefix(TOKENS[:5], tmp_path / "prefix.npz")
    expected = made.generate(TOKENS, 20, stop_tokens=[], on_full="shift").tokens
    again = Generator(path, context=16, cache_type="int8", backend="interpreter")
    again.load_prefix(tmp_path / "prefix.npz")
    found = again.generate(TOKENS, 20, stop_tokens=[], on_full="shift").tokens
    assert found == expected
    assert len(found) == 20
    floats = Generator(path, context=16, backend="interpreter")
    with pytest.raises(UsageError, match="the prefix is of another model"):
        floats.load_prefix(tmp_path / "prefix.npz")


def test_what_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no cache type 'int4'"):
        compiled("int4")
    with pytest.raises(UsageError, match="has no caches of keys and values to keep in float16"):
        ag.compile(DIGITS, cache_type="float16", cache=False)
    model = compiled("float16", backend="interpreter")
    model.save(tmp_path / "tiny.agc")
    for each in (model, tmp_path / "tiny.agc"):
        with pytest.raises(UsageError, match="the model is compiled already"):
            Generator(each, cache_type="int8")


def test_the_cache_on_disk_tells_types_apart(tmp_path: Path) -> None:
    for name, dtype in (("float32", "f32"), ("int8", "i8"), ("float32", "f32")):
        model = compiled(name, backend="interpreter", cache=tmp_path)
        assert str(model.compiled.states["cache.0.keys"].type.dtype) == dtype


def test_a_generator_is_exported_as_c_files(path: Path, tmp_path: Path) -> None:
    made = Generator(path, context=16, cache_type="int8")
    made.export_bundle(tmp_path / "out", name="net")
    assert {"net_text.c", "net_text.h", "generate.c"} <= {p.name for p in tmp_path.glob("out/*")}
    with pytest.raises(UsageError, match="only models with caches as state"):
        Generator(FakeDecoder()).export_bundle(tmp_path / "out")
