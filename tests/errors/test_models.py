"""Models that cannot be imported: one error that says all that is wrong, and where."""

from __future__ import annotations

import inspect

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx import import_onnx
from afterglow.frontends.onnx.registry import ONNX
from afterglow.graph import Value
from afterglow.runtime.native.machine import usable_memory
from afterglow.support.errors import (
    AfterglowError,
    InternalError,
    MemoryLimitError,
    ModelError,
    UnsupportedError,
)
from tests.errors.malformed import Cases, Made, check
from tests.frontends.models import BOOL, FLOAT, INT64, body, graph, info, model, node, tensor

CASES = Cases()
refused = CASES.refused


def relu(x: str = "x", y: str = "y", name: str = "") -> onnx.NodeProto:
    return node("Relu", [x], [y], name=name)


@refused(
    ModelError,
    """
    error: ai.onnx version 17 has no such op
      in node 'odd' (Frobnicate of ai.onnx version 17)
    """,
)
def an_op_that_onnx_does_not_have() -> onnx.ModelProto:
    return model([node("Frobnicate", ["x"], ["y"], name="odd")])


@refused(
    UnsupportedError,
    """
    error: this op is not supported; its domain is 'com.acme'
      in node 'odd' (Frobnicate of com.acme version 3)
      help: declare it with ag.op, add it to the model as a function, or replace it
    """,
)
def an_op_of_an_unknown_domain() -> onnx.ModelProto:
    frobnicate = node("Frobnicate", ["x"], ["y"], name="odd", domain="com.acme")
    return model([frobnicate], domains={"com.acme": 3})


@refused(
    ModelError,
    """
    error: the model cannot be imported: 9 problems
        tensor 'w': it has 4 bytes, its shape (3,) needs 12
        Odd of com.acme version 1, nodes 'first', 'a1', 'a2' and 2 more: this op is not supported; its domain is 'com.acme'; declare it with ag.op, add it to the model as a function, or replace it
        Transpose of ai.onnx version 17, node 'turn': transpose: perm (0, 0) does not order the 2 axes of f32[2, 3]
        Frobnicate of ai.onnx version 17, node 'after': ai.onnx version 17 has no such op
        output 'missing' is produced by no node
    """,  # noqa: E501  as users see it
)
def several_problems_at_once() -> onnx.ModelProto:
    odd = [
        node("Odd", ["x"], [f"a{i}"], name="" if i else "first", domain="com.acme")
        for i in range(5)
    ]
    rest = [
        node("Transpose", ["x"], ["b"], name="turn", perm=[0, 0]),
        node("Frobnicate", ["a0"], ["y"], name="after"),
        node("Add", ["b", "w"], ["c"], name="behind what is broken"),
    ]
    made = graph([*odd, *rest], outputs=("y", "missing"))
    made.initializer.append(TensorProto(name="w", data_type=FLOAT, dims=[3], raw_data=b"1234"))
    return model(made)


@refused(ModelError, "error: nodes form a cycle: 'second' -> 'third' -> 'first' -> 'second'")
def nodes_in_a_cycle() -> onnx.ModelProto:
    return model(
        [
            node("Add", ["x", "c"], ["a"], name="first"),
            relu("a", "b", "second"),
            relu("b", "c", "third"),
            relu("c", "y", "behind"),
        ]
    )


@refused(ModelError, "error: nodes form a cycle: 'loop' -> 'loop'")
def a_node_that_reads_its_own_result() -> onnx.ModelProto:
    return model([node("Add", ["x", "a"], ["a"], name="loop"), relu("a")])


@refused(ModelError, "error: nodes form a cycle: 'choose' -> 'before' -> 'choose'")
def a_cycle_through_a_sub_graph() -> onnx.ModelProto:
    branch = body([relu("a", "t")], (), ("t",))
    choose = node("If", ["c"], ["y"], name="choose", then_branch=branch, else_branch=branch)
    return model([relu("y", "a", "before"), choose], inputs=("x", info("c", (), BOOL)))


@refused(
    ModelError,
    """
    error: the name 'nowhere' is not defined
      in node 'sum' (Add of ai.onnx version 17)
    """,
)
def a_name_that_nothing_defines() -> onnx.ModelProto:
    return model([node("Add", ["x", "nowhere"], ["y"], name="sum")])


@refused(
    ModelError,
    """
    error: the name 'y' is defined twice
      in node 'second' (Relu of ai.onnx version 17)
      help: ONNX has every name once: rename one of the two, or export the model anew
    """,
)
def two_nodes_with_one_result() -> onnx.ModelProto:
    return model([relu(name="first"), relu(name="second")])


