"""`afterglow compile -o FOLDER`: compile a model to files that a C program links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from afterglow.cli.progress import StageClock
from afterglow.cli.report import stage_table
from afterglow.cli.request import Request, command_line_help
from afterglow.cli.session import Session
from afterglow.driver.bundles import compile_bundle
from afterglow.driver.sources import Source
from afterglow.runtime.bundle import Bundle, BundleRequest, several_ranges
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import unwritable
from afterglow.support.tables import table


@dataclass(frozen=True)
class BundleFlags:
    """The command-line options that apply to bundles."""

    name: str | None
    embed_weights: bool
    freestanding: bool
    small: bool
    shared: bool

    @property
    def given(self) -> list[str]:
        """The options that were given, as the command line spells them."""
        names = (f"--{name.replace('_', '-')}" for name in vars(self))
        return [name for name, value in zip(names, vars(self).values(), strict=True) if value]


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--name", help="For a bundle: the name of its files and prefix of its symbols."),
    click.option("--embed-weights", is_flag=True, help="For a bundle: put weights in the object."),
    click.option("--freestanding", is_flag=True, help="For a bundle: do not even need memcpy."),
    click.option("--small", is_flag=True, help="For a bundle: optimise for code size."),
    click.option("--shared", is_flag=True, help="For a bundle: also link a shared library."),
)


def takes_bundle_flags(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator that adds the bundle options to a command and passes them as one value."""

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


def write_to_folder(
    session: Session, request: Request, folder: Path, flags: BundleFlags, *, force: bool
) -> int:
    """Compile a model for its target and write a bundle."""
    kind = (flags.embed_weights, flags.freestanding, flags.small)
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        source = request.source()
        request.dim_options.check_names(request.inputs(source))
        bound = request.bindings()
        if len(bound) > 1 and request.dim_options.ranges:
            raise several_ranges(len(bound))
        shapes = _shapes(source, bound)
        wanted = BundleRequest(request.options.target, flags.name, *kind, shapes)
        with command_line_help(source, bound[0].options):
            compiled = compile_bundle(source, bound[0].options, wanted)
        clock("write")
        try:
            never = source.files()
            bundle = compiled.write(folder, shared=flags.shared, force=force, never=never)
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


def _shapes(source: Source, requests: Sequence[Request]) -> list[dict[str, tuple[int, ...]]]:
    """The input shapes of each request, if there are several and all dimensions are bound."""
    inputs = [source.signature(request.options).inputs for request in requests]
    if len(inputs) == 1 or not all(info.is_exact for infos in inputs for info in infos):
        return []
    return [{info.name: info.exact_shape for info in infos} for infos in inputs]


def _size_table(bundle: Bundle) -> Table:
    names = bundle.entries or ("bytes",)
    rows = table("memory", *names, right=names)
    for name, counts in bundle.sizes:
        rows.add_row(name, *(f"{count:,}" for count in counts))
    return rows
