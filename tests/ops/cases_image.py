"""Cases of afterglow.ops.image."""

CASES: list = []
