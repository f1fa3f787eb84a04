"""The command `afterglow`, also as `python -m afterglow`; it comes with the compiler."""

from __future__ import annotations

import sys

from afterglow.support.packages import missing_package


def main() -> None:
    """The entry point of the command."""
    try:
        # here, because an installation that only runs models lacks what the command is made of
        from afterglow.cli.main import main as command  # noqa: PLC0415
    except ModuleNotFoundError as error:
        missing = missing_package("the command line", error)
        if missing is None:
            raise
        print(missing, file=sys.stderr)
        sys.exit(missing.exit_status)
    command()


if __name__ == "__main__":
    main()
