"""Profiles: saved, loaded, merged, and refused for other models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterglow.graph import Builder, Function, Module
from afterglow.ops.activation import Relu
from afterglow.ops.linear import MatMul
from afterglow.quantization.observation import Observation
from afterglow.quantization.profile import ModelIdentity, Profile
from afterglow.support.errors import UsageError
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from tests.quantization.checks import assert_same

X = np.random.default_rng(5).standard_normal((6, 20)).astype(np.float32)


def module_of(width: int = 3, *, weight: float = 1.0, relu: bool = True, name: str = "x") -> Module:
    f = Function("main")
    b = Builder(f)
    x = f.input(name, TensorType(f32, (2, width)))
    y = b.emit(MatMul(), x, b.constant(np.full((width, 4), weight, np.float32)))
    f.output("y", b.emit(Relu(), y) if relu else y)
    return f.module


def profile_of(module: Module | None = None, *, samples: int = 1, title: str = "m.onnx") -> Profile:
    identity = ModelIdentity.of(module or module_of(), title)
    found = {"a": Observation.of(X), "b": Observation.of(X[0])}
    return Profile(identity, samples, found, {"a": "first", "b": ""}, ("NonZero (nz)",))


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    profile, path = profile_of(), tmp_path / "m.profile.json"
    profile.save(path)
    loaded = Profile.load(path)
    assert loaded.model == profile.model
    assert (loaded.samples, loaded.origins) == (profile.samples, profile.origins)
    assert loaded.left_out == profile.left_out
    for name, observation in profile.observations.items():
        assert_same(loaded.observations[name], observation, tolerance=0)
    assert loaded.data() == profile.data()


def test_a_file_can_be_read_by_people(tmp_path: Path) -> None:
    profile_of().save(tmp_path / "p.json")
    lines = (tmp_path / "p.json").read_text().splitlines()
    assert lines[:4] == ["{", ' "format": "afterglow profile",', ' "version": 2,', ' "model": {']
    assert '   "node": "first",' in lines
    assert f'   "low": {float(X.min())!r},' in lines
    entry = json.loads("\n".join(lines))["values"]["b"]
    assert len(entry["counts"]) < 4096
    assert 0 not in (entry["counts"][0], entry["counts"][-1])


def test_layers_to_keep_have_a_precision_and_those_of_the_first_version_are_in_floats() -> None:
    made = replace(profile_of(), keep=("a",), int16=("b",))
    assert json.loads(made.text)["keep"] == {"b": "int16", "a": "float"}
    read = Profile.parse(made.text)
    assert (read.keep, read.int16) == (("a",), ("b",))
    assert read.merge(replace(read, int16=("c",))).int16 == ("b", "c")
    data = {**json.loads(made.text), "version": 1, "keep": ["a"]}
    assert Profile.parse(json.dumps(data)).kept == {"a": "float"}
    wrong = {**json.loads(made.text), "keep": {"a": "int4"}}
    with pytest.raises(UsageError, match=r"is damaged: keep.a must be float or int16"):
        Profile.parse(json.dumps(wrong))


def test_a_profile_replaces_the_one_before_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    profile_of(samples=1).save(path)
    profile_of(samples=2).save(str(path))
    assert Profile.load(str(path)).samples == 2
    assert [file.name for file in tmp_path.iterdir()] == ["p.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "p.json"
    with pytest.raises(UsageError, match=f"cannot write {path}: no such file or directory"):
        profile_of().save(path)
    with pytest.raises(UsageError, match=f"cannot read {path}: no such file or directory"):
        Profile.load(path)


def test_profiles_of_a_model_merge() -> None:
    one, other = profile_of(samples=2), profile_of(samples=3)
    merged = one.merge(other)
    assert merged.samples == 5
    assert_same(merged.observations["a"], Observation.of(X).merge(Observation.of(X)))
    assert merged.left_out == one.left_out


def test_profiles_of_different_models_do_not_merge() -> None:
    with pytest.raises(UsageError) as caught:
        profile_of().merge(profile_of(module_of(weight=2.0), title="n.onnx"))
    assert str(caught.value) == (
        "error: the profiles are of different models\n"
        "  m.onnx differs from n.onnx\n"
        "    the same inputs and ops, but other weights, attributes or connections\n"
        "  help: make a profile of this model, with afterglow.profile or afterglow quantize"
    )


def test_names_make_no_other_model() -> None:
    profile_of().check_same(module_of())


@pytest.mark.parametrize(
    ("module", "differences"),
    [
        (module_of(5), ["input x: f32[2, 3], not x: f32[2, 5]"]),
        (module_of(relu=False), ["relu: 1 of its nodes, not 0"]),
        (module_of(weight=3.0, name="z"), ["input x: f32[2, 3], not z: f32[2, 3]"]),
    ],
)
def test_the_difference_to_another_model_is_named(module: Module, differences: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        profile_of().check_same(module, "n.onnx")
    assert caught.value.what == "the profile is of another model, m.onnx"
    assert caught.value.where == "m.onnx differs from n.onnx"
    assert list(caught.value.excerpt) == differences


def damaged(*path: str, value: Any) -> str:
    """The text of a profile in which an entry is another one; None leaves it out."""
    data = profile_of().data()
    entry: Any = data
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    if value is None:
        del entry[path[-1]]
    return json.dumps(data)


MAKE = "make the profile again, with afterglow quantize"
WRITES = "afterglow quantize writes profiles"


@pytest.mark.parametrize(
    ("text", "what", "help"),
    [
        ("", "is not a profile: it is not JSON", WRITES),
        ("[1]", "is not a profile: it holds no object", WRITES),
        ("{}", "is not a profile: it does not say format: 'afterglow profile'", WRITES),
        (
            damaged("version", value=7),
            "has version 7 of the format, not 2",
            "make the profile again, with this version of Afterglow",
        ),
        (damaged("values", value=[]), "is damaged: values must be an object", MAKE),
        (
            damaged("samples", value=-1),
            "is damaged: samples must be a whole number, not below 0",
            MAKE,
        ),
        (
            damaged("values", "a", "low", value="0"),
            "is damaged: values.a.low must be a finite number",
            MAKE,
        ),
        (
            damaged("values", "a", "low", value=1e9),
            "is damaged: values.a.low must be at most high",
            MAKE,
        ),
        (
            damaged("values", "a", "high", value=float("nan")),
            "is damaged: values.a.high must be a finite number",
            MAKE,
        ),
        (
            damaged("values", "a", "reach", value=3.0),
            "is damaged: values.a.reach must be a power of two",
            MAKE,
        ),
        (
            damaged("values", "a", "counts", value=[1, -2]),
            "is damaged: values.a.counts must be a list of whole numbers, not below 0",
            MAKE,
        ),
        (
            damaged("values", "a", "first_bin", value=4096),
            "is damaged: values.a.counts must be of 4096 bins at most, with those before first_bin",
            MAKE,
        ),
        (
            damaged("values", "a", "channels", "mean", value=[]),
            "is damaged: values.a.channels.low must be as long as high and mean",
            MAKE,
        ),
        (damaged("model", "hash", value=None), "is damaged: model.hash must be a text", MAKE),
        (
            damaged("left_out", value="all"),
            "is damaged: left_out must be a list of texts",
            MAKE,
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, text: str, what: str, help: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        Profile.load(path)
    assert caught.value.what == f"{path} {what}"
    assert caught.value.help == help


def test_the_line_of_broken_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{\n "format" 3\n}')
    with pytest.raises(UsageError) as caught:
        Profile.load(path)
    assert caught.value.where == "line 2: expecting ':' delimiter"


def test_a_profile_says_what_it_is() -> None:
    assert repr(profile_of(samples=3)) == "<Profile of m.onnx: 2 values, 3 samples>"
