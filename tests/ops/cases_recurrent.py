"""Cases of afterglow.ops.recurrent."""

CASES: list = []