@refused(
    ModelError,
    """
    error: the name 'x' is defined twice
      in node 'again' (Relu of ai.onnx version 17)
      help: ONNX has every name once: rename one of the two, or export the model anew
    """,
)
def a_node_that_redefines_an_input() -> onnx.ModelProto:
    return model([relu("x", "x", "again"), relu()])


@refused(
    ModelError,
    """
    error: the name 'x' is defined twice
      help: ONNX has every name once: rename one of the two, or export the model anew
    """,
)
def two_inputs_with_one_name() -> onnx.ModelProto:
    return model([relu()], inputs=("x", "x"))


@refused(
    ModelError,
    """
    error: the name 'w' is defined twice
      help: ONNX has every name once: rename one of the two, or export the model anew
    """,
)
def two_initializers_with_one_name() -> onnx.ModelProto:
    made = graph([node("Add", ["x", "w"], ["y"])], constants={"w": np.ones(3, np.float32)})
    made.initializer.append(tensor("w", np.zeros(3, np.float32)))
    return model(made)


@refused(ModelError, "error: the model has no outputs")
def no_outputs() -> onnx.ModelProto:
    return model([relu()], outputs=())


@refused(ModelError, "error: output 'y' is produced by no node")
def no_nodes() -> onnx.ModelProto:
    return model([])


@refused(ModelError, "error: two outputs have the name 'y'")
def two_outputs_with_one_name() -> onnx.ModelProto:
    return model([relu()], outputs=("y", "y"))


@refused(ModelError, "error: output 'y' is declared to hold i64, it is f32[2, 3]")
def an_output_of_another_element_type() -> onnx.ModelProto:
    return model([relu()], outputs=(info("y", (2, 3), INT64),))


@refused(ModelError, "error: the file is not an ONNX model: it has no graph")
def no_graph() -> onnx.ModelProto:
    return onnx.ModelProto(ir_version=8)


@refused(ModelError, "error: the model does not say which version of ai.onnx it uses")
def no_opset() -> onnx.ModelProto:
    made = model([relu()])
    del made.opset_import[:]
    return made


@refused(ModelError, "error: the model names two versions of ai.onnx")
def two_opsets() -> onnx.ModelProto:
    return model([relu()], domains={"ai.onnx": 13})


@refused(ModelError, "error: ai.onnx has no version 0")
def opset_zero() -> onnx.ModelProto:
    return model([relu()], opset=0)


@refused(
    ModelError,
    """
    error: ai.onnx version 999 has no such op
      in node 'new' (Frobnicate of ai.onnx version 999)
      help: the model uses version 999 of ai.onnx, {newest} is the newest known
    """.replace("{newest}", str(onnx.defs.onnx_opset_version())),
)
def an_op_of_the_future() -> onnx.ModelProto:
    return model([node("Frobnicate", ["x"], ["y"], name="new")], opset=999)


@refused(
    ModelError,
    """
    error: attribute 'axis' must be an integer, it is a number
      in node 'soft' (Softmax of ai.onnx version 17)
    """,
)
def an_attribute_of_the_wrong_type() -> onnx.ModelProto:
    return model([node("Softmax", ["x"], ["y"], name="soft", axis=1.5)])


@refused(
    ModelError,
    """
    error: attribute 'to' is missing
      in node 'cast' (Cast of ai.onnx version 17)
    """,
)
def an_attribute_that_is_missing() -> onnx.ModelProto:
    return model([node("Cast", ["x"], ["y"], name="cast")])


@refused(
    ModelError,
    """
    error: there is no element type 99
      in node 'cast' (Cast of ai.onnx version 17)
    """,
)
def a_cast_to_no_element_type() -> onnx.ModelProto:
    return model([node("Cast", ["x"], ["y"], name="cast", to=99)])


@refused(
    ModelError,
    """
    error: softmax: axis 7 is out of range for x: f32[2, 3] has 2 axes
      in node 'soft' (Softmax of ai.onnx version 17)
        > %y = softmax(%x) {axis = 7}
      help: axes run from -2 to 1
    """,
)
def an_axis_that_is_not_there() -> onnx.ModelProto:
    return model([node("Softmax", ["x"], ["y"], name="soft", axis=7)])


@refused(
    ModelError,
    """
    error: add: lhs and rhs must hold the same elements, got f32[2, 3] and i64[2, 3]
      in node 'sum' (Add of ai.onnx version 17)
          %a = relu(%x) : f32[2, 3]
        > %y = add(%a, %i)
      help: insert a cast
    """,
)
def operands_of_different_element_types() -> onnx.ModelProto:
    nodes = [relu("x", "a"), node("Add", ["a", "i"], ["y"], name="sum")]
    return model(nodes, inputs=("x", info("i", (2, 3), INT64)))


