"""Files of ops on quantized integers, and whether they give the bits of LiteRT's reference kernels.

A file has many ops, each with outputs of its own. They are run by the interpreter, of which the
tests of ops say that machine code gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import afterglow as ag
from tests.frontends.tflite.build import Array, Graph, Operator, Tensor, write


class Forms:
    """Ops of a file as they are being added."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.feeds: dict[str, Array] = {}
        self.results: list[str] = []

    def tensor(
        self, dtype: str, shape: Sequence[int], scale: Any = (), zero_point: int = 0, **more: Any
    ) -> str:
        """Add a tensor; returns its name."""
        scales = [float(each) for each in np.atleast_1d(scale)]
        points = [zero_point] * len(scales)
        name = f"t{len(self.tensors)}"
        self.tensors.append(Tensor(name, shape, dtype, scale=scales, zero_point=points, **more))
        return name

    def input(self, dtype: str, shape: Sequence[int], scale: Any = (), zero_point: int = 0) -> str:
        """Add an input; it is fed numbers of all sizes."""
        name = self.tensor(dtype, shape, scale, zero_point)
        self.feeds[name] = self.numbers(dtype, shape)
        return name

    def numbers(self, dtype: str, shape: Sequence[int]) -> Array:
        """Any numbers of a type; floats about zero."""
        if dtype == "float32":
            return self.rng.standard_normal(shape).astype(dtype)
        limits = np.iinfo(dtype)
        return self.rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)

    def constant(self, data: Any, scale: Any = (), zero_point: int = 0, *, axis: int = 0) -> str:
        """Add a tensor with elements."""
        array = np.asarray(data)
        return self.tensor(array.dtype.name, array.shape, scale, zero_point, data=array, axis=axis)

    def op(
        self,
        op: str,
        inputs: Sequence[str],
        results: str | Sequence[str],
        options: str = "",
        **fields: Any,
    ) -> None:
        """Add an op; its results are outputs."""
        outputs = [results] if isinstance(results, str) else list(results)
        kind = f"{options}Options" if options else ""
        self.operators.append(Operator(op, inputs, outputs, kind, fields))
        self.results += outputs

    def file(self) -> bytes:
        """The file."""
        graph = Graph(self.tensors, self.operators, list(self.feeds), self.results)
        return write(graph)

    def run(self, tmp_path: Path, backend: str = "interpreter") -> dict[str, Array]:
        """What the file gives, by name."""
        (tmp_path / "model.tflite").write_bytes(self.file())
        optimize = backend != "interpreter"
        model = ag.compile(tmp_path / "model.tflite", backend=backend, optimize=optimize)
        return dict(zip(self.results, model.run(self.results, self.feeds), strict=True))

    def check(self, tmp_path: Path, backend: str = "interpreter") -> None:
        """Compare every output with the reference kernels: their bits must be equal."""
        got, wanted = self.run(tmp_path, backend), run_reference(self.file(), self.feeds)
        makers = {name: each for each in self.operators for name in each.outputs}
        for name, want in wanted.items():
            assert got[name].dtype == want.dtype, makers[name]
            np.testing.assert_array_equal(got[name], want, err_msg=str(makers[name]))


def run_reference(data: bytes, feeds: dict[str, Array]) -> dict[str, Array]:
    """What LiteRT's reference kernels make of inputs, by name."""
    (results,) = run_steps(data, [feeds])
    return results


def run_steps(data: bytes, feeds: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
    """The same of several inputs one after the other, with the state that each leaves."""
    kind = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    details, found = interpreter.get_output_details(), []
    for feed in feeds:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], feed[detail["name"]])
        interpreter.invoke()
        found.append({each["name"]: interpreter.get_tensor(each["index"]) for each in details})
    return found
