"""Cases of afterglow.ops.indexing."""

CASES: list = []
