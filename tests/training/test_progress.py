from __future__ import annotations

import io

from rich.console import Console

from afterglow.training import progress
from afterglow.training.history import Epoch
from afterglow.training.progress import RunDisplay


def test_a_terminal_shows_a_bar_and_keeps_the_lines_of_epochs(monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120, color_system=None)
    with RunDisplay(2, 5, console=console) as display:
        display.step(1, 3, 1.5, 1000.0)
        display.epoch(Epoch(1, 5, 1.25, 0.1, 0.5, 100))
        display.step(2, 2, 1.0, 2000.0)
        display.note("stopped")
    shown = text.getvalue()
    assert "epoch 2/2" in shown
    assert " 7/10" in shown
    assert "loss 1, 2,000 samples/s" in shown
    assert "epoch 1: loss 1.25, lr 0.1, 500.0 ms, 200 samples/s\n" in shown
    assert "stopped\n" in shown


def test_nothing_is_shown_on_request():
    text = io.StringIO()
    with RunDisplay(1, 5, shown=False, console=Console(file=text, force_terminal=True)) as display:
        display.step(1, 3, 1.5, 1000.0)
        display.epoch(Epoch(1, 5, 1.25, 0.1, 0.5, 100))
    assert text.getvalue() == ""
