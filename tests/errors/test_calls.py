"""Wrong calls from Python: the whole message, and what is accepted instead."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx")
IMAGE = np.zeros((1, 1, 8, 8), np.float32)


@pytest.fixture(scope="module")
def model() -> ag.CompiledModel:
    return ag.compile(DIGITS)


WRONG_CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda m: m(),
        """
        error: input 'image' is missing
          help: the model takes image: f32[1, 1, 8, 8]
        """,
    ),
    (
        lambda m: m(None),
        """
        error: input 'image' is None
          help: it takes image: f32[1, 1, 8, 8]
        """,
    ),
    (
        lambda m: m({"picture": IMAGE}),
        """
        error: the model has no input 'picture'
          help: it has image
        """,
    ),
    (
        lambda m: m(image={"image": IMAGE}),
        """
        error: input 'image' takes an array, got a dictionary
          help: give inputs by name as model(NAME=array) or model({'NAME': array})
        """,
    ),
    (
        lambda m: m(IMAGE, IMAGE),
        """
        error: the model takes 1 input, got 2
          help: it takes image
        """,
    ),
    (
        lambda m: m(IMAGE.astype(np.float64)),
        """
        error: input 'image' holds float32, got float64
          help: convert it: array.astype('float32')
        """,
    ),
    (
        lambda m: m([[1.0, 2.0], [3.0]]),
        """
        error: input 'image' takes an array, and this list cannot be converted to one
          help: it takes image: f32[1, 1, 8, 8]
        """,
    ),
    (lambda m: m(3.0), "error: input 'image: f32[1, 1, 8, 8]' does not take an array of shape ()"),
    (
        lambda m: m.run(None, IMAGE),
        """
        error: inputs by name must be a dictionary, got a ndarray
          help: write model.run(None, {'image': …})
        """,
    ),
    (
        lambda m: m.run(3, {"image": IMAGE}),
        """
        error: the names of outputs must be a list, got 3
          help: None returns all of them
        """,
    ),
    (
        lambda m: m.run("p", {"image": IMAGE}),
        """
        error: the model has no output 'p'
          help: it has probabilities
        """,
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS)
def test_a_wrong_call(model: ag.CompiledModel, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ag.UsageError) as caught:
        call(model)
    assert str(caught.value) == inspect.cleandoc(message)


WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    (
        {"dims": 8},
        """
        error: dims must be a dictionary with names as keys, got 8
          help: write dims={'NAME': 8}
        """,
    ),
    (
        {"shapes": (1, 2)},
        """
        error: shapes must be a dictionary with names as keys, got (1, 2)
          help: write shapes={'NAME': (1, 3, 224, 224)}
        """,
    ),
    (
        {"values": [1]},
        """
        error: values must be a dictionary with names as keys, got [1]
          help: write values={'NAME': array}
        """,
    ),
    (
        {"shapes": {"image": 8}},
        """
        error: the shape of input 'image' cannot be 8
          help: write shapes={'image': (1, 3, 224, 224)}
        """,
    ),
    ({"shapes": {"nosuch": (1,)}}, "error: the model has no input 'nosuch': it has 'image'"),
    ({"dims": {"nosuch": 1}}, "error: no input has a dimension 'nosuch'"),
    (
        {"tune": math.nan},
        """
        error: cannot tune for nan s on backend 'cpu'
          help: give seconds above 0, and the default backend
        """,
    ),
    (
        {"tune": math.inf},
        """
        error: cannot tune for inf s on backend 'cpu'
          help: give seconds above 0, and the default backend
        """,
    ),
    (
        {"target": None},
        """
        error: target must be a name, got None
          help: write target='host'
        """,
    ),
    (
        {"target": "x86_64-unknown-linux-gnu+nosuch"},
        """
        error: no CPU of x86_64 is called 'nosuch'
          help: give a name that LLVM knows, or 'generic', and features
        """,
    ),
    (
        {"max_arena": -5},
        """
        error: -5 is not an amount of memory
          help: write 256KiB, 1MB, or a number of bytes
        """,
    ),
    (
        {"max_arena": 1.5},
        """
        error: 1.5 is not an amount of memory
          help: write 256KiB, 1MB, or a number of bytes
        """,
    ),
    (
        {"backend": 3},
        """
        error: backend must be a name or a list of devices, got 3
          help: write backend='cpu'
        """,
    ),
    (
        {"cache": 5},
        """
        error: the cache cannot be 5
          help: give a folder, True for the default one, or False
        """,
    ),
]


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS)
def test_a_wrong_option(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ag.UsageError) as caught:
        ag.compile(DIGITS, **options)
    assert str(caught.value) == inspect.cleandoc(message)


def test_a_dictionary_gives_inputs_by_name(model: ag.CompiledModel) -> None:
    np.testing.assert_array_equal(model({"image": IMAGE}), model(IMAGE))


def test_one_output_may_be_asked_for_by_its_name(model: ag.CompiledModel) -> None:
    (found,) = model.run("probabilities", {"image": IMAGE})
    np.testing.assert_array_equal(found, model(IMAGE))


def test_lists_of_python_have_the_element_type_of_the_input(model: ag.CompiledModel) -> None:
    np.testing.assert_array_equal(model(IMAGE.tolist()), model(IMAGE))
    np.testing.assert_array_equal(model(IMAGE.astype(int).tolist()), model(IMAGE))


def test_numbers_of_python_that_an_integer_input_cannot_hold() -> None:
    text = """
        func @main(%x: u8[2]) {
          %y = add(%x, %x) : u8[2]
          return %y
        }
    """
    double = ag.compile(ag.parse_module(inspect.cleandoc(text)), backend="interpreter")
    assert double([1, 2]).tolist() == [2, 4]
    with pytest.raises(ag.UsageError, match="holds uint8, but a number is out of its range"):
        double([1, 300])
    with pytest.raises(ag.UsageError, match="holds uint8, got float64"):
        double([1.5, 2])


def test_a_model_says_what_it_is(model: ag.CompiledModel, tmp_path: Path) -> None:
    first, second = repr(model).splitlines()
    assert first.startswith("<CompiledModel digits.onnx, backend cpu, target host, ")
    assert first.endswith(" bytes")
    assert second == "  image: f32[1, 1, 8, 8] -> probabilities: f32[1, 10]>"
    model.save(tmp_path / "digits.agc")
    loaded = repr(ag.load(tmp_path / "digits.agc"))
    assert loaded.startswith(f"<CompiledModel loaded from {tmp_path / 'digits.agc'}, ")


def test_a_run_for_which_there_is_no_memory(
    model: ag.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(model.versions()[0]), "run", exhausted)
    with pytest.raises(ag.AfterglowError, match=r"not enough memory for a run, which takes \d"):
        model(IMAGE)
