"""Which activations are stored as integers, and who reads them so."""

from __future__ import annotations

from afterglow.graph import Function, parse_module
from afterglow.quantization.points import find_points

CONV = "{strides = (1,), pads = (0, 0), dilations = (1,), groups = 1}"
POOL = "{kernel = (2,), strides = (2,), pads = (0, 0), dilations = (1,), ceil_mode = false}"
MATMUL = "{transpose_lhs = false, transpose_rhs = false}"
WEIGHT = "const @w : f32[2, 1, 2] = [1, 2, 3, 4]"


def main(text: str) -> Function:
    return parse_module(text).main


def points(text: str) -> dict[str, list[str]]:
    """The points by name, with the ops that read integers."""
    found = find_points(main(text)).readers
    return {value.name: [node.name for node, _ in uses] for value, uses in found.items()}


def program(*lines: str, inputs: str = "%x: f32[1, 4, 2]", result: str = "%y") -> str:
    body = "\n".join(lines)
    return f'{WEIGHT}\nfunc @main({inputs}) {{\n{body}\nreturn {result} as "y"\n}}'


def test_what_a_convolution_reads_is_stored_as_integers() -> None:
    text = program(f"%y = conv(%x, @w) {CONV} : f32[1, 4, 2]")
    assert points(text) == {"x": ["y"]}


def test_the_earlier_operand_of_a_sum_is_stored_and_the_later_one_is_fused() -> None:
    text = program(
        f"%a = conv(%x, @w) {CONV} : f32[1, 4, 2]",
        f"%b = conv(%x, @w) {CONV} : f32[1, 4, 2]",
        "%s = add(%a, %b) : f32[1, 4, 2]",
        "%r = relu(%s) : f32[1, 4, 2]",
        f"%y = conv(%r, @w) {CONV} : f32[1, 4, 2]",
    )
    assert points(text) == {"x": ["a", "b"], "a": ["s"], "r": ["y"]}


def test_a_sum_that_nothing_reads_as_integers_stays_in_floats() -> None:
    text = program(
        f"%a = conv(%x, @w) {CONV} : f32[1, 4, 2]",
        "%y = add(%a, %x) : f32[1, 4, 2]",
    )
    assert points(text) == {"x": ["a"]}


def test_what_is_pooled_has_one_scale_with_its_source() -> None:
    function = main(
        program(
            f"%a = conv(%x, @w) {CONV} : f32[1, 4, 2]",
            f"%p = max_pool(%a) {POOL} : f32[1, 2, 2]",
            f"%y = conv(%p, @w) {CONV} : f32[1, 2, 2]",
        )
    )
    found = find_points(function)
    names = {value.name: found.parameters_from(value).name for value in found.readers}
    assert names == {"x": "x", "a": "a", "p": "a"}


def test_what_is_joined_has_one_scale_with_the_result() -> None:
    function = main(
        program(
            f"%a = conv(%x, @w) {CONV} : f32[1, 4, 2]",
            f"%b = conv(%x, @w) {CONV} : f32[1, 4, 2]",
            "%c = concat(%a, %b) {axis = 1} : f32[1, 8, 2]",
            f"%y = conv(%c, @w) {CONV} : f32[1, 8, 2]",
        )
    )
    found = find_points(function)
    names = {value.name: found.parameters_from(value).name for value in found.readers}
    assert names == {"x": "x", "a": "c", "b": "c", "c": "c"}


def test_normalised_values_are_stored_as_they_are_needed() -> None:
    """A sum of floats around a product stays one: only what the product reads is rounded."""
    text = (
        "const @w : f32[2, 2] = [1, 2, 3, 4]\nconst @g : f32[2] = [1, 1]\n"
        "func @main(%x: f32[3, 2]) {\n"
        "%n = layer_norm(%x, @g, @g) {axis = -1, epsilon = 0.1} : f32[3, 2]\n"
        f"%a = matmul(%n, @w) {MATMUL} : f32[3, 2]\n"
        "%y = add(%a, %n) : f32[3, 2]\n"
        'return %y as "y"\n}'
    )
    assert points(text) == {"n": ["a"]}


def test_a_layer_that_is_kept_reads_floats() -> None:
    function = main(program(f"%y = conv(%x, @w) {CONV} : f32[1, 4, 2]"))
    assert not find_points(function, keep=lambda node: node.name == "y").readers


def test_what_a_logarithm_reads_stays_in_floats() -> None:
    text = program(f"%a = conv(%x, @w) {CONV} : f32[1, 4, 2]", "%y = log(%a) : f32[1, 4, 2]")
    assert points(text) == {}


def test_functions_read_integers_if_there_are_only_integers() -> None:
    text = program(
        f"%a = conv(%x, @w) {CONV} : f32[1, 4, 2]",
        "%s = sigmoid(%a) : f32[1, 4, 2]",
        "%r = relu(%s) : f32[1, 4, 2]",
        f"%y = conv(%r, @w) {CONV} : f32[1, 4, 2]",
    )
    found = find_points(main(text), integer_only=True).readers
    assert [value.name for value in found] == ["x", "a", "r"]
    assert list(points(text)) == ["x", "r"]


def test_what_is_moved_before_a_logarithm_and_after_it_stays_in_floats() -> None:
    text = program(
        f"%a = conv(%x, @w) {CONV} : f32[1, 4, 2]",
        "%s = mul(%a, %a) : f32[1, 4, 2]",
        "%t = transpose(%s) {perm = (0, 2, 1)} : f32[1, 2, 4]",
        "%q = sqrt(%t) : f32[1, 2, 4]",
        "%l = log(%q) : f32[1, 2, 4]",
        "%m = transpose(%l) {perm = (0, 2, 1)} : f32[1, 4, 2]",
        f"%y = conv(%m, @w) {CONV} : f32[1, 4, 2]",
    )
    assert points(text) == {"m": ["y"]}


def test_norms_attention_and_parts_of_products_are_stored_if_there_are_only_integers() -> None:
    heads = "f32[1, 1, 4, 2]"
    text = program(
        f"%p = matmul(%x, @w) {MATMUL} : f32[1, 4, 6]",
        *(
            line
            for place, name in enumerate("qkv")
            for line in (
                f"%{name}0 = slice(%p) {{starts = (0, 0, {2 * place}), extents = (1, 4, 2), "
                "steps = (1, 1, 1)} : f32[1, 4, 2]",
                f"%{name} = reshape(%{name}0) {{shape = (1, 1, 4, 2)}} : {heads}",
            )
        ),
        f"%a = attention(%q, %k, %v) {{scale = 1, causal = false}} : {heads}",
        "%r = reshape(%a) {shape = (1, 4, 2)} : f32[1, 4, 2]",
        "%n = layer_norm(%r) {axis = -1, epsilon = 0.00001} : f32[1, 4, 2]",
        f"%y = matmul(%n, @w) {MATMUL} : f32[1, 4, 6]",
    )
    text = text.replace(WEIGHT, "const @w : f32[2, 6] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3]")
    found = find_points(main(text), integer_only=True).readers
    names = {value.name: [node.name for node, _ in uses] for value, uses in found.items()}
    parts = {name: ["a"] for name in "qkv"} | {f"{name}0": [name] for name in "qkv"}
    assert names == {"x": ["p"], **parts, "a": ["r"], "r": ["n"], "n": ["y"]}
    assert points(text) == {"x": ["p"], "n": ["y"]}
