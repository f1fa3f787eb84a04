"""A program in the context of a GPU, which its runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from afterglow.backends.cuda.graphs import HostPart
from afterglow.backends.cuda.launches import Launch, LoadedKernels, launches_of
from afterglow.backends.cuda.session import DeviceMemory, Session
from afterglow.backends.launched.memories import CONSTANTS
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.native.convention import alarm_bytes
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Interface, TensorType

if TYPE_CHECKING:
    from afterglow.backends.interpreter.hosted import HostedProgram


@dataclass(frozen=True)
class LoadedProgram:
    """Kernels and constants on a GPU, and what is to be done with them in which order."""

    session: Session
    interface: Interface
    manifest: Mapping[str, Any]
    kernels: LoadedKernels
    constants: DeviceMemory
    checks: Sequence[CheckedIndex]
    """What alarms are about; empty if nobody asks for them."""
    host: HostedProgram | None

    @staticmethod
    def load(session: Session, artifact: Artifact, host: HostedProgram | None) -> LoadedProgram:
        """Load kernels, and copy constants to the GPU."""
        manifest = artifact.manifest
        data = np.frombuffer(artifact.sections[CONSTANTS], np.uint8)
        kernels = LoadedKernels(session, manifest["kernels"], artifact.sections)
        constants = session.allocate(data.nbytes)
        session.upload(constants.address, data)
        session.outputs.expect(port.type.nbytes for port in artifact.interface.outputs)
        checks = [] if manifest["unchecked"] else manifest["checks"]
        return LoadedProgram(
            session,
            artifact.interface,
            manifest,
            kernels,
            constants,
            [CheckedIndex.restore(check) for check in checks],
            host,
        )

    @property
    def arena_bytes(self) -> int:
        """Bytes of the intermediate results of a run."""
        return int(self.manifest["arena_bytes"])

    @property
    def alarm_bytes(self) -> int:
        """Bytes of alarms; kernels raise them even if nobody asks."""
        return alarm_bytes(len(self.manifest["checks"]))

    @cached_property
    def launches(self) -> list[Launch | None]:
        """The launch of each part; None if the host runs it."""
        return launches_of(self.manifest, self.kernels)

    @cached_property
    def segments(self) -> list[list[Launch] | HostPart]:
        """Stretches of launches, and parts of the host between them; none of either is empty."""
        found: list[list[Launch] | HostPart] = []
        for on_host, parts in groupby(enumerate(self.launches), lambda each: each[1] is None):
            if on_host:
                found += [HostPart(number) for number, _ in parts]
            else:
                found.append([launch for _, launch in parts if launch is not None])
        return found

    @cached_property
    def outputs(self) -> list[tuple[TensorType, int]]:
        """The type of each output, and its bytes."""
        return [(port.type, port.type.nbytes) for port in self.interface.outputs]

    @cached_property
    def is_asynchronous(self) -> bool:
        """Whether a run may go on when the call has returned: the host has nothing to do or see."""
        return self.host is None and not self.checks
