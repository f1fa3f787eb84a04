"""Cases of afterglow.ops.quantization."""

CASES: list = []
