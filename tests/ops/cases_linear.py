"""Cases of afterglow.ops.linear."""

CASES: list = []
