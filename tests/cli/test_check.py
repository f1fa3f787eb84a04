from __future__ import annotations

from tests.cli import models


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_a_supported_model(command, tmp_path):
    finished = command("check", models.linear(tmp_path))
    assert lines(finished.out) == [
        "format onnx",
        "producer tests",
        "opsets ai.onnx 17",
        "input 'x': f32[2, 3]",
        "output 'y': f32[2, 4]",
        "element types f32",
        "weights 48 bytes",
        "activations 0 bytes besides inputs and outputs",
        "FLOPs 48",
        "nodes 2: 1 MatMul, 1 Relu",
        "compiled 1 MatMul, 1 Relu",
        "verdict: supported",
    ]
    assert finished.status == 0
    assert finished.err == ""


def test_the_same_as_json(command, tmp_path):
    path = models.linear(tmp_path)
    finished = command("check", path, "--json")
    assert finished.status == 0
    assert finished.json == {
        "model": path,
        "format": "onnx",
        "producer": "tests",
        "ir_version": 8,
        "opsets": {"ai.onnx": 17},
        "inputs": [{"name": "x", "kind": "tensor", "element_type": "f32", "shape": [2, 3]}],
        "outputs": [{"name": "y", "kind": "tensor", "element_type": "f32", "shape": [2, 4]}],
        "nodes": 2,
        "ops": {"MatMul": 1, "Relu": 1},
        "unknown_ops": [],
        "element_types": ["f32"],
        "weight_bytes": 48,
        "free_dimensions": [],
        "flops": 48.0,
        "activation_bytes": 0,
        "fates": {
            "compiled": {"MatMul": 1, "Relu": 1},
            "lowered": {},
            "host": {},
            "no_code": {},
            "lowered_to": {},
        },
        "on_host": [],
        "refused_ranges": {},
        "warnings": [],
        "verdict": "supported",
        "open_question": "",
        "problem": None,
    }


def test_what_the_host_runs_is_named(command, tmp_path):
    path = models.texts(tmp_path)
    finished = command("check", path)
    assert finished.status == 0
    (line,) = [line for line in lines(finished.out) if line.startswith("on the host")]
    reason = "its elements are not of the machine's types"
    assert line == f"on the host string_concat (join): {reason}"
    assert len(command("check", path, "--json").json["on_host"]) == 1
    assert command("check", path, "--backend", "interpreter", "--json").json["on_host"] == []


def test_what_is_lowered_merged_and_folded(command, tmp_path):
    path = models.mixed(tmp_path)
    finished = command("check", path)
    assert lines(finished.out)[-6:-1] == [
        "nodes 4: 1 Det, 1 Exp, 1 Reshape, 1 Shape",
        "compiled 1 Exp",
        "lowered 1 Det to abs, arg_max, div, equal, mul, neg, reduce_sum, sub, where",
        "merged or folded 1 Reshape, 1 Shape",
        "warning output 'y' is declared to be f32[7], it is f32[1, 5]",
    ]
    found = command("check", path, "--json").json
    assert found["fates"]["no_code"] == {"Reshape": 1, "Shape": 1}
    assert found["fates"]["lowered"] == {"Det": 1}
    assert found["warnings"] == ["output 'y' is declared to be f32[7], it is f32[1, 5]"]


def test_what_the_host_will_run_where_values_decide_shapes(command, tmp_path):
    (step,) = command("check", models.places(tmp_path), "--json").json["on_host"]
    assert step == {
        "work": "NonZero",
        "origin": "where",
        "reason": "the shapes of its results depend on data",
    }


def test_free_dimensions_are_shown_by_name(command, tmp_path):
    finished = command("check", models.batched(tmp_path))
    assert "input 'a': f32[batch, 3]" in lines(finished.out)
    assert "FLOPs" not in finished.out
    data = command("check", models.batched(tmp_path), "--json").json
    assert (data["flops"], data["activation_bytes"], data["fates"]) == (None, None, None)


