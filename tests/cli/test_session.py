from __future__ import annotations

import io
import time

from rich.console import Console

from afterglow.cli.progress import DELAY, StageClock
from afterglow.cli.report import duration
from afterglow.cli.session import Session
from afterglow.support.errors import UsageError


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_errors_have_colour_on_a_terminal():
    console = terminal()
    Session(err=console).fail(UsageError("it is wrong", help="do it right"))
    assert shown(console) == (
        "\x1b[1;31merror:\x1b[0m it is wrong\n  \x1b[36mhelp:\x1b[0m do it right\n"
    )


def test_errors_have_none_in_a_file(capsys):
    error = UsageError("it is [bold]wrong[/bold]", help="do it right")
    Session().fail(error)
    assert capsys.readouterr().err == f"{error}\n"


def test_the_clock_adds_up_stages():
    with StageClock(Console(file=io.StringIO())) as clock:
        clock("import")
        clock("optimise")
        clock("import")
    assert list(clock.seconds) == ["import", "optimise"]
    assert clock.total == sum(clock.seconds.values())


def test_a_quick_stage_is_not_shown():
    console = terminal()
    with StageClock(console) as clock:
        clock("import")
    assert "import" not in shown(console)


def test_a_slow_stage_is_shown():
    console = terminal()
    with StageClock(console) as clock:
        clock("import")
        time.sleep(1.5 * DELAY)
    assert "import …" in shown(console)


def test_nothing_is_shown_in_a_file():
    console = Console(file=io.StringIO())
    with StageClock(console) as clock:
        clock("import")
        time.sleep(1.5 * DELAY)
    assert shown(console) == ""


def test_durations_have_a_unit_that_suits_them():
    assert [duration(s) for s in (2e-6, 0.0025, 3.14159)] == ["2.0 µs", "2.5 ms", "3.14 s"]
