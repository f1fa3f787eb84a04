"""The cache on disk: what is found again, what is not, and what happens when files go wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.backends.cpu.codegen import kernel_cache
from afterglow.driver import cache as cache_module
from afterglow.driver import environment
from afterglow.driver.cache import CompileCache, digest_of_texts, model_key
from afterglow.driver.options import Options
from afterglow.support.errors import UsageError
from tests.backends.cpu import networks
from tests.frontends.models import BOOL, INT64, info, model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


class Compilations:
    """Counts how often LLVM is asked for code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = kernel_cache.compile_module

        def counted(module, target):
            self.count += 1
            return real(module, target)

        monkeypatch.setattr(kernel_cache, "compile_module", counted)

    def of(self, action) -> int:
        before = self.count
        action()
        return self.count - before


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Compilations:
    return Compilations(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "model.onnx", 1.0)


def write(path: Path, factor: float, rows: int | str = 2) -> Path:
    shape = (rows, 3)
    made = model(
        [node("Mul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])],
        inputs=[info("x", shape)],
        outputs=[info("y", shape)],
        constants={"w": np.full(3, factor, np.float32)},
    )
    onnx.save(made, path)
    return path


def entries(folder: Path, kind: str) -> list[Path]:
    return sorted((folder / kind).glob("*.*"))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_a_model_is_compiled_once(source: Path, folder: Path, compilations: Compilations) -> None:
    assert compilations.of(lambda: afterglow.compile(source, cache=folder)) > 0
    assert len(entries(folder, "models")) == 1
    found = []
    assert compilations.of(lambda: found.append(afterglow.compile(source, cache=folder))) == 0
    np.testing.assert_allclose(found[0](X), softmax(X), rtol=1e-6)
    assert found[0].ir("instructions").startswith("program @main")


def test_bytes_are_found_too(source: Path, folder: Path) -> None:
    afterglow.compile(source.read_bytes(), cache=folder)
    afterglow.compile(source.read_bytes(), cache=folder)
    assert len(entries(folder, "models")) == 1


def test_equal_kernels_are_found_in_another_model(
    tmp_path: Path, folder: Path, compilations: Compilations
) -> None:
    first, other = write(tmp_path / "a.onnx", 2.0), write(tmp_path / "b.onnx", 3.0)
    assert compilations.of(lambda: afterglow.compile(first, cache=folder)) > 0
    found = []
    assert compilations.of(lambda: found.append(afterglow.compile(other, cache=folder))) == 0
    np.testing.assert_allclose(found[0](X), softmax(3 * X), rtol=1e-5)
    assert len(entries(folder, "models")) == 2


OTHER_OPTIONS = {
    "no optimisation": {"optimize": False},
    "donated inputs": {"donate_inputs": True},
    "a small arena": {"max_arena": 1 << 20},
    "another target": {"target": "x86-64-v3"},
    "exact": {"exact": True},
    "small weights": {"optimize_for": "memory"},
    "tuned": {"tune": 0.01},
    "weights in 16 bits": {"precision": "weights_bf16"},
}


@pytest.mark.parametrize("options", OTHER_OPTIONS.values(), ids=OTHER_OPTIONS)
def test_other_options_are_another_entry(source: Path, folder: Path, options: dict) -> None:
    afterglow.compile(source, cache=folder)
    other = afterglow.compile(source, cache=folder, **options)
    assert len(entries(folder, "models")) == 2
    np.testing.assert_allclose(other(X.copy()), softmax(X), rtol=1e-5)


def test_what_stays_in_f32_is_part_of_the_key() -> None:
    lists = ({}, {"keep": ("a",)}, {"keep": ("b",)}, {"allow": ("a",)})
    keys = {model_key("", Options(precision="float16", **given)) for given in lists}
    assert len(keys) == len(lists)


def test_the_number_of_threads_is_no_part_of_the_code(source: Path, folder: Path) -> None:
    models = [afterglow.compile(source, cache=folder, threads=n) for n in (1, 2)]
    assert len(entries(folder, "models")) == 1
    assert [m.compiled.executable.threads for m in models] == [1, 2]


@pytest.mark.usefixtures("exact_versions")
def test_each_shape_is_an_entry(tmp_path: Path, folder: Path) -> None:
    path = write(tmp_path / "free.onnx", 1.0, "rows")
    for _ in range(2):
        compiled = afterglow.compile(path, cache=folder)
        for rows in (1, 4):
            x = np.ones((rows, 3), np.float32)
            np.testing.assert_allclose(compiled(x), softmax(x), rtol=1e-6)
    afterglow.compile(path, cache=folder, dims={"rows": 9})
    assert len(entries(folder, "models")) == 3


def test_values_are_part_of_the_key(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "shaped.onnx"
    made = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        inputs=["x", info("shape", (2,), INT64)],
        outputs=[info("y", ("a", "b"))],
    )
    onnx.save(made, path)
    for _ in range(2):
        compiled = afterglow.compile(path, cache=folder)
        for shape in ((3, 2), (6, 1)):
            assert compiled(X, np.array(shape)).shape == shape
    assert len(entries(folder, "models")) == 2
    bound = afterglow.compile(path, cache=folder, values={"shape": np.array([1, 6])})
    assert bound(X).shape == (1, 6)


VALUES = [
    np.array([1, 2]),
    np.array([1.0, 2.0]),
    np.array([[1, 2]]),
    np.array(["a", "b"], object),
    np.array(["a", "c"], object),
    [np.array([1, 2])],
    [np.array([1]), np.array([2])],
    [],
    None,
]


def test_values_of_any_kind_have_keys_of_their_own() -> None:
    keys = [model_key("", Options(values={"v": value})) for value in VALUES]
    assert len(set(keys)) == len(keys)
    copies = [np.array(["a", "b"], object), np.array(["".join("a"), "b"], object)]
    assert len({model_key("", Options(values={"v": value})) for value in copies}) == 1


def test_digests_tell_where_texts_end() -> None:
    assert digest_of_texts(["ab", "c"]) != digest_of_texts(["a", "bc"])
    assert digest_of_texts(["a\0", "b"]) != digest_of_texts(["a", "\0b"])
    assert digest_of_texts(["a", ""]) != digest_of_texts(["a"])


def test_lists_can_be_inputs_of_a_cached_model(tmp_path: Path, folder: Path) -> None:
    sequence = onnx.helper.make_tensor_sequence_value_info("s", 1, None)
    made = model(
        [node("ConcatFromSequence", ["s"], ["y"], axis=0)],
        inputs=[sequence],
        outputs=[info("y", None)],
    )
    onnx.save(made, tmp_path / "sequence.onnx")
    for _ in range(2):
        compiled = afterglow.compile(tmp_path / "sequence.onnx", cache=folder)
        np.testing.assert_array_equal(compiled.run(None, {"s": [X, X]})[0], np.concatenate([X, X]))
        np.testing.assert_array_equal(compiled.run(None, {"s": [X]})[0], X)


def test_a_file_that_is_changed_in_place(source: Path, folder: Path) -> None:
    for factor in (2.0, 3.0, 2.0):
        write(source, factor)
        compiled = afterglow.compile(source, cache=folder)
        np.testing.assert_allclose(compiled(X), softmax(factor * X), rtol=1e-5)


def test_digests_of_old_files_are_kept(source: Path, folder: Path) -> None:
    long_ago = time.time() - 1000
    os.utime(source, (long_ago, long_ago))
    cache = CompileCache(folder)
    first = cache.digest_of_file(source)
    assert cache.digest_of_file(source) == first
    write(source, 5.0)
    os.utime(source, (long_ago, long_ago))
    assert cache.digest_of_file(source) != first


def test_a_file_that_changes_after_it_was_read(tmp_path: Path, folder: Path) -> None:
    path = write(tmp_path / "free.onnx", 2.0, "rows")
    early = afterglow.compile(path, cache=folder)
    write(path, 5.0, "rows")
    np.testing.assert_allclose(early(X), softmax(2 * X), rtol=1e-5)
    np.testing.assert_allclose(afterglow.compile(path, cache=folder)(X), softmax(5 * X), rtol=1e-5)


@pytest.mark.parametrize("place", ["initializer", "constant", "branch"])
def test_a_changed_file_of_weights_is_noticed(place: str, tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "external.onnx"
    weight = onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    onnx.save(with_weight(weight, place), path)
    for factor in (2.0, 7.0):
        np.full((2, 3), factor, np.float32).tofile(tmp_path / "weights.bin")
        compiled = afterglow.compile(path, cache=folder)
        feed = {"x": X, "c": np.array(True)} if place == "branch" else {"x": X}
        np.testing.assert_array_equal(compiled.run(None, feed)[0], factor * X)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(afterglow.AfterglowError, match=r"weights\.bin"):
        afterglow.compile(path, cache=folder)


def with_weight(weight: onnx.TensorProto, place: str) -> onnx.ModelProto:
    """y = x * w; the weight stands in the graph, in a node, or in the body of a node."""
    multiply = node("Mul", ["x", "w"], ["y"])
    if place == "initializer":
        made = model([multiply])
        made.graph.initializer.append(weight)
        return made
    constant = node("Constant", [], ["w"], value=weight)
    if place == "constant":
        return model([constant, multiply])
    then = onnx.helper.make_graph([constant, multiply], "then", [], [onnx.ValueInfoProto(name="y")])
    other = onnx.helper.make_graph(
        [node("Neg", ["x"], ["z"])], "else", [], [onnx.ValueInfoProto(name="z")]
    )
    return model(
        [node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        inputs=["x", info("c", (), BOOL)],
    )


@pytest.mark.parametrize("kind", ["models", "kernels", "digests"])
def test_entries_under_each_others_names_are_not_believed(
    kind: str, tmp_path: Path, folder: Path
) -> None:
    long_ago = time.time() - 1000  # so that digests are kept
    paths = {factor: write(tmp_path / f"{factor}.onnx", factor) for factor in (2.0, 3.0)}
    for path in paths.values():
        os.utime(path, (long_ago, long_ago))
        afterglow.compile(path, cache=folder)
    if kind == "kernels":
        for path in entries(folder, "models"):
            path.unlink()
    contents = [path.read_bytes() for path in entries(folder, kind)]
    for path, other in zip(entries(folder, kind), contents[::-1], strict=True):
        path.write_bytes(other)
    for factor, path in paths.items():
        compiled = afterglow.compile(path, cache=folder)
        np.testing.assert_allclose(compiled(X), softmax(factor * X), rtol=1e-5)


def test_the_folders_of_the_cache_are_their_owners_alone(source: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        afterglow.compile(source, cache=tmp_path / "some" / "where" / "cache")
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "some").rglob("*") if path.is_dir()]
    assert {path.name for path in made} >= {"where", "cache", "models", "kernels", "digests"}
    assert {path.stat().st_mode & 0o777 for path in [tmp_path / "some", *made]} == {0o700}


@pytest.mark.parametrize("part", ["", "models", "kernels"])
def test_a_cache_that_everybody_may_write_is_not_used(
    part: str, source: Path, folder: Path
) -> None:
    afterglow.compile(source, cache=folder)
    (folder / part).chmod(0o777)
    for path in entries(folder, "models"):
        path.unlink()
    message = (
        f"nothing is cached, because {folder / part} cannot be trusted: every user may "
        "write there; set AFTERGLOW_CACHE to a folder that only you may write"
    )
    with pytest.warns(afterglow.AfterglowWarning, match=f"^{re.escape(message)}$") as caught:
        compiled = afterglow.compile(source, cache=folder)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(compiled(X), softmax(X), rtol=1e-6)
    assert entries(folder, "models") == []


def test_a_cache_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    real = Path.stat

    def of_another_user(self: Path, **options: bool) -> os.stat_result:
        status = list(real(self, **options))
        status[4] = os.geteuid() + 1
        return os.stat_result(status)

    monkeypatch.setattr(Path, "stat", of_another_user)
    with pytest.warns(afterglow.AfterglowWarning, match="it belongs to another user; set AFTER"):
        assert environment.cache_folder(folder) is None


def test_what_is_no_cache() -> None:
    for wish in (5, None, "", b"folder"):
        with pytest.raises(UsageError) as caught:
            afterglow.compile(networks.tiny(), cache=wish)  # type: ignore[arg-type]
        assert caught.value.what == f"the cache cannot be {wish!r}"
        assert caught.value.help == "give a folder, True for the default one, or False"


@pytest.mark.parametrize("kind", ["models", "kernels"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "folder"])
def test_damaged_entries_are_made_anew(
    kind: str, damage: str, source: Path, folder: Path, compilations: Compilations
) -> None:
    afterglow.compile(source, cache=folder)
    if kind == "kernels":
        for path in entries(folder, "models"):
            path.unlink()
    for path in entries(folder, kind):
        harm(path, damage)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = compilations.of(lambda: found.append(afterglow.compile(source, cache=folder)))
    assert (made > 0) == (kind == "kernels")
    np.testing.assert_allclose(found[0](X), softmax(X), rtol=1e-6)
    if damage != "folder":
        assert compilations.of(lambda: afterglow.compile(source, cache=folder)) == 0


def harm(path: Path, damage: str) -> None:
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "changed":
            middle = len(data) - 30
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        case "empty":
            path.write_bytes(b"")
        case "folder":
            path.unlink()
            path.mkdir()


def test_a_folder_that_cannot_be_written(source: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("this is a file, so there can be no folder")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        compiled = afterglow.compile(source, cache=blocked)
    np.testing.assert_allclose(compiled(X), softmax(X), rtol=1e-6)
    assert len(seen) <= 1
    assert all("nothing is cached in" in str(warning.message) for warning in seen)


def test_without_a_cache_nothing_is_written(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERGLOW_CACHE", str(folder))
    afterglow.compile(source, cache=False)
    assert not folder.exists()
    afterglow.compile(source)
    assert len(entries(folder, "models")) == 1


def test_what_is_not_kept(source: Path, folder: Path) -> None:
    afterglow.compile(source, cache=folder, verify=True)
    afterglow.compile(onnx.load(source), cache=folder)
    afterglow.compile(networks.loop(), cache=folder)
    assert entries(folder, "models") == []


def test_models_make_room(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    afterglow.compile(write(tmp_path / "model.onnx", 0.5), cache=folder)
    (only,) = entries(folder, "models")
    monkeypatch.setattr(cache_module, "MODELS_LIMIT", 3 * only.stat().st_size)
    os.utime(only, (1, 1))
    for factor in range(2, 7):
        afterglow.compile(write(tmp_path / "model.onnx", factor), cache=folder)
    assert len(entries(folder, "models")) == 3
    assert not only.exists()


def test_what_was_used_lately_stays(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(tmp_path / f"{number}.onnx", number) for number in (2, 3, 4)]
    for number, path in enumerate(paths[:2]):
        afterglow.compile(path, cache=folder)
        for entry in entries(folder, "models"):
            os.utime(entry, (number + 1, number + 1))
    kept = entries(folder, "models")
    afterglow.compile(paths[0], cache=folder)  # now the other one is older
    monkeypatch.setattr(cache_module, "MODELS_LIMIT", 2 * kept[0].stat().st_size)
    afterglow.compile(paths[2], cache=folder)
    assert len(set(kept) & set(entries(folder, "models"))) == 1
    assert len(entries(folder, "models")) == 2


def test_what_was_never_finished_is_removed(source: Path, folder: Path) -> None:
    models = folder / "models"
    models.mkdir(parents=True)
    old, new = models / ".old.agc.1.part", models / ".new.agc.2.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    afterglow.compile(source, cache=folder)
    assert not old.exists()
    assert new.exists()


def test_large_models_are_not_kept(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "LARGEST_MODEL", 10)
    afterglow.compile(write(source, 2.0), cache=folder)
    assert entries(folder, "models") == []


PROGRAM = """
import sys
import numpy as np
import afterglow
x = np.ones((33, 100), np.float32)
for _ in range(3):
    model = afterglow.compile(sys.argv[1], cache=sys.argv[2])
sys.stdout.buffer.write(model(x).tobytes())
"""


def test_several_processes_at_once(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "mlp.onnx"
    onnx.save(networks.mlp(), path)
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(path), str(folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    results = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(results[0]) == 4 * 33 * 11
    assert results[1:] == results[:1] * 2
    assert len(entries(folder, "models")) == 1
    assert not list(folder.rglob("*.part"))