def test_every_unsupported_op_is_named(command, tmp_path):
    finished = command("check", models.strange(tmp_path))
    assert finished.status == 3
    assert "not supported example.com.Frobnicate, example.com.Twiddle" in lines(finished.out)
    assert lines(finished.out)[-1] == "verdict: unsupported"
    assert "'frob'" in finished.err
    assert "'twid'" in finished.err


def test_free_dimensions_leave_a_question_open(command, tmp_path):
    finished = command("check", models.batched(tmp_path))
    assert finished.status == 0
    assert lines(finished.out)[-4:] == [
        "nodes 1: 1 Add",
        "the model has inputs with dynamic dimensions: 'a': f32[batch, 3], 'b': f32[batch, 3]",
        "bind them, for example --dim batch=1 or --shapes a:1x3 --shapes b:1x3",
        "verdict: supported",
    ]
    assert "dynamic dimensions batch" in lines(finished.out)


def test_bound_dimensions_leave_none(command, tmp_path):
    path = models.batched(tmp_path)
    for words in (("--dim", "batch=4"), ("--shapes", "a:4x3", "--shapes", "b:4x3")):
        finished = command("check", path, *words, "--json")
        assert finished.json["open_question"] == ""
        assert finished.status == 0


def test_a_binding_that_does_not_fit(command, tmp_path):
    finished = command("check", models.batched(tmp_path), "--dim", "width=4", "--json")
    assert finished.status == 2
    assert finished.json["verdict"] == "wrong use"
    assert "no input has a dimension 'width'" in finished.json["problem"]["what"]


def test_values_that_decide_shapes_leave_a_question_open(command, tmp_path):
    finished = command("check", models.shaped(tmp_path))
    assert finished.status == 0
    assert lines(finished.out)[-3:] == [
        "shapes in the model depend on the value of input 'shape'",
        "give them: --value shape=FILE.npy; afterglow run takes them from --input",
        "verdict: supported",
    ]
    assert "on the host" not in finished.out


def test_a_file_that_is_no_model(command, tmp_path):
    path = tmp_path / "text.onnx"
    path.write_text("this is not a model")
    finished = command("check", str(path))
    assert finished.status == 1
    assert finished.err.startswith("error: cannot compile a text file\n")
    assert "Traceback" not in finished.err


def test_an_empty_file(command, tmp_path):
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    command.fails(
        1,
        f"""
        error: the file is empty
          in {path}
        """,
        *("check", str(path)),
    )


def test_text_that_is_not_utf_8_does_no_harm(command, tmp_path):
    path = tmp_path / "linear.onnx"
    models.linear(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"tests", b"te\xffts"))
    assert command("check", str(path), "--json").json["producer"] == "te\N{REPLACEMENT CHARACTER}ts"


def two_names(folder):
    """total = a + b, whose rows have different names."""
    return models.save(
        folder / "two_names.onnx",
        [models.helper.make_node("Add", ["a", "b"], ["total"], name="sum")],
        [("a", models.FLOAT, ("batch", 3)), ("b", models.FLOAT, ("rows", 3))],
        [("total", models.FLOAT, ("batch", 3))],
    )


def test_a_dimension_that_cannot_be_ranged(command, tmp_path):
    found = command("check", two_names(tmp_path), "--json").json["refused_ranges"]
    assert [*found] == ["batch", "rows"]
    assert all("in node 'sum'" in reason for reason in found.values())
    words = ("--dim", "batch=1..4", "--dim", "rows=1..4")
    finished = command("check", two_names(tmp_path), *words)
    assert finished.status == 0
    assert [line for line in lines(finished.out) if line.startswith("not ranged batch: ")]


def test_a_model_within_bounds(command, tmp_path):
    finished = command("check", models.batched(tmp_path), "--dim", "batch=1..4", "--json")
    assert finished.status == 0
    assert finished.json["refused_ranges"] == {}
    assert finished.json["activation_bytes"] == 0
