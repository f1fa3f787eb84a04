"""Runs that are bound to memory: what they read and write is settled once, each run is a replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from afterglow.backends.cuda.arrays import CudaArray
from afterglow.backends.cuda.device_runs import (
    addresses_in_place,
    begin_run,
    known_array,
    new_result,
    stream_of,
)
from afterglow.backends.cuda.session import Session
from afterglow.backends.cuda.workspace import Workspace
from afterglow.runtime.device import DeviceBuffer
from afterglow.support.errors import DeviceError


class BoundCudaRun:
    """A run on the memory of some arrays, on one stream, whose outputs are always the same ones.

    What writes the arrays must be on the same stream, or have ended.
    """

    def __init__(
        self,
        execute: Callable[[Callable[[Workspace], None]], None],
        workspace: Workspace,
        arrays: Sequence[Any],
        states: Mapping[str, DeviceBuffer],
        stream: int | None,
    ) -> None:
        self._execute = execute
        self._session: Session = workspace.session
        self._states = states
        self._inputs = [*map(known_array, arrays)]
        """They keep the memory alive."""
        self.stream = stream_of(self._inputs) if stream is None else stream
        program = workspace.program
        ports = program.interface.inputs
        places = addresses_in_place(workspace, ports, self._inputs, self.stream)
        self.outputs: list[CudaArray] = [
            new_result(workspace, type, nbytes, self.stream) for type, nbytes in program.outputs
        ]
        self._where = {f"input {i}": place for i, place in enumerate(places)}
        self._where |= {f"output {i}": each.address for i, each in enumerate(self.outputs)}
        self._last = workspace

    def __call__(self) -> None:
        """Begin to run."""
        self._execute(self._replay)

    def _replay(self, workspace: Workspace) -> None:
        if workspace.session is not self._session:
            raise DeviceError(
                f"the memory of a bound run was lost with the context of {self._session.name}",
                help="bind the run anew",
            )
        given = workspace.use_states(self._states) if self._states else {}
        key = (self, *given.values())
        run = workspace.runs.find(key)
        if run is None or workspace.program.host is not None:
            workspace.addresses = {**workspace.fixed, **self._where, **given}
            run = workspace.captured(key)
        if workspace is not self._last:
            self._last = workspace
            for each in self.outputs:
                each.written_by(workspace.turn)
        begin_run(workspace, run, self.stream, self.outputs, self._states)