@refused(
    ModelError,
    """
    error: add: shapes do not broadcast: lhs f32[2, 3], rhs f32[4, 3]
      in node 'sum' (Add of ai.onnx version 17)
        > %y = add(%x, %i)
      help: extents must be equal or 1, counted from the last axis
    """,
)
def operands_that_do_not_broadcast() -> onnx.ModelProto:
    return model([node("Add", ["x", "i"], ["y"], name="sum")], inputs=("x", info("i", (4, 3))))


@refused(
    ModelError,
    """
    error: input 1 is missing
      in node 'sum' (Add of ai.onnx version 17)
    """,
)
def an_operand_that_is_missing() -> onnx.ModelProto:
    return model([node("Add", ["x", ""], ["y"], name="sum")])


@refused(
    ModelError,
    """
    error: attribute 'pads' must have 4 numbers, it has 3
      in node 'pool' (MaxPool of ai.onnx version 17)
    """,
)
def a_list_that_is_too_short() -> onnx.ModelProto:
    pool = node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[2, 2], pads=[0, 0, 0])
    return model([pool], inputs=[info("x", (1, 1, 4, 4))], outputs=[info("y", None)])


@refused(
    ModelError,
    """
    error: input 1 must hold one real number, it is i64[0]
      in node 'best' (TopK of ai.onnx version 17)
    """,
)
def a_number_that_is_none() -> onnx.ModelProto:
    best = node("TopK", ["x", "k"], ["y", "i"], name="best")
    return model([best], constants={"k": np.zeros(0, np.int64)})


@refused(
    ModelError,
    """
    error: 'x' must have 4 axes, it is f32[2, 3]
      in node 'shuffle' (DepthToSpace of ai.onnx version 17)
    """,
)
def a_rank_that_an_op_has_not() -> onnx.ModelProto:
    return model([node("DepthToSpace", ["x"], ["y"], name="shuffle", blocksize=2)])


@refused(
    ModelError,
    """
    error: attribute 'mode' must be one of 'nearest', 'linear', 'bilinear', 'cubic', it is 'cubist'
      in node 'scale' (Resize of ai.onnx version 17)
    """,
)
def a_mode_that_there_is_not() -> onnx.ModelProto:
    scales = {"scales": np.array([2, 2], np.float32)}
    resize = node("Resize", ["x", "", "scales"], ["y"], name="scale", mode="cubist")
    return model([resize], constants=scales)


@refused(
    MemoryLimitError,
    f"""
    error: a result is too large: f32[1073741824, 32768, 2, 3] takes {24 * 2**45:,} bytes, \
the limit is {min(2**31, usable_memory()):,}
      in node 'wide' (Expand of ai.onnx version 17)
      help: allow more with max_memory, or --max-memory
    """,
)
def a_result_of_absurd_size() -> onnx.ModelProto:
    shape = np.array([2**30, 2**15, 2, 3])
    return model([node("Expand", ["x", "shape"], ["y"], name="wide")], constants={"shape": shape})


@refused(
    UnsupportedError,
    """
    error: a shape depends on 'wide', which takes long to compute
      in node 'which' (NonZero of ai.onnx version 17)
    """,
)
def a_value_of_absurd_size_that_decides_a_shape() -> onnx.ModelProto:
    constants = {"shape": np.array([2**28, 2]), "one": np.ones((), np.float32)}
    wide = node("Expand", ["one", "shape"], ["wide"])
    which = node("NonZero", ["wide"], ["y"], name="which")
    return model([wide, which], outputs=(info("y", None, INT64),), constants=constants)


@refused(ModelError, "error: input 2 of 2 has no name")
def an_input_without_name() -> onnx.ModelProto:
    return model([relu()], inputs=(info("x", [2, 3]), info("", [2])))


@refused(ModelError, "error: output 1 of 2 has no name")
def an_output_without_name() -> onnx.ModelProto:
    return model([relu()], outputs=(info("", [2]), info("y", None)))


