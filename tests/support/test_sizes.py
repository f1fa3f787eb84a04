from __future__ import annotations

import pytest

from afterglow.support.errors import UsageError
from afterglow.support.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("65536", 65536),
        ("0", 0),
        ("12B", 12),
        ("256KiB", 256 * 1024),
        ("1MiB", 1 << 20),
        ("1MB", 1_000_000),
        ("2 kb", 2000),
        (" 1gib ", 1 << 30),
        ("1.5KiB", 1536),
        ("0.0015KB", 1),
    ],
)
def test_amounts_of_memory(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "KiB", "-1", "1.", "1 2", "3 apples", "1KiBs", "٣"])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(text)
    assert str(caught.value) == (
        f"error: {text!r} is not an amount of memory\n"
        "  help: write 256KiB, 1MB, or a number of bytes"
    )
