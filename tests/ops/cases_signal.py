"""Cases of afterglow.ops.signal."""

CASES: list = []
