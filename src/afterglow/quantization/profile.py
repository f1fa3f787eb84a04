"""Profiles: what runs of a model observed, tied to the model by a structural hash.

A profile is saved as JSON that a person can read. Its numbers are exact: what is loaded is what was
saved. Of a histogram the bins are saved from the first that is not empty to the last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.graph import Module, Node
from afterglow.graph.digest import structural_hash
from afterglow.graph.host_op import HostOp
from afterglow.quantization.json_text import JsonObject, format_json
from afterglow.quantization.observation import BINS, ChannelRanges, Observation
from afterglow.quantization.observe import merge_observations
from afterglow.support.atomic_file import replace_file
from afterglow.support.digest import digest_of_texts
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import checked_path, writing
from afterglow.support.regular_file import open_regular
from afterglow.types import Array

FORMAT = "afterglow profile"
VERSION = 2
READABLE = (1, VERSION)
"""Versions that are read: the first has no precision for layers to keep, which are in floats."""
KEPT_AS = ("float", "int16")


@dataclass(frozen=True)
class ModelIdentity:
    """What tells a model from others: a hash of its graph and weights; and what explains it."""

    title: str
    """The name of the model's file, for people."""
    hash: str
    inputs: Mapping[str, str]
    """Types of the inputs by name."""
    ops: Mapping[str, int]
    """How many nodes there are of each op."""

    @staticmethod
    def of(module: Module, title: str = "the model") -> ModelIdentity:
        """The identity of a model, given its graph as imported."""
        main = module.main
        counts = Counter(_op_name(node) for node in main.nodes)
        inputs = {placeholder.name: str(placeholder.type) for placeholder in main.inputs}
        return ModelIdentity(title, structural_hash(main), inputs, dict(sorted(counts.items())))

    def differences(self, other: ModelIdentity) -> list[str]:
        """What tells another model from this one, a line each; empty if they are the same."""
        if self.hash == other.hash:
            return []
        found = _different_inputs(self.inputs, other.inputs)
        for name in sorted({*self.ops, *other.ops}):
            own, others = self.ops.get(name, 0), other.ops.get(name, 0)
            if own != others:
                found.append(f"{name}: {own} of its nodes, not {others}")
        return found or ["the same inputs and ops, but other weights, attributes or connections"]


def _op_name(node: Node) -> str:
    return node.op.name if isinstance(node.op, HostOp) else node.op.mnemonic


