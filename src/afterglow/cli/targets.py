"""`afterglow targets`: list the machines that code can be generated for."""

from __future__ import annotations

from typing import Any

import click

from afterglow.backends.cpu.target import NAMED, Target
from afterglow.cli.session import Session, general_options, table

HOST = "host"


@click.command()
@general_options
@click.pass_obj
def targets(session: Session) -> int:
    """List the named targets, this machine first.

    The code runs on every machine that has the listed features. Any other target is written as
    triple+cpu+features, such as x86_64-unknown-linux-gnu+x86-64-v3+avxvnni.
    """
    found = {HOST: Target.host(), **NAMED}
    session.answer(
        {"targets": [_target_data(name, target) for name, target in found.items()]},
        lambda: _show(session, found),
    )
    return 0


def _target_data(name: str, target: Target) -> dict[str, Any]:
    return {
        "name": name,
        "triple": target.triple,
        "cpu": target.tuning or target.cpu,
        "vector_bits": target.vector_bits if target.has_vectors else 0,
        "pointer_bits": target.pointer_bits,
        "features": list(target.features),
    }


def _show(session: Session, found: dict[str, Target]) -> None:
    rows = table("name", "triple", "vectors", "features", right=("vectors",))
    for name, target in found.items():
        vectors = f"{target.vector_bits} bits" if target.has_vectors else "none"
        rows.add_row(name, target.triple, vectors, " ".join(target.features))
    session.show(rows)
