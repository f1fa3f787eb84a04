from __future__ import annotations

import onnx
import onnxruntime
import pytest

import afterglow.onnxruntime as ours
from afterglow.onnxruntime.errors import Fail, NotImplemented
from afterglow.support.errors import AfterglowWarning
from tests.onnxruntime.test_session import X, two_outputs


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_options_are_those_of_onnx_runtime_with_its_defaults(kind: str) -> None:
    theirs, own = getattr(onnxruntime, kind)(), getattr(ours, kind)()
    names = [name for name in dir(theirs) if not name.startswith("_")]
    plain = [name for name in names if not callable(getattr(theirs, name))]
    assert {name: _value(own, name) for name in plain} == {
        name: _value(theirs, name) for name in plain
    }


def _value(options, name: str):
    value = getattr(options, name)
    return getattr(value, "name", value)


@pytest.mark.parametrize("kind", ["GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder"])
def test_enumerations_have_the_members_of_onnx_runtime(kind: str) -> None:
    theirs = getattr(onnxruntime, kind).__members__
    assert {m.name: m.value for m in getattr(ours, kind)} == {
        name: int(member.value) for name, member in theirs.items()
    }


def test_an_option_that_does_not_exist_cannot_be_set() -> None:
    with pytest.raises(AttributeError):
        ours.SessionOptions().intra_op_threads = 2


def test_threads_dimensions_and_the_level_reach_the_compiler() -> None:
    options = ours.SessionOptions()
    options.intra_op_num_threads = 2
    options.graph_optimization_level = ours.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_free_dimension_override_by_name("batch", 2)
    assert options.compile_options() == {"threads": 2, "optimize": False, "dims": {"batch": 2}}
    session = ours.InferenceSession(two_outputs().SerializeToString(), options)
    assert session.get_inputs()[0].shape == [2, 3]
    assert session.get_session_options() is options


def test_config_entries_are_noted() -> None:
    options = ours.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(Fail, match="there is no session config entry 'other'"):
        options.get_session_config_entry("other")


def test_libraries_of_custom_ops_are_refused() -> None:
    with pytest.raises(NotImplemented) as caught:
        ours.SessionOptions().register_custom_ops_library("libops.so")
    assert str(caught.value) == (
        "error: the library of custom ops 'libops.so' cannot be used: its kernels are "
        "ONNX Runtime's\n"
        "  help: define the ops in NumPy or in index notation: docs/ops-of-your-own.md"
    )


def test_what_would_change_results_is_refused() -> None:
    with pytest.raises(NotImplemented, match="initializer 'w' cannot be replaced"):
        ours.SessionOptions().add_initializer("w", ours.OrtValue.ortvalue_from_numpy(X))
    with pytest.raises(NotImplemented, match="adapters cannot be added"):
        ours.RunOptions().add_active_adapter(None)


def test_an_optimized_model_that_is_asked_for_is_warned_about() -> None:
    options = ours.SessionOptions()
    options.optimized_model_filepath = "optimized.onnx"
    with pytest.warns(AfterglowWarning, match=r"no optimized model is written to optimized\.onnx"):
        options.compile_options()


def test_a_run_that_is_terminated_does_not_begin() -> None:
    made = onnx.ModelProto.SerializeToString(two_outputs())
    session, options = ours.InferenceSession(made), ours.RunOptions()
    options.terminate = True
    with pytest.raises(Fail, match="the run was terminated before it began"):
        session.run(None, {"x": X}, options)
