"""The `afterglow` command: its verbs, and how it ends."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from afterglow.cli.verbs import Verbs
from afterglow.support.errors import AfterglowError, AfterglowWarning, UsageError

if TYPE_CHECKING:
    from afterglow.cli.session import Session

INTERRUPTED = 130
INTERNAL_ERROR = 70


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
        return _execute(arguments, late)


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


def _execute(arguments: Sequence[str], late: LateSession) -> int:
    try:
        status = cli.main(list(arguments), "afterglow", standalone_mode=False, obj=late)
        sys.stdout.flush()
        return int(status or 0)
    except AfterglowError as error:
        late.session.fail(error)
        return error.exit_status
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_status
    except click.ClickException as error:
        late.session.fail(_as_ours(error))
        return UsageError.exit_status
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:  # how click ends where the reader has seen enough
        return 0
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        _report(late.session, error)
        return INTERNAL_ERROR


def _as_ours(error: click.ClickException) -> UsageError:
    """Click's own complaint about the command line, in the form of all others."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "afterglow"
    return UsageError(message[:1].lower() + message[1:], help=f"see {path} --help")


def _report(session: Session, error: Exception) -> None:
    if session.debug:
        traceback.print_exception(error)
    first = str(error).splitlines()[:1]
    what = ": ".join([type(error).__name__, *first])
    help = "" if session.debug else "; --debug shows where"
    session.err.print(
        f"error: internal error, {what}: please report it{help}", soft_wrap=True, markup=False
    )


if __name__ == "__main__":
    main()
