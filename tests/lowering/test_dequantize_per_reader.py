"""One dequantization for each reader."""

from __future__ import annotations

from afterglow.lowering.dequantize_per_reader import DequantizePerReader
from tests.transforms.rewriting import check_declines, check_rewrites

HEAD = """
            const @s : f32[] = [0.5]
            func @main(%x: i8[4]) {
              %f = dequantize_linear(%x, @s) {axis = 0, dtype = f32, block_size = 0} : f32[4]"""


def test_each_reader_dequantizes_for_itself() -> None:
    check_rewrites(
        DequantizePerReader(),
        before=f"""{HEAD}
              %a = exp(%f) : f32[4]
              %b = add(%f, %f) : f32[4]
              %y = add(%a, %b) : f32[4]
              return %y
            }}
        """,
        after=f"""{HEAD}
              %a = exp(%f) : f32[4]
              %f_1 = dequantize_linear(%x, @s) {{axis = 0, dtype = f32, block_size = 0}} : f32[4]
              %b = add(%f_1, %f_1) : f32[4]
              %y = add(%a, %b) : f32[4]
              return %y
            }}
        """,
    )


def test_one_reader_or_an_output_needs_no_copy() -> None:
    check_declines(
        DequantizePerReader(),
        f"""{HEAD}
              %a = exp(%f) : f32[4]
              return %a
            }}
        """,
    )
    check_declines(
        DequantizePerReader(),
        f"""{HEAD}
              %a = exp(%f) : f32[4]
              %b = neg(%f) : f32[4]
              return %a, %b, %f
            }}
        """,
    )
