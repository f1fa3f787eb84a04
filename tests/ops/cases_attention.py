"""Cases of afterglow.ops.attention."""

CASES: list = []
