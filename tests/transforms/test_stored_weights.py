"""Quantized weights next to the op that takes them."""

import pytest

from afterglow.transforms.fold_constants import FoldConstants
from afterglow.transforms.stored_weights import MOVE_STORED_WEIGHTS
from tests.transforms.rewriting import check_declines, check_rewrites


def program(move: str, scales: str, *, axis: int = 0) -> str:
    return f"""
        const @w : i8[2, 3, 1] = [1, 2, 3, 4, 5, 6]
        const @scale : {scales}
        func @main() {{
          %v = dequantize_linear(@w, @scale) \
{{axis = {axis}, dtype = f32, block_size = 0}} : f32[2, 3, 1]
          %y = {move}
          return %y
        }}
    """


@pytest.mark.parametrize(
    ("move", "scales", "axis", "place"),
    [
        ("reshape({}) {{shape = (1, 2, 3)}} : {}[1, 2, 3]", "f32[2] = [0.5, 2.0]", 0, 1),
        ("reshape({}) {{shape = (2, 1, 3)}} : {}[2, 1, 3]", "f32[3] = [0.5, 2.0, 4.0]", 1, 2),
        ("reshape({}) {{shape = (6,)}} : {}[6]", "f32[] = [0.5]", 1, 0),
        ("transpose({}) {{perm = (1, 2, 0)}} : {}[3, 1, 2]", "f32[2] = [0.5, 2.0]", 0, 2),
    ],
)
def test_the_stored_weight_moves(move: str, scales: str, axis: int, place: int) -> None:
    shape = move.rpartition("[")[2]
    check_rewrites(
        MOVE_STORED_WEIGHTS,
        before=program(move.format("%v", "f32"), scales, axis=axis),
        after=f"""
            const @w : i8[2, 3, 1] = [1, 2, 3, 4, 5, 6]
            const @scale : {scales}
            func @main() {{
              %y_1 = {move.format("@w", "i8")}
              %y = dequantize_linear(%y_1, @scale) \
{{axis = {place}, dtype = f32, block_size = 0}} : f32[{shape}
              return %y
            }}
        """,
    )


def test_an_axis_with_scales_is_not_taken_apart() -> None:
    move = "reshape(%v) {shape = (6,)} : f32[6]"
    check_declines(MOVE_STORED_WEIGHTS, program(move, "f32[2] = [0.5, 2.0]"))


def test_then_it_folds() -> None:
    check_rewrites(
        FoldConstants(),
        before="""
            const @w : i8[2, 1] = [1, 2]
            const @scale : f32[2] = [0.5, 2.0]
            func @main() {
              %v = reshape(@w) {shape = (1, 2)} : i8[1, 2]
              %y = dequantize_linear(%v, @scale) {axis = 1, dtype = f32, block_size = 0} : f32[1, 2]
              return %y
            }
        """,
        after="""
            const @scale : f32[2] = [0.5, 2.0]
            const @v : i8[1, 2] = [1, 2]
            func @main() {
              %y = dequantize_linear(@v, @scale) {axis = 1, dtype = f32, block_size = 0} : f32[1, 2]
              return %y
            }
        """,
    )
