"""Cases of afterglow.ops.conversion."""

CASES: list = []
