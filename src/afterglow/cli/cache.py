"""`afterglow cache`: what is cached on disk, how much, and removing it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from afterglow.cli.parameters import Size
from afterglow.cli.session import Session, general_options
from afterglow.driver.cache import KERNELS_LIMIT, LARGEST_MODEL, MODELS_LIMIT, SMALL_LIMIT
from afterglow.driver.cache_admin import (
    CacheEntry,
    cache_entries,
    chosen_entries,
    remove_entries,
)
from afterglow.driver.environment import cache_variables, usual_cache_folder
from afterglow.support.errors import UsageError
from afterglow.support.tables import table

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LIMITS = {"models": MODELS_LIMIT, "kernels": KERNELS_LIMIT}


class AgeType(click.ParamType[float]):
    """An age such as 30d or 12h, in seconds."""

    name = "age"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds of an age."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", str(value).strip())
        if match is None:
            raise UsageError(f"{value!r} is not an age", help="write 30d, 12h, 2w or 90m")
        return float(match[1]) * _UNITS[match[2]]


@click.group()
def cache() -> None:
    """Show what is cached on disk, and remove some or all of it.

    The cache holds compiled models, object code of kernels, digests of files and measurements. It
    bounds itself (see `afterglow cache limits`), and may be removed at any time: what is missing is
    made again. Other processes may use it meanwhile.

    \b
    Examples:
      afterglow cache list
      afterglow cache prune --older-than 30d --max-size 1GiB
    """  # noqa: D301  click keeps lines after its mark as they are


@cache.command("list")
@click.option("--top", type=click.IntRange(1), default=30, show_default=True, help="Rows to show.")
@general_options
@click.pass_obj
def list_command(session: Session, top: int) -> int:
    """List what is cached, the last used first."""
    entries = cache_entries(_folder())
    data = {"folder": str(_folder()), "entries": [_data(entry) for entry in entries]}
    session.answer(data, lambda: _show_entries(session, entries, top))
    return 0


@cache.command()
@general_options
@click.pass_obj
def size(session: Session) -> int:
    """Show how much is cached, by kind."""
    entries = cache_entries(_folder())
    counts = Counter(entry.part for entry in entries)
    sizes: Counter[str] = Counter()
    for entry in entries:
        sizes[entry.part] += entry.bytes
    data = {
        "folder": str(_folder()),
        "bytes": sum(sizes.values()),
        "parts": {part: {"entries": counts[part], "bytes": sizes[part]} for part in counts},
    }

    def show() -> None:
        rows = table("kind", "entries", "bytes", right=("entries", "bytes"))
        for part in counts:
            rows.add_row(part, str(counts[part]), f"{sizes[part]:,}")
        session.show(rows)
        session.say(f"{data['bytes']:,} bytes in {_folder()}", "bold")

    session.answer(data, show)
    return 0


@cache.command()
@click.option("--max-size", type=Size(), help="Keep at most this much, such as 1GiB.")
@click.option("--older-than", type=AgeType(), help="Remove what was not used for this long: 30d.")
@general_options
@click.pass_obj
def prune(session: Session, max_size: int | None, older_than: float | None) -> int:
    """Remove what was not used for a while, or as much as exceeds a size, the oldest first."""
    if max_size is None and older_than is None:
        raise UsageError("nothing says what to remove", help="give --max-size or --older-than")
    chosen = chosen_entries(cache_entries(_folder()), max_size, older_than)
    return _removed(session, chosen)


@cache.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@general_options
@click.pass_obj
def clear(session: Session, yes: bool) -> int:
    """Remove everything that is cached; asks before, if there is somebody to ask."""
    entries = cache_entries(_folder())
    if entries and not yes:
        total = f"{sum(entry.bytes for entry in entries):,} bytes in {_folder()}"
        if not sys.stdin.isatty():
            raise UsageError(f"this would remove {total}", help="give --yes to do so")
        click.confirm(f"Remove {total}?", abort=True)
    return _removed(session, entries)


@cache.command()
@general_options
@click.pass_obj
def limits(session: Session) -> int:
    """Show where the cache is, what bounds it, and which variables of the environment count."""
    variables = cache_variables()
    most = {**_LIMITS, "digests, winners, rates, each": SMALL_LIMIT}
    data = {"folder": str(_folder()), "variables": variables, "limits": most}

    def show() -> None:
        rows = table("", "")
        rows.add_row("folder", str(_folder()))
        for name, value in variables.items():
            rows.add_row(name, value or "not set")
        for part, limit in most.items():
            rows.add_row(f"{part}, at most", f"{limit:,} B")
        rows.add_row("weights of a model, at most", f"{LARGEST_MODEL:,} B")
        session.show(rows)
        session.say("--no-cache, or cache=False, neither reads nor writes it")

    session.answer({**data, "largest_model": LARGEST_MODEL}, show)
    return 0


def _folder() -> Path:
    return usual_cache_folder()


def _data(entry: CacheEntry) -> dict[str, Any]:
    return {
        "name": entry.path.name,
        "kind": entry.part,
        "model": entry.model,
        "bytes": entry.bytes,
        "used": entry.used,
        "age_seconds": entry.age,
    }


def _show_entries(session: Session, entries: Sequence[CacheEntry], top: int) -> None:
    rows = table("kind", "model", "bytes", "last used", "entry", right=("bytes", "last used"))
    for entry in entries[:top]:
        name = entry.path.stem[:12]
        rows.add_row(entry.part, entry.model, f"{entry.bytes:,}", _ago(entry.age), name)
    session.show(rows)
    rest = f"; {len(entries) - top} older ones are not shown" if len(entries) > top else ""
    session.say(f"{len(entries)} entries in {_folder()}{rest}", "bold")


def _ago(seconds: float) -> str:
    unit = next((u for u in ("w", "d", "h", "m") if seconds >= _UNITS[u]), "s")
    return f"{seconds / _UNITS[unit]:.0f} {unit} ago"


def _removed(session: Session, entries: Sequence[CacheEntry]) -> int:
    count, freed = remove_entries(entries)
    data = {"folder": str(_folder()), "entries": count, "bytes": freed}
    session.answer(data, lambda: session.say(f"removed {count} entries, {freed:,} bytes"))
    return 0
