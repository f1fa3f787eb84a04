"""Cases of afterglow.ops.normalization."""

CASES: list = []
