"""`afterglow targets`: list the machines that code can be generated for."""

from __future__ import annotations

from collections.abc import Sequence

import click

from afterglow.backends.backend import TargetInfo
from afterglow.backends.registry import backend_factory, backend_names
from afterglow.cli.session import Session, general_options
from afterglow.support.errors import AfterglowError, UsageError, warn
from afterglow.support.plugins import plugin_failures
from afterglow.support.tables import table


@click.command()
@general_options
@click.pass_obj
def targets(session: Session) -> int:
    """List the named targets of each backend, this machine first.

    Code for a CPU runs on every machine that has the listed features. Any other CPU is written as
    triple+cpu+features, such as x86_64-unknown-linux-gnu+x86-64-v3+avxvnni.

    \b
    Examples:
      afterglow targets
    """  # noqa: D301  click keeps lines after its mark as they are
    found = [(name, info) for name in backend_names() for info in _targets_of(name)]
    data = [{"backend": name, "name": info.name, **info.facts} for name, info in found]
    session.answer({"targets": data}, lambda: _show(session, found))
    return 0


def _targets_of(backend: str) -> Sequence[TargetInfo]:
    """The targets of a backend; nothing but a warning if its package cannot be used."""
    try:
        factory = backend_factory(backend)
        with plugin_failures(f"backend {backend!r}", UsageError):
            return factory.targets()
    except AfterglowError as error:
        warn(error.what)
        return ()


def _show(session: Session, found: list[tuple[str, TargetInfo]]) -> None:
    rows = table("backend", "target", "machine", "features")
    for backend, info in found:
        rows.add_row(backend, info.name, info.summary, info.features)
    session.show(rows)
