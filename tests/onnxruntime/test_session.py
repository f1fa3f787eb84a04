"""Programs for ONNX Runtime, run with both; whatever ONNX Runtime says is expected."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import afterglow
import afterglow.onnxruntime as ours
from afterglow.onnxruntime.capi.onnxruntime_pybind11_state import (
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
    NotImplemented,
)
from afterglow.support.errors import AfterglowWarning, UsageError
from tests.frontends.models import info, model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
both = pytest.mark.parametrize("ort", [onnxruntime, ours], ids=["onnxruntime", "afterglow"])


def two_outputs() -> onnx.ModelProto:
    made = model(
        [node("Mul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])],
        inputs=[info("x", ["batch", 3])],
        outputs=[info("a", ["batch", 3]), info("y", ["batch", 3])],
        constants={"w": np.full(3, 2, np.float32)},
    )
    made.producer_name, made.domain, made.doc_string = "a test", "org.example", "it multiplies"
    made.model_version, made.graph.doc_string = 7, "two nodes"
    onnx.helper.set_model_props(made, {"names": "{0: 'cat', 1: 'dog'}", "empty": ""})
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "two.onnx"
    onnx.save(two_outputs(), path)
    return path


@both
def test_a_session_tells_what_the_model_takes_and_gives(ort, source: Path) -> None:
    session = ort.InferenceSession(source, providers=["CPUExecutionProvider"])
    args = [(a.name, a.type, a.shape) for a in (*session.get_inputs(), *session.get_outputs())]
    shape = ["batch", 3]
    assert args == [(name, "tensor(float)", shape) for name in ("x", "a", "y")]
    assert session.get_overridable_initializers() == []
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}


@both
@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_session_tells_what_the_model_says_about_itself(ort, source: Path, as_bytes) -> None:
    meta = ort.InferenceSession(source.read_bytes() if as_bytes else source).get_modelmeta()
    assert (meta.producer_name, meta.domain, meta.description) == (
        "a test",
        "org.example",
        "it multiplies",
    )
    assert (meta.graph_description, meta.version) == ("two nodes", 7)
    assert meta.custom_metadata_map == {"names": "{0: 'cat', 1: 'dog'}", "empty": ""}


@both
def test_outputs_come_in_the_order_asked_for(ort, source: Path) -> None:
    session = ort.InferenceSession(str(source))
    a, y = session.run(None, {"x": X})
    np.testing.assert_allclose(a, X * 2)
    assert [r.tolist() for r in session.run(["y", "a", "y"], {"x": X})] == [
        *(y.tolist(), a.tolist(), y.tolist())
    ]
    assert len(session.run([], {"x": X})) == 2


@both
def test_any_number_of_rows_and_any_strides(ort, source: Path) -> None:
    session = ort.InferenceSession(source)
    for rows in (1, 5, 3):
        x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)[:, ::2]
        np.testing.assert_allclose(session.run(["a"], {"x": x})[0], x * 2)
    np.testing.assert_allclose(session.run(["a"], {"x": X.tolist()})[0], X * 2)


@both
def test_values_in_and_out(ort, source: Path) -> None:
    session = ort.InferenceSession(source)
    value = ort.OrtValue.ortvalue_from_numpy(X)
    (a,) = session.run_with_ort_values(["a"], {"x": value})
    assert (a.data_type(), a.shape(), a.element_type()) == ("tensor(float)", [2, 3], 1)
    assert (a.device_name(), a.is_tensor(), a.has_value()) == ("cpu", True, True)
    np.testing.assert_allclose(a.numpy(), X * 2)
    np.testing.assert_allclose(session.run(["a"], {"x": value})[0], X * 2)


@both
def test_outputs_bound_to_memory_are_written_there(ort, source: Path) -> None:
    session = ort.InferenceSession(source)
    binding, a = session.io_binding(), np.zeros_like(X)
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    binding.bind_output("a", "cpu", 0, np.float32, a.shape, a.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(a, X * 2)
    y, also_a = binding.copy_outputs_to_cpu()
    np.testing.assert_allclose(also_a, a)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)
    assert binding.get_outputs()[1].data_ptr() == a.ctypes.data
    other = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.clear_binding_outputs()
    binding.bind_ortvalue_output("a", other)
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(other.numpy(), X * 2)


@both
def test_a_run_in_the_background_calls_back(ort, source: Path) -> None:
    called, found = threading.Event(), []

    def callback(outputs, data, error) -> None:
        found.append((outputs, data, error))
        called.set()

    ort.InferenceSession(source).run_async(["a"], {"x": X}, callback, "mine")
    assert called.wait(60)
    ((outputs, data, error),) = found
    np.testing.assert_allclose(outputs[0], X * 2)
    assert (data, error) == ("mine", "")


def test_an_error_in_the_background_is_a_text(source: Path) -> None:
    called, found = threading.Event(), []
    session = ours.InferenceSession(source)
    session.run_async(None, {}, lambda *given: (found.append(given), called.set()), None)
    assert called.wait(60)
    assert found[0][0] == []
    assert "input 'x' is missing" in found[0][2]


@both
def test_profiling_writes_a_trace(ort, source: Path, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ort.InferenceSession(source, options)
    session.run(None, {"x": X})
    events = json.loads(Path(session.end_profiling()).read_text())
    events = events if isinstance(events, list) else events["traceEvents"]
    assert "model_run" in [event["name"] for event in events]


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": X.astype(np.float64)}, "input 'x' holds float32, got float64"),
        ({"x": X, "q": X}, "the model has no input 'q'"),
        ({"x": X[0]}, "does not take an array of shape (3,)"),
        (X, "inputs by name must be a dictionary, got a ndarray"),
    ],
)
def test_wrong_inputs_are_invalid_arguments(source: Path, feed, message: str) -> None:
    session = ours.InferenceSession(source)
    with pytest.raises(InvalidArgument) as caught:
        session.run(None, feed)
    assert message in str(caught.value)
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


@both
def test_what_is_no_model_raises_the_exception_that_programs_catch(ort, tmp_path: Path) -> None:
    state = ort.capi.onnxruntime_pybind11_state
    with pytest.raises(state.NoSuchFile):
        ort.InferenceSession(tmp_path / "missing.onnx")
    with pytest.raises(state.InvalidProtobuf):
        ort.InferenceSession(b"\x01not a model")


def test_a_model_of_another_type() -> None:
    with pytest.raises(InvalidArgument, match="a model cannot be loaded from a int"):
        ours.InferenceSession(3)


def test_exceptions_have_the_names_of_onnx_runtime() -> None:
    theirs = onnxruntime.capi.onnxruntime_pybind11_state
    for kind in (InvalidArgument, InvalidProtobuf, NoSuchFile, NotImplemented):
        assert issubclass(getattr(theirs, kind.__name__), Exception)


def test_a_provider_that_is_not_there_is_warned_about(source: Path) -> None:
    with pytest.warns(AfterglowWarning, match="there is no provider 'CUDAExecutionProvider'"):
        ours.InferenceSession(
            source, providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"]
        )


def test_options_of_compile_are_further_arguments(source: Path) -> None:
    session = ours.InferenceSession(source, dims={"batch": (1, 4)}, threads=1, enable_fallback=0)
    assert session.model.dims == {"batch": (1, 4, 1)}
    with pytest.raises(InvalidArgument, match="out of its bounds"):
        session.run(None, {"x": np.zeros((5, 3), np.float32)})


def test_a_session_runs_a_saved_model(source: Path, tmp_path: Path) -> None:
    afterglow.compile(source, dims={"batch": 2}).save(tmp_path / "two.agc")
    session = ours.InferenceSession(tmp_path / "two.agc")
    np.testing.assert_allclose(session.run(["a"], {"x": X})[0], X * 2)
    assert session.get_modelmeta().graph_name == ""


def test_a_session_prints_nothing(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ours.InferenceSession(source, cache=False).run(None, {"x": X})
    assert capfd.readouterr() == ("", "")


def test_sequences_and_maps_have_types() -> None:
    made = model(
        [node("SequenceConstruct", ["x", "x"], ["y"])],
        inputs=[info("x", [2])],
        outputs=[onnx.helper.make_tensor_sequence_value_info("y", onnx.TensorProto.FLOAT, None)],
    ).SerializeToString()
    sessions = [ort.InferenceSession(made) for ort in (onnxruntime, ours)]
    theirs, own = (session.get_outputs()[0].type for session in sessions)
    assert own == theirs == "seq(tensor(float))"
    x = np.ones(2, np.float32)
    (value,) = sessions[1].run_with_ort_values(None, {"x": ours.OrtValue.ortvalue_from_numpy(x)})
    assert (value.is_tensor_sequence(), value.data_type()) == (True, "seq(tensor(float))")


def test_the_package_itself_has_the_names_that_programs_use_most() -> None:
    for name in ("InferenceSession", "SessionOptions", "RunOptions", "OrtValue", "IOBinding"):
        assert getattr(afterglow, name) is getattr(ours, name)
    assert afterglow.get_available_providers() == ["CPUExecutionProvider"]
    assert afterglow.get_device() == onnxruntime.get_device()


def test_every_name_is_one_of_onnx_runtime() -> None:
    assert not [name for name in ours.__all__ if not hasattr(onnxruntime, name)]
