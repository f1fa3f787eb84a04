"""PyTorch's programs as sources."""

from __future__ import annotations

from torch.export import ExportedProgram

from afterglow.frontends.base import KeptState
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.torch.decompositions import decompositions
from afterglow.frontends.torch.translate import translate_program


class TorchSource(DefinedSource):
    """An exported program, taken apart into what is imported, and imported for each binding."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program.run_decompositions(decompositions())
        translated = translate_program(self.program)
        super().__init__(translated.model)
        self._state = translated.state

    @property
    def state(self) -> tuple[KeptState, ...]:
        """The buffers that the program writes."""
        return self._state
