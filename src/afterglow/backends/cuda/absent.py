"""A program for a GPU that is not here: it can be saved and looked at, but not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from afterglow.backends.cuda.needs import footprint_of
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.device import DeviceBuffer, Footprint
from afterglow.support.errors import AfterglowError
from afterglow.types import Array

if TYPE_CHECKING:
    from concurrent.futures import Future


class AbsentExecutable:
    """A compiled program whose runs say why there are none."""

    def __init__(self, artifact: Artifact, why: AfterglowError) -> None:
        self.artifact = artifact
        self._why = why

    @property
    def footprint(self) -> Footprint:
        """Its constants, and the machine code of its kernels."""
        return footprint_of(self.artifact)

    def run(self, inputs: Sequence[Array], states: Mapping[str, DeviceBuffer]) -> list[Array]:
        """Raise what is missing."""
        raise self._why

    def start(
        self,
        inputs: Sequence[DeviceBuffer],
        outputs: Sequence[DeviceBuffer],
        states: Mapping[str, DeviceBuffer],
    ) -> Future[None]:
        """Raise what is missing."""
        raise self._why
