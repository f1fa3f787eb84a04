"""Ops that users declare, without touching the package."""

from __future__ import annotations

import inspect
import warnings
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.backends.cpu.kernels import table
from afterglow.exporters.onnx.writer import to_onnx
from afterglow.frontends.definition.dialect import Dialect
from afterglow.graph import Op, run_function
from afterglow.ops.elementwise import Mul, Neg, scalar
from afterglow.ops.functions import Cos, Sin
from afterglow.support.own_ops import own_ops_digest
from tests.cli.command import Command
from tests.ops.own_ops import X, forget, forget_own_ops, module_with, onnx_model

__all__ = ["forget_own_ops"]


def declare_swirl(**bindings: str) -> Any:
    @ag.op("acme::swirl", **bindings)
    class Swirl(ag.Op):
        """x times the cosine of an angle."""

        angle: float = 0.5

        def infer(self, x):
            return x

        def evaluate(self, x):
            return x * np.float32(np.cos(self.angle))

    return Swirl


HOST = "acme::swirl has no lowering and no kernel: the host runs it, by its definition in NumPy"


def test_with_its_meaning_alone_the_host_runs_it() -> None:
    swirl = declare_swirl()
    with pytest.warns(ag.AfterglowWarning) as caught:
        model = ag.compile(module_with(swirl(angle=0.25)))
    assert [str(each.message) for each in caught] == [HOST]
    np.testing.assert_array_equal(model(X), X * np.float32(np.cos(0.25)))
    assert "plan host" in model.ir()


