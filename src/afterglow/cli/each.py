"""Runs a command once for each combination of extents that `--dim` lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from afterglow.cli.request import Request
from afterglow.cli.session import Session
from afterglow.support.errors import UsageError

Verb = Callable[..., int]


def for_each_extent(*files: str) -> Callable[[Verb], Verb]:
    """Decorator that calls a command once for each combination of extents that `--dim` lists.

    The exit status is the largest one; the JSON output is a list. `files` are options that name an
    output file and so cannot be combined with lists.
    """

    def decorated(verb: Verb) -> Verb:
        @wraps(verb)
        def called(session: Session, request: Request, **others: Any) -> int:
            requests = request.bindings()
            if len(requests) == 1:
                return verb(session, requests[0], **others)
            for option in files:
                if others[option.lstrip("-").replace("-", "_")] is not None:
                    refuse_lists(request, option)
            with session.several("bindings"):
                return max(_answer(session, verb, request, each, others) for each in requests)

        return called

    return decorated


def _answer(
    session: Session, verb: Verb, asked: Request, request: Request, others: dict[str, Any]
) -> int:
    """Run the command for one binding, under a heading, and return its exit status."""
    extents = {name: request.options.dims[name] for name in asked.dim_options.ahead}
    session.begin_answer({"dims": extents}, shown_extents(extents))
    return verb(session, request, **others)


def shown_extents(extents: dict[str, int]) -> str:
    """Extents as text for a heading: `batch = 4, seq = 128`."""
    return ", ".join(f"{name} = {extent}" for name, extent in extents.items())


def refuse_lists(request: Request, purpose: str) -> None:
    """Raise if `--dim` lists several extents, because `purpose` allows only one shape."""
    for name, extents in request.dim_options.ahead.items():
        listed = ",".join(map(str, extents))
        raise UsageError(
            f"{purpose} is for one shape, but --dim {name}={listed} lists several",
            help=f"give one extent, --dim {name}={extents[0]}",
        )
