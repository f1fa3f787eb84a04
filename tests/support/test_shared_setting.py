"""Settings of the process that several spans share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from afterglow.support.shared_setting import SharedSetting


def test_the_first_of_overlapping_spans_changes_a_setting_and_the_last_puts_it_back() -> None:
    log: list[str] = []

    def change() -> Callable[[], object]:
        log.append("changed")
        return lambda: log.append("as before")

    setting = SharedSetting(change)
    first, second = setting.changed(), setting.changed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert log == ["changed"]
    second.__exit__(None, None, None)
    assert log == ["changed", "as before"]
    with pytest.raises(ValueError, match="failed"), setting.changed():
        raise ValueError("failed")
    assert log == ["changed", "as before"] * 2
