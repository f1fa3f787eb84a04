"""Cases of afterglow.ops.pooling."""

CASES: list = []