def test_with_a_lowering_it_is_compiled_and_fused() -> None:
    @ag.op("acme::wave")
    class Wave(ag.Op):
        factor: float = 2.0

        def infer(self, x):
            return x

        def evaluate(self, x):
            return np.sin(np.float32(self.factor) * x)

        def lower(self, b, x):
            return b.emit(Sin(), b.emit(Mul(), x, scalar(b, self.factor, x)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ag.compile(module_with(Wave(3.0)))
    assert model.memory.arena_bytes == 0
    assert "acme::wave" not in model.ir()
    np.testing.assert_allclose(model(X), np.sin(3 * X), rtol=1e-5)


def test_with_a_kernel_it_is_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    @ag.op("acme::reverse")
    class Reverse(ag.Op):
        def infer(self, x):
            return x

        def evaluate(self, x):
            return x[:, ::-1]

    monkeypatch.setitem(table.ENTRIES, Reverse, None)  # removed in the end

    @table.kernel(Reverse)
    def reverse(k):
        rows, columns = k.step.outs[0].type.shape
        with k.phase(units=rows, work=rows * columns) as p:
            x, y = p.source(0), p.sink()
            with p.units() as row, p.e.loop(columns) as column:
                y.row(row).put(column, x.row(row).load(p.e.index(columns - 1) - column))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ag.compile(module_with(Reverse()), cache=False)
    assert "plan direct" in model.ir()
    np.testing.assert_array_equal(model(X), X[:, ::-1])


def test_a_function_declares_an_op_that_has_the_type_of_its_first_operand() -> None:
    @ag.op("acme::mixed")
    def mixed(x, y, *, share=0.5):
        """x and a share of y."""
        return x + np.float32(share) * y

    assert mixed.operand_names == ("x", "y")
    assert mixed.__doc__ == "x and a share of y."
    model = ag.compile(module_with(mixed(share=0.25), 2), backend="interpreter")
    np.testing.assert_array_equal(model(X, X + 1), X + np.float32(0.25) * (X + 1))


def test_a_function_may_have_a_type_rule() -> None:
    @ag.op("acme::rows", infer=lambda x, keep: x.with_shape(x.shape[:keep]))
    def rows(x, *, keep=1):
        return x.sum(axis=tuple(range(keep, x.ndim)))

    model = ag.compile(module_with(rows()), backend="interpreter")
    np.testing.assert_array_equal(model(X), X.sum(1))


def test_a_text_in_index_notation_declares_an_op() -> None:
    near = ag.op(
        "acme::near",
        "d[i, j] = sum(k) abs(a[i, k] - scale * b[j, k])",
        attributes={"scale": 1.0},
        onnx="com.acme::Near",
    )
    wanted = np.abs(X[:, None] - 2 * X[None]).sum(-1)
    np.testing.assert_allclose(ag.compile(module_with(near(scale=2.0), 2))(X, X), wanted)
    model = ag.compile(onnx_model("Near", inputs=2, scale=2.0))
    np.testing.assert_allclose(model(X, X), wanted)


def test_an_op_of_an_onnx_domain_is_the_one_bound_to_it() -> None:
    declare_swirl(onnx="com.acme::Swirl")
    with pytest.warns(ag.AfterglowWarning, match="acme::swirl"):
        model = ag.compile(onnx_model("Swirl", angle=0.25), cache=False)
    np.testing.assert_array_equal(model(X), X * np.float32(np.cos(0.25)))


class Turn(Enum):
    """Which way."""

    LEFT = "left"
    RIGHT = "right"


def test_attributes_have_the_types_that_the_class_declares() -> None:
    @ag.op("acme::turn", onnx="com.acme::Turn")
    class TurnOp(ag.Op):
        way: Turn
        often: int = 1
        sizes: tuple[float, ...] = ()
        back: bool = False

        def infer(self, x):
            return x

        def evaluate(self, x):
            return x

    given = {"way": "left", "often": 2, "sizes": [1.0, 2.0], "back": 1}
    (node,) = ag.import_model(onnx_model("Turn", **given)).main.nodes
    assert node.op == TurnOp(Turn.LEFT, 2, (1.0, 2.0), True)
    assert repr(node.op.back) == "True"
    for attributes, what in (
        ({}, "attribute 'way' is missing"),
        ({"way": "up"}, "attribute 'way' must be one of 'left', 'right', it is 'up'"),
        ({"way": "left", "often": 0.5}, "attribute 'often' must be of type int, it is 0.5"),
        ({"way": "left", "odd": 1}, "acme::turn has no attribute 'odd'"),
    ):
        with pytest.raises(ag.AfterglowError) as caught:
            ag.import_model(onnx_model("Turn", **attributes))
        assert caught.value.what == what
        assert caught.value.where.startswith("in node 'the node' (Turn of com.acme")


def test_ops_of_other_dialects_are_bound_by_their_names_there() -> None:
    declare_swirl(torch="acme::swirl", tflite="Swirl")
    assert Dialect("torch").knows("acme", "swirl.default", 1)
    assert Dialect("tflite").knows("custom", "Swirl", 1)
    assert not Dialect("onnx").knows("acme", "swirl", 1)


def returning(result: Any, infer: Any = None) -> Any:
    @ag.op("acme::odd", infer=infer)
    def odd(x):
        return result(x)

    return odd


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (lambda x: x.T, "evaluate returned float32[3, 2], infer says f32[2, 3]"),
        (lambda x: x.astype(np.float64), "evaluate returned float64[2, 3], infer says f32[2, 3]"),
        (lambda x: (x, x), "evaluate returned 2 results, infer says 1"),
        (lambda x: x[5], "evaluate failed: IndexError: index 5 is out of bounds for axis 0"),
    ],
)
def test_what_it_returns_is_checked_when_it_runs(result: Any, what: str) -> None:
    with pytest.warns(ag.AfterglowWarning):
        model = ag.compile(module_with(returning(result)(), name="here"))
    with pytest.raises(ag.EvaluationError) as caught:
        model(X)
    assert caught.value.what.startswith(f"acme::odd: {what}")
    assert caught.value.where == "in node 'here'"


