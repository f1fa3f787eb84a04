"""Several products of one left operand become one."""

import pytest

from afterglow.transforms.merge_matmuls import MergeMatMuls
from tests.transforms.rewriting import check_declines, check_rewrites

PLAIN = "{transpose_lhs = false, transpose_rhs = false}"
FLIPPED = "{transpose_lhs = false, transpose_rhs = true}"


def test_products_with_sums_are_one_product_with_a_sum() -> None:
    check_rewrites(
        MergeMatMuls(),
        before=f"""
            const @wq : f32[2, 2] = [1, 2, 3, 4]
            const @wk : f32[2, 2] = [5, 6, 7, 8]
            const @wv : f32[2, 1] = [9, 10]
            const @bq : f32[2] = [1, 2]
            const @bv : f32[1, 1] = [3]
            func @main(%x: f32[3, 2]) {{
              %q = matmul(%x, @wq) {PLAIN} : f32[3, 2]
              %q.sum = add(%q, @bq) : f32[3, 2]
              %q.heads = reshape(%q.sum) {{shape = (3, 1, 2)}} : f32[3, 1, 2]
              %k = matmul(%x, @wk) {PLAIN} : f32[3, 2]
              %k.heads = reshape(%k) {{shape = (3, 2, 1)}} : f32[3, 2, 1]
              %v = matmul(%x, @wv) {PLAIN} : f32[3, 1]
              %v.sum = add(%v, @bv) : f32[3, 1]
              %v.heads = transpose(%v.sum) {{perm = (1, 0)}} : f32[1, 3]
              return %q.heads, %k.heads, %v.heads
            }}
        """,
        after=f"""
            const @wq_1 : f32[2, 5]
            const @bq_1 : f32[5] = [1.0, 2.0, 0.0, 0.0, 3.0]
            func @main(%x: f32[3, 2]) {{
              %q_1 = matmul(%x, @wq_1) {PLAIN} : f32[3, 5]
              %q_2 = add(%q_1, @bq_1) : f32[3, 5]
              %q.sum = slice(%q_2) {{starts = (0, 0), extents = (3, 2), steps = (1, 1)}} : f32[3, 2]
              %k = slice(%q_2) {{starts = (0, 2), extents = (3, 2), steps = (1, 1)}} : f32[3, 2]
              %v.sum = slice(%q_2) {{starts = (0, 4), extents = (3, 1), steps = (1, 1)}} : f32[3, 1]
              %q.heads = reshape(%q.sum) {{shape = (3, 1, 2)}} : f32[3, 1, 2]
              %k.heads = reshape(%k) {{shape = (3, 2, 1)}} : f32[3, 2, 1]
              %v.heads = transpose(%v.sum) {{perm = (1, 0)}} : f32[1, 3]
              return %q.heads, %k.heads, %v.heads
            }}
        """,
    )


def test_transposed_weights_are_joined_along_their_rows() -> None:
    check_rewrites(
        MergeMatMuls(),
        before=f"""
            const @wq : f32[1, 2] = [1, 2]
            const @wk : f32[2, 2] = [5, 6, 7, 8]
            func @main(%x: f32[1, 3, 2]) {{
              %q = matmul(%x, @wq) {FLIPPED} : f32[1, 3, 1]
              %k = matmul(%x, @wk) {FLIPPED} : f32[1, 3, 2]
              %s = matmul(%k, %q) {{transpose_lhs = true, transpose_rhs = false}} : f32[1, 2, 1]
              return %s
            }}
        """,
        after=f"""
            const @wq_1 : f32[3, 2] = [1.0, 2.0, 5.0, 6.0, 7.0, 8.0]
            func @main(%x: f32[1, 3, 2]) {{
              %q_1 = matmul(%x, @wq_1) {FLIPPED} : f32[1, 3, 3]
              %q = slice(%q_1) {{starts = (0, 0, 0), extents = (1, 3, 1), \
steps = (1, 1, 1)}} : f32[1, 3, 1]
              %k = slice(%q_1) {{starts = (0, 0, 1), extents = (1, 3, 2), \
steps = (1, 1, 1)}} : f32[1, 3, 2]
              %s = matmul(%k, %q) {{transpose_lhs = true, transpose_rhs = false}} : f32[1, 2, 1]
              return %s
            }}
        """,
    )


