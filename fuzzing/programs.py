"""Random programs: optimised or not, on either backend, they compute what the ops define."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

from hypothesis import HealthCheck, Phase, given, seed, settings

import afterglow as ag
from afterglow.graph import Function, run_function
from afterglow.testing.graphs import functions_of_floats
from fuzzing.compare import compare
from fuzzing.hostile import mnemonics
from fuzzing.kind import Kind
from fuzzing.program import example_of, unpacked
from fuzzing.shorten import shorter_programs
from tests.transforms.rewriting import random_inputs

WAYS = [(backend, optimize) for backend in ("interpreter", "cpu") for optimize in (False, True)]


class Programs(Kind):
    """Graphs that hypothesis draws, others for each seed."""

    name: ClassVar[str] = "programs"
    suffix: ClassVar[str] = ".npz"
    about: ClassVar[str] = "random programs, on both backends, optimised and not"
    block: ClassVar[int] = 20

    def make(self, seed: int) -> bytes:
        """A random program; those of a block of seeds are drawn together."""
        functions = drawn(seed // self.block, self.block)
        function = functions[seed % len(functions)]
        names = [placeholder.name for placeholder in function.inputs]
        return example_of(
            function.module, dict(zip(names, random_inputs(function, seed), strict=True))
        ).packed()

    def check(self, example: bytes) -> None:
        """All ways of running it agree with the definition of its ops."""
        program = unpacked(example)
        main = program.module().main
        want = run_function(main, [program.inputs[x.name] for x in main.inputs])
        for backend, optimize in WAYS:
            model = ag.compile(
                program.module(),
                cache=False,
                threads=1,
                backend=backend,
                optimize=optimize,
                verify=True,
            )
            what = f"{backend} {'optimised' if optimize else 'as it is'}"
            compare(what, model.run(None, program.inputs), want)

    def smaller(self, example: bytes) -> Iterator[bytes]:
        """Programs that end earlier."""
        return (program.packed() for program in shorter_programs(unpacked(example)))

    def label(self, example: bytes) -> str:
        """The ops."""
        return " ".join(sorted(set(mnemonics(unpacked(example).text))))


@lru_cache(2)
def drawn(number: int, count: int) -> list[Function]:
    """So many random functions, the same for the same number; all of their results are outputs."""
    found: list[Function] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(functions_of_floats(most_steps=25))
    def draw(function: Function) -> None:
        unused = [node.result for node in function.nodes if not node.result.uses]
        for index, value in enumerate(unused):
            function.output(f"unused{index}", value)
        found.append(function)

    draw()
    return found
