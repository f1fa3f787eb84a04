"""The classes of ONNX's messages are the library's own, whichever is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

OURS = "from afterglow.frontends.onnx.messages import ModelProto"


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_messages_come_without_the_rest_of_the_library() -> None:
    assert run(f"{OURS}\nimport sys\nprint('onnx' in sys.modules)") == "False"


@pytest.mark.parametrize("lines", [(OURS, "import onnx"), ("import onnx", OURS)])
def test_a_message_has_one_class(lines: tuple[str, str]) -> None:
    program = "\n".join([*lines, "print(onnx.ModelProto is ModelProto)"])
    assert run(program) == "True"


def test_the_library_is_whole_behind_its_messages() -> None:
    program = f"{OURS}\nimport onnx\nprint(onnx.helper.make_node('Relu', ['x'], ['y']).op_type)"
    assert run(program) == "Relu"
    program = f"{OURS}\nimport onnx\nprint(onnx.onnx_ml_pb2.ModelProto is ModelProto)"
    assert run(program) == "True"


def test_a_message_has_one_class_in_protobuf_without_machine_code_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
    assert run(f"{OURS}\nimport onnx\nprint(onnx.ModelProto is ModelProto)") == "True"


def test_a_message_made_before_the_library_can_be_pickled() -> None:
    program = (
        f"{OURS}\nimport pickle\nprint(pickle.loads(pickle.dumps(ModelProto(domain='d'))).domain)"
    )
    assert run(program) == "d"
