"""Matrices that are several ones, stored one below the other."""

from __future__ import annotations

from afterglow.frontends.language.config import LanguageConfig
from afterglow.frontends.language.weights import Weight


def cut_fused(weights: dict[str, Weight], config: LanguageConfig) -> None:
    """Cut apart queries, keys and values, and gate and up, wherever they are one matrix."""
    for number in range(len(config.layers)):
        _cut_block(weights, f"blk.{number}", config)


def _cut_block(weights: dict[str, Weight], block: str, config: LanguageConfig) -> None:
    """Give the parts of matrices that are one the names that they have elsewhere."""
    keys = config.kv_heads * config.key_width
    values = config.kv_heads * config.value_width
    parts = {
        "attn_qkv": (
            ("attn_q", config.heads * config.key_width),
            ("attn_k", keys),
            ("attn_v", values),
        ),
        "ffn_up": (("ffn_gate", config.hidden), ("ffn_up", config.hidden)),
    }
    for fused, cuts in parts.items():
        for kind in ("weight", "bias"):
            whole = weights.get(f"{block}.{fused}.{kind}")
            if whole is not None and whole.shape[0] == sum(rows for _, rows in cuts):
                del weights[f"{block}.{fused}.{kind}"]
                start = 0
                for name, rows in cuts:
                    part = f"{block}.{name}.{kind}"
                    weights[part] = whole.rows(part, start, start + rows)
                    start += rows