def _different_inputs(own: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """The first difference between the inputs of two models, as a line."""
    if [*own.items()] == [*others.items()]:
        return []
    if len(own) != len(others):
        return [f"inputs {', '.join(own)}, not {', '.join(others)}"]
    pairs = zip(own.items(), others.items(), strict=True)
    (name, type), (other, of) = next((a, b) for a, b in pairs if a != b)
    return [f"input {name}: {type}, not {other}: {of}"]


@dataclass(frozen=True, eq=False)
class Profile:
    """What runs of a model on samples observed of its values: integers are chosen by it.

    `observations` are by the names of values in the optimised graph; `origins` name the nodes of
    the model that compute them, `left_out` nodes that could not be observed, `keep` layers that
    stay in floats and `int16` layers that read 16 bits, as a search by tolerance chose them.
    """

    model: ModelIdentity
    samples: int
    observations: Mapping[str, Observation]
    origins: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    int16: tuple[str, ...] = ()

    def save(self, path: str | Path) -> None:
        """Save it as a JSON file, which replaces an old one as a whole."""
        to = checked_path(path, "profile")
        with writing(to):
            replace_file(to, [self.text.encode()])

    @cached_property
    def text(self) -> str:
        """What a file holds of it: JSON."""
        return format_json(self.data())

    @cached_property
    def digest(self) -> str:
        """Equal for profiles that hold the same."""
        return digest_of_texts([self.text])

    @staticmethod
    def parse(text: str, label: str = "the profile") -> Profile:
        """The profile of such a text, which errors call `label`."""
        return _profile_of(JsonObject.parse(label, text))

    @staticmethod
    def load(path: str | Path) -> Profile:
        """Load a profile that was saved."""
        file = checked_path(path, "profile")
        try:
            with open_regular(file) as opened:
                text = opened.read().decode()
        except OSError as error:
            raise UsageError(f"cannot read {file}: {(error.strerror or '').lower()}") from None
        except UnicodeDecodeError:
            text = ""
        return Profile.parse(text, str(file))

    def merge(self, other: Profile) -> Profile:
        """The profile of the runs of this one, and then of another's of the same model."""
        self._check(other.model, "the profiles are of different models")
        return replace(
            self,
            samples=self.samples + other.samples,
            observations=merge_observations(self.observations, other.observations),
            origins={**self.origins, **other.origins},
            left_out=tuple(dict.fromkeys((*self.left_out, *other.left_out))),
            keep=tuple(dict.fromkeys((*self.keep, *other.keep))),
            int16=tuple(dict.fromkeys((*self.int16, *other.int16))),
        )

    def check_same(self, module: Module, title: str = "the model") -> None:
        """Raise if it is not a profile of this model, whose graph is given as imported."""
        other = ModelIdentity.of(module, title)
        self._check(other, f"the profile is of another model, {self.model.title}")

    def _check(self, other: ModelIdentity, what: str) -> None:
        differences = self.model.differences(other)
        if differences:
            raise UsageError(
                what,
                where=f"{self.model.title} differs from {other.title}",
                excerpt=differences,
                help="make a profile of this model, with afterglow.profile or afterglow quantize",
            )

    @property
    def kept(self) -> dict[str, str]:
        """The layers that are not of 8 bits, each with what it is instead: float or int16."""
        return {**dict.fromkeys(self.int16, "int16"), **dict.fromkeys(self.keep, "float")}

    def data(self) -> dict[str, Any]:
        """What a JSON file holds of it."""
        values = self.observations.items()
        return {
            "format": FORMAT,
            "version": VERSION,
            "model": {
                "title": self.model.title,
                "hash": self.model.hash,
                "inputs": dict(self.model.inputs),
                "ops": dict(self.model.ops),
            },
            "samples": self.samples,
            "left_out": list(self.left_out),
            "keep": self.kept,
            "values": {name: _data(x, self.origins.get(name, "")) for name, x in values},
        }

    def __repr__(self) -> str:
        values, samples = len(self.observations), self.samples
        return f"<Profile of {self.model.title}: {values} values, {samples} samples>"


def _data(observation: Observation, origin: str) -> dict[str, Any]:
    used = np.flatnonzero(observation.counts)
    first, last = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
    channels = observation.channels
    found = {
        "node": origin,
        "runs": observation.runs,
        "low": observation.low,
        "high": observation.high,
        "average_low": observation.average_low,
        "average_high": observation.average_high,
        "reach": observation.reach,
        "first_bin": first,
        "counts": observation.counts[first:last].tolist(),
    }
    if channels is not None:
        parts = {"low": channels.low, "high": channels.high, "mean": channels.mean}
        found["channels"] = {name: _shortest(part) for name, part in parts.items()}
    return found


def _shortest(numbers: Array) -> list[float]:
    """Numbers of type f32 as those of the fewest digits that are read as them."""
    return [float(str(number)) for number in numbers.astype(np.float32)]


def _profile_of(file: JsonObject) -> Profile:
    """The profile that a JSON file holds."""
    if file.data.get("format") != FORMAT:
        raise UsageError(
            f"{file.file} is not a profile: it does not say format: {FORMAT!r}",
            help="afterglow quantize writes profiles",
        )
    if file.data.get("version") not in READABLE:
        raise UsageError(
            f"{file.file} has version {file.data.get('version')!r} of the format, not {VERSION}",
            help="make the profile again, with this version of Afterglow",
        )
    model, values = file.object("model"), file.object("values")
    inputs, ops = model.object("inputs"), model.object("ops")
    identity = ModelIdentity(
        model.text("title"),
        model.text("hash"),
        {name: inputs.text(name) for name in inputs.data},
        {name: ops.count(name) for name in ops.data},
    )
    kept = _kept(file)
    return Profile(
        identity,
        file.count("samples"),
        {name: _observation(entry) for name, entry in values.objects()},
        {name: entry.text("node") for name, entry in values.objects()},
        file.texts("left_out"),
        *(tuple(name for name, kind in kept.items() if kind == each) for each in KEPT_AS),
    )


def _kept(file: JsonObject) -> dict[str, str]:
    """What layers are instead of 8 bits, by name."""
    if file.data["version"] == 1:
        return dict.fromkeys(file.texts("keep") if "keep" in file.data else (), "float")
    entry = file.object("keep")
    kept = {name: entry.text(name) for name in entry.data}
    for name, kind in kept.items():
        if kind not in KEPT_AS:
            raise entry.damaged(name, " or ".join(KEPT_AS))
    return kept


def _observation(entry: JsonObject) -> Observation:
    low, high, reach = (entry.number(key) for key in ("low", "high", "reach"))
    if low > high:
        raise entry.damaged("low", "at most high")
    if reach <= 0 or math.frexp(reach)[0] != 0.5:
        raise entry.damaged("reach", "a power of two")
    first, some = entry.count("first_bin"), entry.counts("counts")
    if first + len(some) > BINS:
        raise entry.damaged("counts", f"of {BINS} bins at most, with those before first_bin")
    counts = np.zeros(BINS, np.int64)
    counts[first : first + len(some)] = some
    average_low, average_high = entry.number("average_low"), entry.number("average_high")
    channels = _channels(entry.object("channels")) if "channels" in entry.data else None
    runs = entry.count("runs")
    return Observation(low, high, average_low, average_high, reach, counts, channels, runs)


def _channels(entry: JsonObject) -> ChannelRanges:
    parts = [np.array(entry.numbers(key), np.float32) for key in ("low", "high", "mean")]
    if len({part.shape for part in parts}) > 1:
        raise entry.damaged("low", "as long as high and mean")
    return ChannelRanges(*parts)
