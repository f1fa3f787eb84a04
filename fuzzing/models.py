"""Random models of NNSmith: the same numbers from ONNX Runtime, the interpreter and the CPU."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime as ort

import afterglow as ag
from fuzzing.compare import compare
from fuzzing.corpus import Corpus, Example, unpacked
from fuzzing.excuses import (
    Run,
    in_single_floats,
    is_as_defined,
    is_infinite_inside,
    is_unstable,
)
from fuzzing.kind import Kind, Mismatch, Setup, Skipped
from fuzzing.reduce import ops_of, smaller_models


class Models(Kind):
    """Valid models, made by NNSmith now or before."""

    name: ClassVar[str] = "models"
    suffix: ClassVar[str] = ".zip"
    about: ClassVar[str] = "random models, compared with ONNX Runtime and the interpreter"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.corpus = None if setup.corpus is None else Corpus(setup.corpus)
        self._generate: Callable[[int], Example] | None = None

    @classmethod
    def prepare(cls, setup: Setup) -> None:
        """Look whether models can be had."""
        if setup.corpus is None and importlib.util.find_spec("nnsmith") is None:
            sys.exit("models need NNSmith: pip install 'afterglow[fuzz]', or give a --corpus")

    def make(self, seed: int) -> bytes:
        """The model of the corpus with this number, or a new one."""
        if self.corpus is not None:
            return self.corpus[seed % len(self.corpus)].packed()
        if self._generate is None:
            # an import that needs NNSmith and PyTorch, which stored models do without
            self._generate = importlib.import_module("fuzzing.generate").make_generator()
        return self._generate(seed).packed()

    def check(self, example: bytes) -> None:
        """Three engines agree on all outputs, unless there is a reason why they need not."""
        whole = unpacked(example)
        try:
            check_model(whole.model, whole.inputs)
        except Mismatch:
            single = in_single_floats(whole.model)
            if single is None:
                raise
            # a compiled model rounds to float16 less often: the same with nothing to round
            check_model(single, {name: _widened(array) for name, array in whole.inputs.items()})

    def label(self, example: bytes) -> str:
        """The ops."""
        return ops_of(unpacked(example).model)

    def smaller(self, example: bytes) -> Iterator[bytes]:
        """Models that end earlier."""
        whole = unpacked(example)
        for model in smaller_models(whole.model):
            names = {info.name for info in onnx.load_from_string(model).graph.input}
            inputs = {name: array for name, array in whole.inputs.items() if name in names}
            yield Example(whole.name, model, inputs).packed()


def run_cpu(model: bytes, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of the compiled model."""
    return ag.compile(model, cache=False, threads=1).run(None, inputs)


def run_interpreter(model: bytes, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs as the ops define them, without any optimisation."""
    compiled = ag.compile(model, cache=False, backend="interpreter", optimize=False)
    return compiled.run(None, inputs)


def run_reference(model: bytes, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of ONNX Runtime, without its optimisations."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        outputs: list[Any] = session.run(None, dict(inputs))
    except Exception as error:
        raise Skipped(f"ONNX Runtime refuses it: {error}") from None
    return outputs


def check_model(model: bytes, inputs: Mapping[str, Any]) -> None:
    """Compare the CPU with the interpreter, and with ONNX Runtime where that has all kernels."""
    ours, defined = run_cpu(model, inputs), run_interpreter(model, inputs)
    words = ops_of(model)
    _agree(f"cpu and interpreter {words}", ours, defined, model, inputs, run_interpreter)
    try:
        reference = run_reference(model, inputs)
    except Skipped:
        return
    _agree(f"cpu and reference {words}", ours, reference, model, inputs, run_reference)


def _agree(
    what: str, ours: list[Any], theirs: list[Any], model: bytes, inputs: Mapping[str, Any], run: Run
) -> None:
    """Compare two results; a difference that rounding, NaN or infinity explains is none."""
    try:
        compare(what, ours, theirs)
    except Mismatch:
        if is_unstable(theirs, model, inputs, run):
            raise Skipped("a change in the last bits of inputs or weights changes it") from None
        if run is run_reference and is_infinite_inside(model, inputs, run):
            raise Skipped("a value on the way is NaN or infinite") from None
        if run is run_reference and is_as_defined(ours, model, inputs):
            raise Skipped("ONNX's reference implementation agrees, ONNX Runtime does not") from None
        raise


def _widened(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype == np.float16 else array
