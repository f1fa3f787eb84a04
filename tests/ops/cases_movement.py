"""Cases of afterglow.ops.movement."""

CASES: list = []
