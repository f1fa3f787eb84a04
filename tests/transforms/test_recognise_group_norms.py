from __future__ import annotations

from afterglow.transforms.recognise_group_norms import RECOGNISE_GROUP_NORMS
from tests.transforms.rewriting import check_declines, check_rewrites

INSTANCES = "{groups = 2, epsilon = 0.5, axis = 1}"


def test_instance_norm_of_groups_with_a_scale_and_a_bias() -> None:
    check_rewrites(
        RECOGNISE_GROUP_NORMS,
        before=f"""
            const @s : f32[2] = [1, 2]
            const @b : f32[2] = [0, 1]
            const @w : f32[4, 1, 1] = [1, 2, 3, 4]
            const @c : f32[4, 1, 1] = [5, 6, 7, 8]
            func @main(%x: f32[3, 4, 2, 2]) {{
              %r = reshape(%x) {{shape = (3, 2, 8)}} : f32[3, 2, 8]
              %n = group_norm(%r, @s, @b) {INSTANCES} : f32[3, 2, 8]
              %t = reshape(%n) {{shape = (3, 4, 2, 2)}} : f32[3, 4, 2, 2]
              %m = mul(%t, @w) : f32[3, 4, 2, 2]
              %y = add(@c, %m) : f32[3, 4, 2, 2]
              return %y
            }}
        """,
        after=f"""
            const @m.scale : f32[4] = [1.0, 2.0, 6.0, 8.0]
            const @y.bias : f32[4] = [5.0, 6.0, 10.0, 12.0]
            func @main(%x: f32[3, 4, 2, 2]) {{
              %y = group_norm(%x, @m.scale, @y.bias) {INSTANCES} : f32[3, 4, 2, 2]
              return %y
            }}
        """,
    )


def test_layer_norm_of_groups() -> None:
    check_rewrites(
        RECOGNISE_GROUP_NORMS,
        before="""
            func @main(%x: f32[3, 4, 2, 2]) {
              %r = reshape(%x) {shape = (3, 2, 2, 4)} : f32[3, 2, 2, 4]
              %n = layer_norm(%r) {axis = -2, epsilon = 0.5} : f32[3, 2, 2, 4]
              %y = reshape(%n) {shape = (3, 4, 2, 2)} : f32[3, 4, 2, 2]
              return %y
            }
        """,
        after=f"""
            const @y.scale : f32[4] = [1.0, 1.0, 1.0, 1.0]
            const @y.bias : f32[4] = [0.0, 0.0, 0.0, 0.0]
            func @main(%x: f32[3, 4, 2, 2]) {{
              %y = group_norm(%x, @y.scale, @y.bias) {INSTANCES} : f32[3, 4, 2, 2]
              return %y
            }}
        """,
    )


def test_groups_across_samples_stay() -> None:
    check_declines(
        RECOGNISE_GROUP_NORMS,
        """
            const @s : f32[3] = [1, 1, 1]
            const @b : f32[3] = [0, 0, 0]
            func @main(%x: f32[3, 4, 2, 2]) {
              %r = reshape(%x) {shape = (2, 3, 8)} : f32[2, 3, 8]
              %n = group_norm(%r, @s, @b) {groups = 3, epsilon = 0.5, axis = 1} : f32[2, 3, 8]
              %y = reshape(%n) {shape = (3, 4, 2, 2)} : f32[3, 4, 2, 2]
              return %y
            }
        """,
    )


def test_another_shape_afterwards_stays() -> None:
    check_declines(
        RECOGNISE_GROUP_NORMS,
        f"""
            const @s : f32[2] = [1, 1]
            const @b : f32[2] = [0, 0]
            func @main(%x: f32[3, 4, 2, 2]) {{
              %r = reshape(%x) {{shape = (3, 2, 8)}} : f32[3, 2, 8]
              %n = group_norm(%r, @s, @b) {INSTANCES} : f32[3, 2, 8]
              %y = reshape(%n) {{shape = (3, 4, 4)}} : f32[3, 4, 4]
              return %y
            }}
        """,
    )


def test_a_result_that_serves_others_stays() -> None:
    check_declines(
        RECOGNISE_GROUP_NORMS,
        f"""
            const @s : f32[2] = [1, 1]
            const @b : f32[2] = [0, 0]
            const @w : f32[3, 1, 1] = [1, 2, 3]
            func @main(%x: f32[3, 2, 4]) {{
              %n = group_norm(%x, @s, @b) {INSTANCES} : f32[3, 2, 4]
              %m = mul(%n, @w) : f32[3, 2, 4]
              %y = add(%m, %n) : f32[3, 2, 4]
              return %y
            }}
        """,
    )


def test_a_factor_along_another_axis_stays() -> None:
    check_declines(
        RECOGNISE_GROUP_NORMS,
        f"""
            const @s : f32[2] = [1, 1]
            const @b : f32[2] = [0, 0]
            const @w : f32[2] = [1, 2]
            func @main(%x: f32[3, 2, 2]) {{
              %n = group_norm(%x, @s, @b) {INSTANCES} : f32[3, 2, 2]
              %y = mul(%n, @w) : f32[3, 2, 2]
              return %y
            }}
        """,
    )