@refused(
    ModelError,
    """
    error: scan: body must return the carried types (f32[2]) first, @y.body returns (i64[1])
      in node 's' (Scan of ai.onnx version 17)
        > %y = scan(%x, %x) {body = @y.body, length = 2, carried = 1, scanned = 1, reverse = false}
    """,
)
def a_scan_that_carries_integers_where_it_began_with_floats() -> onnx.ModelProto:
    shape = node("Shape", ["a"], ["b"])
    inner = body([shape], [info("a", [2]), info("c", [])], ["b"])
    scan = node("Scan", ["x", "x"], ["y"], name="s", body=inner, num_scan_inputs=1)
    return model([scan], inputs=(info("x", [2]),), outputs=(info("y", None),))


@refused(
    UnsupportedError,
    """
    error: there is no norm of degree 0
      in node 'norm' (GlobalLpPool of ai.onnx version 17)
    """,
)
def a_norm_of_degree_zero() -> onnx.ModelProto:
    return model([node("GlobalLpPool", ["x"], ["y"], name="norm", p=0)])


@refused(ModelError, "error: input 'x': it has no type")
def an_input_without_type() -> onnx.ModelProto:
    return model([relu()], inputs=(onnx.ValueInfoProto(name="x"),))


@refused(ModelError, "error: input 'x': there is no element type 0")
def an_input_without_element_type() -> onnx.ModelProto:
    return model([relu()], inputs=(info("x", (2, 3), 0),))


@refused(UnsupportedError, "error: input 'x': Afterglow has no sparse_tensor values")
def an_input_that_is_sparse() -> onnx.ModelProto:
    type = helper.make_sparse_tensor_type_proto(FLOAT, (2, 3))
    return model([relu()], inputs=(onnx.ValueInfoProto(name="x", type=type),))


@refused(
    UnsupportedError,
    """
    error: shapes in the model depend on the value of input 'x'
      help: bind it when compiling: values={name: array}, or a list of arrays for a sequence
    """,
)
def an_input_that_is_a_sequence() -> onnx.ModelProto:
    sequence = helper.make_tensor_sequence_value_info("x", FLOAT, None)
    return model([node("SequenceLength", ["x"], ["y"])], inputs=(sequence,))


@refused(ModelError, "error: output 'y' is declared to be a tensor, but is not one")
def an_output_that_is_declared_to_be_a_tensor_but_is_a_sequence() -> onnx.ModelProto:
    return model([node("SequenceConstruct", ["x", "x"], ["y"])])


@refused(
    UnsupportedError,
    """
    error: shapes in the model depend on the value of input 'x'
      help: bind it when compiling: values={name: array}, or a list of arrays for a sequence
    """,
)
def a_shape_that_depends_on_data() -> onnx.ModelProto:
    return model([node("NonZero", ["x"], ["y"])], outputs=(info("y", None, INT64),))


@pytest.mark.parametrize(("make", "kind", "text"), CASES)
def test_the_model_is_refused(make: Made, kind: type[AfterglowError], text: str) -> None:
    check(make(), kind, text)


def test_an_op_of_onnx_that_is_not_supported() -> None:
    schema = onnx.defs.OpSchema("Novelty", "ai.onnx.preview.training", 1)
    onnx.defs.register_schema(schema)
    try:
        novelty = node("Novelty", ["x"], ["y"], name="new", domain=schema.domain)
        with pytest.raises(UnsupportedError) as caught:
            import_onnx(model([novelty], domains={schema.domain: 1}))
    finally:
        onnx.defs.deregister_schema("Novelty", 1, schema.domain)
    assert str(caught.value) == inspect.cleandoc("""
        error: this op is not supported
          in node 'new' (Novelty of ai.onnx.preview.training version 1)
          help: replace it by supported ops
    """)


def relu_that_raises(monkeypatch: pytest.MonkeyPatch, error: Exception) -> onnx.ModelProto:
    """A model with a Relu, which fails to be imported so."""

    def fail(n: NodeContext) -> Value:
        raise error

    monkeypatch.setitem(ONNX.importers, ("", "Relu"), [(1, fail)])
    return model([node("Relu", ["x"], ["y"], name="first")])


def test_a_fault_of_an_importer_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cause = KeyError("axis")
    broken = relu_that_raises(monkeypatch, cause)
    with pytest.raises(InternalError) as caught:
        import_onnx(broken)
    assert caught.value.__cause__ is cause
    assert caught.value.exit_status == 70
    assert str(caught.value) == inspect.cleandoc("""
        error: internal error, KeyError: 'axis'
          in node 'first' (Relu of ai.onnx version 17)
          help: please report it; the node may be malformed, and should have been refused
        """)


def test_what_a_signal_handler_raises_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfTimeError(Exception):
        pass

    broken = relu_that_raises(monkeypatch, OutOfTimeError())
    with pytest.raises(OutOfTimeError):
        import_onnx(broken)
