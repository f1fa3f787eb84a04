"""`afterglow compile -o FILE.onnx`: the optimised graph as a file for other engines."""

from __future__ import annotations

from pathlib import Path

from afterglow.cli.destination import Destination
from afterglow.cli.progress import StageClock
from afterglow.cli.report import stage_table
from afterglow.cli.request import Request
from afterglow.cli.session import Session
from afterglow.driver.export import Exported


def write_onnx(session: Session, request: Request, output: Destination) -> int:
    """Optimise a model, quantize it if that is asked for, and write it as ONNX."""
    path = output.path
    assert path is not None
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        source = request.source()
        request.dim_options.check_names(request.inputs(source))
        module = request.load(source)
        exported = Exported.of(module, request.options)
        clock("write")
        exported.write(path)
    data = {
        "model": request.path,
        "nodes": exported.nodes,
        "bytes": len(exported.data),
        "seconds": clock.seconds,
        "output": str(path),
    }
    session.answer(data, lambda: _show(session, exported, clock, path))
    return 0


def _show(session: Session, exported: Exported, clock: StageClock, path: Path) -> None:
    session.show(stage_table(clock.seconds))
    session.say(f"{exported.nodes} nodes, {len(exported.data):,} bytes, written to {path}")
