"""The formats of tensors in GGUF files, by the numbers that files have for them."""

from __future__ import annotations

from afterglow.frontends.gguf import blocks as b
from afterglow.frontends.gguf import grid_blocks as g
from afterglow.frontends.gguf import super_blocks as s
from afterglow.frontends.language.weights import FLOATS, Format
from afterglow.support.errors import ModelError, UnsupportedError
from afterglow.types.dtype import f16, f32, i4, i8, u4, u8

FORMATS = {
    0: FLOATS["F32"],
    1: FLOATS["F16"],
    2: Format("Q4_0", 32, 18, i4, b.q4_0, 32, 0, b.half(0), f16),
    3: Format("Q4_1", 32, 20, u4, b.q4_1, 32, 0, b.half(0), f16, b.half(2)),
    6: Format("Q5_0", 32, 22, i8, b.q5_0, 32, 5, b.half(0), f16),
    7: Format("Q5_1", 32, 24, u8, b.q5_1, 32, 5, b.half(0), f16, b.half(2)),
    8: Format("Q8_0", 32, 34, i8, b.q8_0, 32, 0, b.half(0), f16),
    10: Format("Q2_K", 256, 84, u4, s.q2, 16, 0, s.q2_scales, f32, s.q2_minimums),
    11: Format("Q3_K", 256, 110, i4, s.q3, 16, 0, s.q3_scales),
    12: Format("Q4_K", 256, 144, u4, s.q4, 32, 0, s.scales_of_six, f32, s.minimums_of_six),
    13: Format("Q5_K", 256, 176, u8, s.q5, 32, 5, s.scales_of_six, f32, s.minimums_of_six),
    14: Format("Q6_K", 256, 210, i8, s.q6, 16, 6, s.q6_scales),
    16: Format("IQ2_XXS", 256, 66, i8, g.iq2_xxs, 32, 0, g.iq2_xxs_scales),
    17: Format("IQ2_XS", 256, 74, i8, g.iq2_xs, 16, 0, g.iq2_xs_scales),
    18: Format("IQ3_XXS", 256, 98, i8, g.iq3_xxs, 32, 0, g.iq3_xxs_scales),
    19: Format("IQ1_S", 256, 50, i8, g.iq1_s, 32, 0, g.iq1_s_scales),
    20: Format("IQ4_NL", 32, 18, i8, b.iq4_nl, 32, 0, b.half(0), f16),
    21: Format("IQ3_S", 256, 110, i8, g.iq3_s, 32, 0, g.iq3_s_scales),
    22: Format("IQ2_S", 256, 82, i8, g.iq2_s, 16, 0, g.iq2_s_scales),
    23: Format("IQ4_XS", 256, 136, i8, s.iq4_xs, 32, 0, s.iq4_xs_scales),
    29: Format("IQ1_M", 256, 56, i8, g.iq1_m, 16, 0, g.iq1_m_scales),
    30: FLOATS["BF16"],
    39: Format("MXFP4", 32, 17, i8, b.mxfp4, 32, 5, b.mxfp4_scales),
}
"""By number: name, elements and bytes of a block, the type of numbers and how they are unpacked,
how many share a scale, bits of a number, scales and their type, minimums."""

_OTHERS = {
    4: "Q4_2",
    5: "Q4_3",
    9: "Q8_1",
    15: "Q8_K",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    34: "TQ1_0",
    35: "TQ2_0",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
    40: "NVFP4",
    41: "Q1_0",
}
"""Formats that are not read, for errors to name them."""


def format_numbered(number: int, what: str) -> Format:
    """The format of a number; `what` is the tensor that has it."""
    if number in FORMATS:
        return FORMATS[number]
    if number not in _OTHERS:
        raise ModelError(f"{what} has the format {number}, which GGUF does not have")
    known = ", ".join(format.name for format in FORMATS.values())
    raise UnsupportedError(
        f"{what} has the format {_OTHERS[number]}, which is not supported",
        help=f"convert the model to one of {known}",
    )
