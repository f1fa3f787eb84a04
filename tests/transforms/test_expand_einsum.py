"""Einsums spelled out."""

from __future__ import annotations

from afterglow.graph import parse_module
from afterglow.transforms.expand_einsum import EXPAND_EINSUM
from tests.transforms.rewriting import assert_same_meaning, check_rewrites


def test_a_product_becomes_a_matmul() -> None:
    module = parse_module("""
        func @main(%x: f32[2, 3], %y: f32[3, 4]) {
          %z = einsum(%x, %y) {equation = "ij,jk->ik"} : f32[2, 4]
          return %z
        }
    """)
    reference = module.clone()
    assert EXPAND_EINSUM.run(module.main)
    ops = {node.op.mnemonic for node in module.main.nodes}
    assert ops == {"reshape", "matmul"}
    assert_same_meaning(reference.main, module.main)


def test_a_diagonal_becomes_a_strided_slice() -> None:
    check_rewrites(
        EXPAND_EINSUM,
        before="""
            func @main(%x: f32[3, 3]) {
              %z = einsum(%x) {equation = "ii->i"} : f32[3]
              return %z
            }
        """,
        after="""
            func @main(%x: f32[3, 3]) {
              %z_1 = transpose(%x) {perm = (0, 1)} : f32[3, 3]
              %z_2 = reshape(%z_1) {shape = (9,)} : f32[9]
              %z = slice(%z_2) {starts = (0,), extents = (3,), steps = (4,)} : f32[3]
              return %z
            }
        """,
    )
