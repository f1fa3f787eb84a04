"""The `afterglow` command: entry point, error output and exit status."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from afterglow.cli.click_errors import as_usage_error
from afterglow.cli.verbs import Verbs
from afterglow.support.errors import (
    AfterglowError,
    AfterglowWarning,
    InternalError,
    UsageError,
)

if TYPE_CHECKING:
    from afterglow.cli.session import Session

INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing to standard output, such as a full disk."""


class LateSession:
    """Creates the session on first use, so that help and version need not import `rich`."""

    @cached_property
    def session(self) -> Session:
        """The session, created on first use."""
        made: Session = import_module("afterglow.cli.session").Session()
        return made


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="afterglow", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """An ahead-of-time compiler for neural networks.

    The exit status is the verdict: 0 success, 1 failure (a malformed model, outputs that differ),
    2 wrong usage, 3 the model uses something that is not supported.
    """
    context.obj = context.obj.session


def main() -> None:
    """Run the command line of this process."""
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; errors are printed, never raised."""
    late = LateSession()
    with clean_warnings(late):
        return _written(arguments, late)


@contextmanager
def clean_warnings(late: LateSession) -> Iterator[None]:
    """Print Afterglow's warnings as one line each on standard error, without repetition."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, AfterglowWarning):
            usual(message, category, *where, **more)
        elif str(message) not in said:
            said.add(str(message))
            late.session.warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", AfterglowWarning)
        usual, warnings.showwarning = warnings.showwarning, show
        yield


def _written(arguments: Sequence[str], late: LateSession) -> int:
    """As `execute`, with errors of writing to standard output handled."""
    try:
        return _execute(arguments, late)
    except BrokenPipeError:  # the reader closed the pipe
        _drop_output()
        return 0
    except OSError as error:
        if error.errno not in _FULL:
            return _report(late.session, error)
        _drop_output()
        problem = UsageError(f"cannot write the output: {(error.strerror or '').lower()}")
        with suppress(OSError):  # standard error may be full, too
            late.session.err.print(str(problem), soft_wrap=True, markup=False)
        return problem.exit_status


def _execute(arguments: Sequence[str], late: LateSession) -> int:
    """As `execute`, but errors of writing to standard output are raised."""
    try:
        status = cli.main(list(arguments), "afterglow", standalone_mode=False, obj=late)
        sys.stdout.flush()
        return int(status or 0)
    except AfterglowError as error:
        return _fail(late, arguments, error)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_status
    except click.ClickException as error:
        return _fail(late, arguments, as_usage_error(error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:  # raised by click when the reader closed the pipe
        return 0
    except MemoryError as error:
        text = f"not enough memory: {first_line(error)}".rstrip(": ")
        return _fail(late, arguments, AfterglowError(text, help="give smaller extents"))
    except OSError:
        raise
    except Exception as error:
        return _report(late.session, error)


def _fail(late: LateSession, arguments: Sequence[str], error: AfterglowError) -> int:
    """Print an error; as JSON if `--json` was given, even if parsing the options failed."""
    late.session.json |= "--json" in arguments
    late.session.fail(error)
    sys.stdout.flush()
    return error.exit_status


def _drop_output() -> None:
    """Discard the rest of standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return next(iter(str(error).splitlines()), "")


def _report(session: Session, error: Exception) -> int:
    """Print an internal error."""
    if session.debug:
        traceback.print_exception(error)
    what = ": ".join(filter(None, [type(error).__name__, first_line(error)]))
    help = "" if session.debug else "; --debug shows where"
    session.fail(InternalError(f"internal error, {what}: please report it{help}"))
    return InternalError.exit_status
