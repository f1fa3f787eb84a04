"""Cases of afterglow.ops.control."""

CASES: list = []
