"""Cases of afterglow.ops.activation."""

CASES: list = []