def test_operands_cannot_be_written_and_results_are_no_operands() -> None:
    def writes(x):
        x[:] = 5
        return x

    given = X.copy()
    with pytest.warns(ag.AfterglowWarning):
        model = ag.compile(module_with(returning(writes)(), name="here"))
    with pytest.raises(ag.EvaluationError, match="assignment destination is read-only") as caught:
        model(given)
    assert caught.value.help == "operands belong to others: write into a copy of them, x = x.copy()"
    with pytest.warns(ag.AfterglowWarning):
        model = ag.compile(module_with(returning(lambda x: x)()))
    model(given)[:] = 5
    np.testing.assert_array_equal(given, X)


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (lambda x: "f32", "infer must return a TensorType or a tuple of them, got 'f32'"),
        (lambda x: x.shape[7], "infer failed: IndexError: tuple index out of range"),
    ],
)
def test_a_type_rule_is_checked_where_the_op_is_applied(rule: Any, what: str) -> None:
    with pytest.raises(ag.CompileError) as caught:
        module_with(returning(lambda x: x, rule)(), name="here")
    assert caught.value.what == f"acme::odd: {what}"
    assert caught.value.where == "in function @main, node %here"


def bad_class(**members: Any) -> type:
    return type("Bad", (Op,), {"infer": lambda self, x: x, **members})


def _evaluate(self: Any, x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("name", "target", "what"),
    [
        ("swirl", bad_class(), "the name of an op must be NAMESPACE::NAME, got 'swirl'"),
        ("acme::bad", type("Bad", (), {}), "acme::bad: class Bad must derive from ag.Op"),
        ("acme::bad", bad_class(), "acme::bad: class Bad has no evaluate"),
        ("acme::bad", 3, "acme::bad: a class or a function declares an op, got 3"),
        (
            "acme::bad",
            bad_class(evaluate=lambda self, y: y),
            "acme::bad: Bad.evaluate takes ('y',), infer takes ('x',)",
        ),
        (
            "acme::bad",
            bad_class(evaluate=_evaluate, angle=0.5),
            "acme::bad: attribute 'angle' of class Bad has no type",
        ),
        ("acme::bad", lambda *, n=1: n, "acme::bad: function <lambda> takes no operands"),
        ("acme::bad", lambda x, *, n: x, "acme::bad: attribute 'n' has no default"),
        ("acme::bad", lambda x, *, n=[]: x, "acme::bad: n=[] cannot be an attribute"),
    ],
)
def test_a_wrong_declaration_is_refused_at_once(name: str, target: Any, what: str) -> None:
    with pytest.raises(ag.UsageError) as caught:
        ag.op(name)(target)
    assert caught.value.what == what
    assert own_ops_digest() == ""


@pytest.mark.parametrize(
    ("bindings", "help"),
    [
        ({"onnx": "Swirl"}, "write onnx='com.acme::Swirl'"),
        ({"torch": "swirl"}, "write torch='acme::swirl'"),
        ({"tflite": "acme::Swirl"}, "write tflite='Swirl'"),
    ],
)
def test_a_binding_names_an_op_as_its_format_does(bindings: dict[str, str], help: str) -> None:
    with pytest.raises(ag.UsageError, match=r"is not the name of an op in") as caught:
        declare_swirl(**bindings)
    assert caught.value.help == help


def test_its_own_gradient_is_used_and_without_one_there_is_an_error() -> None:
    @ag.op("acme::cosine")
    class Cosine(ag.Op):
        def infer(self, x):
            return x

        def evaluate(self, x):
            return np.cos(x)

        def gradient(self, b, out, grad, x):
            return (b.emit(Mul(), grad, b.emit(Neg(), b.emit(Sin(), x))),)

    def loss(op: ag.Op) -> ag.Function:
        function = ag.Function("main")
        x = function.input("x", ag.TensorType.of(np.float32(0)))
        function.output("loss", ag.Builder(function).emit(op, x, name="turned"))
        return function

    at = np.float32(0.3)
    assert run_function(ag.differentiate(loss(Cosine())), [at])[1] == -np.sin(at)
    assert run_function(ag.differentiate(loss(Cos())), [at])[1] == -np.sin(at)
    with pytest.raises(ag.AfterglowError, match="acme::swirl") as caught:
        ag.differentiate(loss(declare_swirl()()))
    assert "turned" in str(caught.value)


