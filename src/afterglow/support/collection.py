"""Python's search for garbage in cycles, put off while much is built that remains in use."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from afterglow.support.shared_setting import SharedSetting


def _pause() -> Callable[[], object]:
    """Stop searching; where the program does not search, nothing is to be put back."""
    was_on = gc.isenabled()
    gc.disable()
    return gc.enable if was_on else lambda: None


_PAUSES = SharedSetting(_pause)


def _grow_old() -> None:
    """Let all objects count as old, so that no search for young garbage goes through them.

    What the program has frozen remains frozen, and then they are young.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


@contextmanager
def without_collecting(*, permanent: bool = False) -> Iterator[None]:
    """Let no garbage be searched for meanwhile, in any thread; pauses may overlap.

    What is no longer referred to is freed as ever. The search that follows goes through all that
    was made, which is young, unless it is `permanent` anyway, as modules are.
    """
    with _PAUSES.changed():
        try:
            yield
        finally:
            if permanent:
                _grow_old()
