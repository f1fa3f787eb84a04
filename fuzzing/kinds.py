"""The kinds of fuzzing, by name."""

from __future__ import annotations

import importlib

from fuzzing.kind import Kind

PLACES = {
    "models": "fuzzing.models.Models",
    "mutants": "fuzzing.mutants.Mutants",
    "hostile": "fuzzing.hostile.Hostile",
    "saved": "fuzzing.saved.Saved",
    "guarded": "fuzzing.guarded.GuardedBundles",
    "programs": "fuzzing.programs.Programs",
    "tflite": "fuzzing.tflite.Tflite",
    "caffe2": "fuzzing.caffe2.Caffe2",
    "pt2": "fuzzing.pt2.Pt2",
    "gguf": "fuzzing.gguf.Gguf",
    "huggingface": "fuzzing.gguf.HuggingFace",
}
"""Where each kind is defined: a worker imports one of them, and what that needs."""


def load_kind(name: str) -> type[Kind]:
    """The kind with a name, or at a place of its own."""
    module, _, attribute = PLACES.get(name, name).rpartition(".")
    kind: type[Kind] = getattr(importlib.import_module(module), attribute)
    return kind