def test_texts_and_files_name_it_and_say_if_it_is_missing(tmp_path: Path) -> None:
    swirl = declare_swirl()
    module = module_with(swirl(0.25))
    text = ag.print_module(module)
    assert "acme::swirl(%x0) {angle = 0.25}" in text
    assert ag.print_module(ag.parse_module(text)) == text
    with pytest.warns(ag.AfterglowWarning):
        model = ag.compile(module)
    model.save(tmp_path / "swirl.agc")
    np.testing.assert_array_equal(ag.load(tmp_path / "swirl.agc")(X), model(X))
    forget("acme::swirl")
    wanted = inspect.cleandoc("""
        error: op 'acme::swirl' is not declared
          in line {}
          help: import the file that declares it first; on the command line, --ops FILE.py
    """)
    with pytest.raises(ag.ParseError) as caught:
        ag.parse_module(text)
    assert str(caught.value) == wanted.format(2)
    with pytest.raises(ag.ParseError) as caught:
        ag.load(tmp_path / "swirl.agc")
    assert caught.value.what == "op 'acme::swirl' is not declared"


def test_the_cache_knows_declarations_apart(tmp_path: Path) -> None:
    digests = [own_ops_digest()]
    for factor in (1.0, 2.0):
        scope: dict[str, Any] = {"ag": ag}
        exec(f"@ag.op('acme::times')\ndef times(x):\n    return x * {factor}", scope)
        digests.append(own_ops_digest())
    ag.op("acme::times", version="2")(scope["times"].evaluate)
    digests.append(own_ops_digest())
    assert len({*digests}) == 4


def test_a_declaration_replaces_the_one_before_it() -> None:
    first, second = declare_swirl(), declare_swirl()
    assert first is not second
    text = ag.print_module(module_with(second()))
    (node,) = ag.parse_module(text).main.nodes
    assert type(node.op) is second


OPS_FILE = """
import afterglow as ag

near = ag.op("acme::near", "d[i, j] = sum(k) abs(a[i, k] - b[j, k])", onnx="com.acme::Near")
"""


def test_the_command_line_takes_files_that_declare_ops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    afterglow, model, ops = Command(capsys), tmp_path / "near.onnx", tmp_path / "my_ops.py"
    model.write_bytes(onnx_model("Near", inputs=2))
    assert afterglow("check", str(model)).status == 3
    ops.write_text(OPS_FILE)
    assert afterglow("check", str(model), "--ops", str(ops)).status == 0
    ops.write_text("import nothing_of_this_name")
    why = "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    afterglow.fails(2, f"error: --ops: {ops} failed: {why}", "check", str(model), "--ops", str(ops))
    ops.unlink()
    message = f"""
        error: --ops: {ops} is not a Python file
          help: write --ops FILE.py
    """
    afterglow.fails(2, message, "run", str(model), "--ops", str(ops))


def test_it_is_exported_as_the_node_that_it_is_bound_to() -> None:
    swirl = declare_swirl(onnx="com.acme::Swirl")
    text = ag.print_module(module_with(swirl(0.25)))
    exported = to_onnx(ag.parse_module(text))
    assert [(each.domain, each.version) for each in exported.opset_import][1:] == [("com.acme", 1)]
    (node,) = ag.import_model(exported).main.nodes
    assert node.op == swirl(0.25)


def test_programs_with_it_are_checked_like_all_others() -> None:
    with pytest.warns(ag.AfterglowWarning):
        model = ag.compile(module_with(declare_swirl()()), verify=True)
    np.testing.assert_array_equal(model(X), X * np.float32(np.cos(0.5)))
