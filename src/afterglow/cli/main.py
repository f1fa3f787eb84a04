"""The `afterglow` command: its verbs, and how it ends."""

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

from afterglow.cli.complaints import as_ours
from afterglow.cli.verbs import Verbs
from afterglow.support.errors import AfterglowError, AfterglowWarning, UsageError

if TYPE_CHECKING:
    from afterglow.cli.session import Session

INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of standard output when it takes no more."""


class InternalError(AfterglowError):
    """A fault of Afterglow itself."""

    exit_status = 70


class LateSession:
    """The session of a command line, made when a verb is used or something must be said.

    Neither help nor version wait for what tables are made with to be imported.
    """

    @cached_property
    def session(self) -> Session:
        """The session."""
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

    The exit status is the verdict: 0 good, 1 the answer is no (a malformed model, wrong numbers),
    2 wrong use, 3 the model uses what is not supported.
    """
    context.obj = context.obj.session


def main() -> None:
    """The entry point of the command."""
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; no error leaves as a traceback."""
    late = LateSession()
    with clean_warnings(late):
        return _written(arguments, late)


@contextmanager
def clean_warnings(late: LateSession) -> Iterator[None]:
    """Print our own warnings as a line each, on standard error, and the same one only once."""
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
    """The same, whether or not all that is written finds its way."""
    try:
        return _execute(arguments, late)
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
        return 0
    except OSError as error:
        if error.errno not in _FULL:
            return _report(late.session, error)
        _drop_output()
        problem = UsageError(f"cannot write the answer: {(error.strerror or '').lower()}")
        with suppress(OSError):  # standard error may be full, too
            late.session.err.print(str(problem), soft_wrap=True, markup=False)
        return problem.exit_status


def _execute(arguments: Sequence[str], late: LateSession) -> int:
    """The same, where all that is written finds its way."""
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
        return _fail(late, arguments, as_ours(error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:  # how click ends where the reader has seen enough
        return 0
    except MemoryError as error:
        text = f"there is not enough memory: {first_line(error)}".rstrip(": ")
        return _fail(late, arguments, AfterglowError(text, help="give smaller extents"))
    except OSError:
        raise
    except Exception as error:
        return _report(late.session, error)


def _fail(late: LateSession, arguments: Sequence[str], error: AfterglowError) -> int:
    """Print an error; as JSON even if the options were not understood that ask for it."""
    late.session.json |= "--json" in arguments
    late.session.fail(error)
    sys.stdout.flush()
    return error.exit_status


def _drop_output() -> None:
    """Let what is still to be written to standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def first_line(error: BaseException) -> str:
    """What an error says first."""
    return next(iter(str(error).splitlines()), "")


def _report(session: Session, error: Exception) -> int:
    """Print an error that is a fault of ours."""
    if session.debug:
        traceback.print_exception(error)
    what = ": ".join(filter(None, [type(error).__name__, first_line(error)]))
    help = "" if session.debug else "; --debug shows where"
    session.fail(InternalError(f"internal error, {what}: please report it{help}"))
    return InternalError.exit_status


if __name__ == "__main__":
    main()
