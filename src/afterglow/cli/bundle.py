"""`afterglow compile -o FOLDER`: a model as files that a C program links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.backends.cpu.bundle import BundleOptions
from afterglow.cli.progress import StageClock
from afterglow.cli.report import stage_table
from afterglow.cli.request import Request, command_line_help
from afterglow.cli.session import Session, table
from afterglow.cli.texts import unwritable
from afterglow.driver.bundles import compile_bundle
from afterglow.runtime.bundle import Bundle, write_bundle
from afterglow.runtime.version import BundleWish


@dataclass(frozen=True)
class BundleFlags:
    """What the command line says about a bundle."""

    name: str | None
    embed_weights: bool
    freestanding: bool
    small: bool
    shared: bool

    @property
    def any_given(self) -> bool:
        """Whether one of them asks for a bundle."""
        wishes = (self.embed_weights, self.freestanding, self.small, self.shared)
        return self.name is not None or any(wishes)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--name", help="Of a bundle: how its files are called and its symbols begin."),
    click.option("--embed-weights", is_flag=True, help="Of a bundle: weights are in the object."),
    click.option("--freestanding", is_flag=True, help="Of a bundle: it needs no memcpy either."),
    click.option("--small", is_flag=True, help="Of a bundle: little code rather than fast code."),
    click.option("--shared", is_flag=True, help="Of a bundle: link a shared library, too."),
)


def takes_bundle_flags(command: Callable[..., int]) -> Callable[..., int]:
    """Give a verb these options, as one value."""

    @wraps(command)
    def collected(
        *arguments: Any,
        name: str | None,
        embed_weights: bool,
        freestanding: bool,
        small: bool,
        shared: bool,
        **others: Any,
    ) -> int:
        flags = BundleFlags(name, embed_weights, freestanding, small, shared)
        return command(*arguments, flags=flags, **others)

    decorated: Callable[..., int] = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def write_to_folder(session: Session, request: Request, folder: Path, flags: BundleFlags) -> int:
    """Compile a model for its target and write a bundle."""
    options = BundleOptions(flags.embed_weights, flags.freestanding, flags.small)
    wish = BundleWish(request.options.target, flags.name, options)
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        source = request.source()
        with command_line_help(source, request.options):
            code = compile_bundle(source, request.options, wish)
        clock("write")
        try:
            bundle = write_bundle(code, folder, shared=flags.shared)
        except OSError as error:
            raise unwritable(folder, error) from None
    data = {
        "model": request.path,
        "output": str(folder),
        "library": None if bundle.library is None else str(bundle.library),
        "bundle": bundle.description,
        "seconds": clock.seconds,
    }

    def show() -> None:
        session.show(stage_table(clock.seconds))
        session.show(_size_table(bundle))
        target = bundle.description["target"]["name"]
        session.say(f"{bundle.name} for {target}, written to {folder}")

    session.answer(data, show)
    return 0


def _size_table(bundle: Bundle) -> Table:
    about = bundle.description
    entry = about["entries"][0]
    rows = table("memory", "bytes", right=("bytes",))
    for name, count in (
        ("code", about["code_bytes"]),
        ("weights", about["weights"]["bytes"]),
        ("arena", entry["arena_bytes"]),
        ("scratch of a thread", entry["scratch_bytes"]),
        ("stack", entry["stack_bytes"]),
    ):
        rows.add_row(name, f"{count:,}")
    return rows