LEFT_ALONE = {
    "there is one": "%b = reshape(%y) {shape = (2, 3)} : f32[2, 3]",
    "the left operands differ": """
        %k = matmul(%y, @v) {PLAIN} : f32[3, 2]
        %b = reshape(%k) {shape = (2, 3)} : f32[2, 3]
    """,
    "the flags differ": """
        %k = matmul(%x, @v) {FLIPPED} : f32[3, 2]
        %b = reshape(%k) {shape = (2, 3)} : f32[2, 3]
    """,
    "one is no constant": """
        %k = matmul(%x, %u) {PLAIN} : f32[3, 2]
        %b = reshape(%k) {shape = (2, 3)} : f32[2, 3]
    """,
    "one is returned": "%b = matmul(%x, @v) {PLAIN} : f32[3, 2]",
    "one is part of a larger computation": """
        %k = matmul(%x, @v) {PLAIN} : f32[3, 2]
        %b = relu(%k) : f32[3, 2]
    """,
    "one is needed at other times": """
        %k = matmul(%x, @v) {PLAIN} if %p : f32[3, 2]
        %b = reshape(%k) {shape = (2, 3)} : f32[2, 3]
    """,
    "one weight has other users": """
        %k = matmul(%x, @v) {PLAIN} : f32[3, 2]
        %n = reshape(%k) {shape = (2, 3)} : f32[2, 3]
        %b = mul(%u, @v) : f32[2, 2]
    """,
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_left_alone_if(case: str) -> None:
    lines = LEFT_ALONE[case].replace("{PLAIN}", PLAIN).replace("{FLIPPED}", FLIPPED)
    check_declines(
        MergeMatMuls(),
        f"""
        const @w : f32[2, 2] = [1, 2, 3, 4]
        const @v : f32[2, 2] = [5, 6, 7, 8]
        func @main(%x: f32[3, 2], %y: f32[3, 2], %u: f32[2, 2], %p: bool[]) {{
          %q = matmul(%x, @w) {PLAIN} : f32[3, 2]
          %a = reshape(%q) {{shape = (2, 3)}} : f32[2, 3]
          {lines}
          return %a, %b
        }}
        """,
    )


STORED = "{block_size = 2, bits = 0, activations = int8, row_block = 32}"


def test_stored_matrices_are_joined_with_their_scales() -> None:
    check_rewrites(
        MergeMatMuls(),
        before=f"""
            const @wq : i8[1, 2] = [1, 2]
            const @sq : f32[1, 1] = [1]
            const @wk : i8[2, 2] = [5, 6, 7, 8]
            const @sk : f32[2, 1] = [2, 3]
            func @main(%x: f32[3, 2]) {{
              %q = stored_matmul(%x, @wq, @sq) {STORED} : f32[3, 1]
              %k = stored_matmul(%x, @wk, @sk) {STORED} : f32[3, 2]
              %s = matmul(%k, %q) {{transpose_lhs = true, transpose_rhs = false}} : f32[2, 1]
              return %s
            }}
        """,
        after=f"""
            const @wq_1 : i8[3, 2] = [1, 2, 5, 6, 7, 8]
            const @sq_1 : f32[3, 1] = [1.0, 2.0, 3.0]
            func @main(%x: f32[3, 2]) {{
              %q_1 = stored_matmul(%x, @wq_1, @sq_1) {STORED} : f32[3, 3]
              %q = slice(%q_1) {{starts = (0, 0), extents = (3, 1), steps = (1, 1)}} : f32[3, 1]
              %k = slice(%q_1) {{starts = (0, 1), extents = (3, 2), steps = (1, 1)}} : f32[3, 2]
              %s = matmul(%k, %q) {{transpose_lhs = true, transpose_rhs = false}} : f32[2, 1]
              return %s
            }}
        """,
    )
