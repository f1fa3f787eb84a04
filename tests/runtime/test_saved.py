"""Saving compiled models, and loading them where the source is not."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.runtime import CompiledModel
from afterglow.support.container import read_container, write_container
from afterglow.support.errors import AfterglowError, UsageError
from tests.backends.cpu import networks
from tests.frontends.models import info, model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def saved(compiled: CompiledModel, folder: Path) -> Path:
    path = folder / "model.agc"
    compiled.save(path)
    return path


def reloaded(compiled: CompiledModel, folder: Path, threads: int | None = None) -> CompiledModel:
    return afterglow.load(saved(compiled, folder), threads=threads)


def edited(path: Path, change) -> Path:
    """A file with other metadata, and right checksums."""
    container = read_container(path)
    metadata = json.loads(json.dumps(container.metadata))
    change(metadata)
    sections = {name: bytes(container.section(name)) for name in container.names}
    other = path.with_name("edited.agc")
    write_container(other, metadata, sections)
    return other


def refusal(path: Path) -> str:
    with pytest.raises(AfterglowError) as caught:
        afterglow.load(path)
    return caught.value.what.replace(f"{path}: ", "")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("network", [networks.tiny, networks.cnn, networks.transformer])
def test_what_was_saved_gives_the_same_bits(network, threads: int, tmp_path: Path) -> None:
    compiled = afterglow.compile(network(), threads=threads)
    loaded = reloaded(compiled, tmp_path, threads)
    assert loaded.inputs == compiled.inputs
    assert loaded.outputs == compiled.outputs
    assert loaded.memory == compiled.memory
    assert loaded.is_static
    x = np.random.default_rng(2).standard_normal(loaded.inputs[0].shape).astype(np.float32)
    assert loaded(x).tobytes() == compiled(x).tobytes()


def test_saving_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.mlp())
    first = saved(compiled, tmp_path).read_bytes()
    again = reloaded(compiled, tmp_path)
    assert saved(again, tmp_path).read_bytes() == first


def free_model() -> onnx.ModelProto:
    return model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", ("n", 3))],
        outputs=[info("y", ("n", 2))],
        constants={"w": np.arange(6, dtype=np.float32).reshape(3, 2)},
    )


@pytest.mark.usefixtures("exact_versions")
def test_versions_for_several_shapes_are_saved(tmp_path: Path) -> None:
    compiled = afterglow.compile(free_model())
    inputs = [np.ones((rows, 3), np.float32) for rows in (1, 4)]
    want = [compiled(x).tobytes() for x in inputs]
    loaded = reloaded(compiled, tmp_path)
    assert not loaded.is_static
    assert str(loaded.inputs[0]) == "x: f32[n, 3]"
    assert [loaded(x).tobytes() for x in inputs] == want
    with pytest.raises(UsageError) as caught:
        loaded(np.ones((2, 3), np.float32))
    assert str(caught.value) == (
        f"error: {tmp_path / 'model.agc'}: the model was not saved for x: f32[2, 3]\n"
        "  help: it takes x: f32[1, 3]; x: f32[4, 3]; "
        "run the source model with others and save it again"
    )


def test_equal_weights_of_versions_are_stored_once(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
    source = model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", ("n", 300))],
        outputs=[info("y", ("n", 200))],
        constants={"w": weights},
    )
    path = saved(afterglow.compile(source, dims={"n": [2, 3, 4]}), tmp_path)
    assert len(afterglow.load(path).versions()) == 3
    assert path.stat().st_size < 1.5 * weights.nbytes


def test_a_model_that_never_ran_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        saved(afterglow.compile(free_model()), tmp_path)
    assert str(caught.value) == (
        "error: nothing of the model is compiled yet: it has dynamic dimensions\n"
        "  help: bind them with shapes= or dims=, or run it once"
    )
    assert not (tmp_path / "model.agc").exists()


def test_what_the_host_runs_is_saved_too(tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.texts())
    for loaded in (reloaded(compiled, tmp_path), reloaded(reloaded(compiled, tmp_path), tmp_path)):
        y, joined = loaded(X, ["a", "b"], ["c", "d"])
        np.testing.assert_array_equal(y, 2 * X * X)
        assert joined.tolist() == ["ac!", "bd!"]


def test_trees_are_saved(tmp_path: Path) -> None:
    loaded = reloaded(afterglow.compile(networks.trees()), tmp_path)
    np.testing.assert_array_equal(loaded(X), [[-10], [-20]])


def test_bodies_that_the_host_runs_are_saved(tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.choice_of_texts())
    loaded = reloaded(compiled, tmp_path)
    for is_twice, want in ((True, ["aa", "bb"]), (False, ["a", "b"])):
        assert loaded(np.array(is_twice), ["a", "b"]).tolist() == want


def test_states_begin_anew(tmp_path: Path) -> None:
    compiled = afterglow.compile(afterglow.parse_module(networks.COUNTER))
    one = np.ones(3, np.float32)
    assert [compiled(one)[0] for _ in range(2)] == [0, 1]
    loaded = reloaded(compiled, tmp_path)
    assert [loaded(one)[0] for _ in range(3)] == [0, 1, 2]


def test_inputs_stay_donated(tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["a"]), node("Softmax", ["a"], ["y"])]
    compiled = afterglow.compile(model(nodes), donate_inputs=True)
    want = compiled(X.copy())
    frozen = X.copy()
    frozen.flags.writeable = False
    loaded = reloaded(compiled, tmp_path)
    np.testing.assert_array_equal(loaded(frozen), want)
    np.testing.assert_array_equal(frozen, X)


PROGRAM = """
import sys
import numpy as np
import afterglow
model = afterglow.load(sys.argv[1])
x = np.load(sys.argv[2])
sys.stdout.buffer.write(model(x).tobytes())
"""


def test_another_process_needs_only_the_file(tmp_path: Path) -> None:
    source = tmp_path / "mlp.onnx"
    onnx.save(networks.mlp(), source)
    compiled = afterglow.compile(source)
    x = np.random.default_rng(4).standard_normal((33, 100)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    path = saved(compiled, tmp_path)
    source.unlink()
    command = [sys.executable, "-c", PROGRAM, str(path), str(tmp_path / "x.npy")]
    environment = {**os.environ, "AFTERGLOW_CACHE": str(tmp_path / "none")}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert done.stdout == compiled(x).tobytes()
    assert not (tmp_path / "none").exists()


def test_constants_are_pages_of_the_file(tmp_path: Path) -> None:
    path = saved(afterglow.compile(networks.mlp()), tmp_path)
    loaded = afterglow.load(path)
    constants = loaded.compiled.executable.constants
    address = constants.ctypes.data
    assert not constants.flags.writeable
    assert mapped_file(address) == str(path)


def mapped_file(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return line.split(maxsplit=5)[5]
    return ""


def test_the_file_may_go_while_the_model_runs(tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.mlp())
    x = np.ones((33, 100), np.float32)
    loaded = reloaded(compiled, tmp_path)
    (tmp_path / "model.agc").unlink()
    assert loaded(x).tobytes() == compiled(x).tobytes()


def test_a_model_can_be_saved_over_its_own_file(tmp_path: Path) -> None:
    path = saved(afterglow.compile(networks.tiny()), tmp_path)
    loaded = afterglow.load(path)
    loaded.save(path)
    np.testing.assert_array_equal(loaded(X), afterglow.load(path)(X))


def test_files_that_are_none_of_ours(tmp_path: Path) -> None:
    missing, empty, foreign = (tmp_path / name for name in ("missing", "empty", "foreign"))
    empty.touch()
    foreign.write_bytes(bytes(range(256)) * 8)
    assert refusal(missing) == "cannot be opened: No such file or directory"
    assert refusal(tmp_path) == "cannot be opened: Is a directory"
    assert refusal(empty) == "not a saved model"
    assert refusal(foreign) == "not a saved model"


def test_truncated_files(tmp_path: Path) -> None:
    path = saved(afterglow.compile(networks.tiny()), tmp_path)
    whole = path.read_bytes()
    for size in (9, 63, 64, 500, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "truncated" in refusal(path)
    path.write_bytes(whole + b"\0")
    assert "too long" in refusal(path)


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    path = saved(afterglow.compile(networks.tiny()), tmp_path)
    container = read_container(path)
    _, offset = container.locate("0.code")
    whole = path.read_bytes()
    for place in (8, 20, 40, 61, 100, offset, offset + 50):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert refusal(path)


def test_damage_anywhere_in_a_large_file_is_found(tmp_path: Path) -> None:
    wide = model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", (2, 512))],
        outputs=[info("y", (2, 640))],
        constants={"w": np.ones((512, 640), np.float32)},
    )
    path = saved(afterglow.compile(wide), tmp_path)
    container = read_container(path)
    sizes = {name: len(container.section(name)) for name in container.names}
    assert max(sizes.values()) > 1 << 20
    whole, random = path.read_bytes(), np.random.default_rng(3)
    for name, size in sizes.items():
        _, start = container.locate(name)
        for place in (0, size - 1, *random.integers(0, size, 6)):
            changed = bytearray(whole)
            changed[start + place] ^= 1 << int(random.integers(8))
            path.write_bytes(changed)
            assert refusal(path) == f"section '{name}' is not what was saved: its checksum is off"


def test_a_file_of_another_version(tmp_path: Path) -> None:
    path = saved(afterglow.compile(networks.tiny()), tmp_path)
    whole = bytearray(path.read_bytes())
    for version, by in ((4, "a newer"), (2, "an older")):
        whole[8:12] = version.to_bytes(4, "little")
        whole[60:64] = zlib.crc32(bytes(whole[:60])).to_bytes(4, "little")
        path.write_bytes(whole)
        expected = (
            f"saved in format {version} by {by} version of Afterglow; this one reads format 3"
        )
        assert refusal(path) == expected


def test_code_that_this_machine_cannot_run(tmp_path: Path) -> None:
    path = saved(afterglow.compile(networks.tiny(), target="x86-64-v3"), tmp_path)

    def need_more(metadata: dict) -> None:
        metadata["versions"][0]["artifact"]["manifest"]["needs"]["features"].append("antigravity")

    assert "does not run here: it needs antigravity" in refusal(edited(path, need_more))


def test_a_container_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.agc"
    write_container(path, {"kind": "recipe"}, {"text": b"eggs"})
    assert refusal(path) == "the file contains no model"


def test_a_file_of_another_layout(tmp_path: Path) -> None:
    path = saved(afterglow.compile(networks.tiny()), tmp_path)
    other = edited(path, lambda metadata: metadata.update(layout=1))
    assert refusal(other) == "the file was saved by another version of Afterglow"


def test_a_model_that_checks_itself_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        saved(afterglow.compile(networks.tiny(), verify=True), tmp_path)
    assert str(caught.value) == (
        "error: a model that checks itself as it runs, or that a shared library holds, is not "
        "saved\n  help: compile the model with verify=False, and save that"
    )


@pytest.mark.parametrize("network", [networks.tiny, networks.texts, networks.choice_of_texts])
def test_programs_of_any_backend_are_saved(network, tmp_path: Path) -> None:
    compiled = afterglow.compile(network(), backend="interpreter", cache=False)
    loaded = reloaded(compiled, tmp_path)
    feed = {
        i.name: np.full(i.exact_shape, "a" if i.dtype.numpy.kind == "O" else 1, i.dtype.numpy)
        for i in compiled.inputs
    }
    for have, want in zip(loaded.run(None, feed), compiled.run(None, feed), strict=True):
        assert have.tolist() == want.tolist()
    assert loaded.memory == compiled.memory


def test_a_loaded_model_has_no_stages(tmp_path: Path) -> None:
    loaded = reloaded(afterglow.compile(networks.tiny()), tmp_path)
    with pytest.raises(UsageError, match="a loaded model has no stages to print"):
        loaded.ir("graph")
    with pytest.raises(UsageError, match="a loaded model has no program"):
        _ = loaded.compiled.program


def test_outputs_that_are_no_tensors(tmp_path: Path) -> None:
    source = model(
        [node("SplitToSequence", ["x"], ["parts"], axis=1), node("Neg", ["x"], ["y"])],
        outputs=[onnx.helper.make_tensor_sequence_value_info("parts", 1, None), "y"],
    )
    loaded = reloaded(afterglow.compile(source), tmp_path)
    parts, y = loaded(X)
    np.testing.assert_array_equal(np.concatenate(parts, 1), X)
    np.testing.assert_array_equal(y, -X)


def test_where_a_model_cannot_be_saved(tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.tiny())
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "is a directory"),
        (tmp_path / "missing" / "model.agc", "no such file or directory"),
        (tmp_path / "file" / "model.agc", "not a directory"),
        (Path("/dev/null"), "not a regular file"),
    ):
        with pytest.raises(UsageError) as caught:
            compiled.save(path)
        assert str(caught.value) == f"error: cannot write {path}: {reason}"
    with pytest.raises(UsageError) as caught:
        compiled.save(None)  # type: ignore[arg-type]
    assert caught.value.what == (
        "the path of a saved model must be a string or a pathlib.Path, got None"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_where_a_bundle_cannot_be_written(tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.tiny())
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageError) as caught:
        compiled.export_bundle(file)
    assert str(caught.value) == (
        f"error: cannot write {file}: it is not a folder\n  help: give a folder, new or existing"
    )
    with pytest.raises(UsageError, match=f"cannot write {file}/below: not a directory"):
        compiled.export_bundle(file / "below")
    with pytest.raises(UsageError, match="the path of a folder must be a string"):
        compiled.export_bundle(3)  # type: ignore[arg-type]


def test_what_is_no_path_of_a_saved_model() -> None:
    for given in (None, 3, b"model.agc"):
        with pytest.raises(UsageError, match="the path of a saved model must be a string"):
            afterglow.load(given)  # type: ignore[arg-type]


def test_saving_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(afterglow.compile(networks.tiny()), tmp_path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"cannot write .*: no space left on device"):
        afterglow.compile(networks.tiny()).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
