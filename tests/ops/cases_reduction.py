"""Cases of afterglow.ops.reduction."""

CASES: list = []
