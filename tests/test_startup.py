"""What a process imports: only what it uses. Times are no test, but what takes them is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.support.errors import UsageError
from afterglow.support.packages import COMPILER_PACKAGES
from tests.backends.cpu import networks
from tests.frontends.models import info, model, node

COMPILER = (
    *("llvmlite", "onnx", "ml_dtypes", "click", "rich", "importlib.metadata", "concurrent.futures"),
    *("afterglow.graph", "afterglow.instr", "afterglow.ops", "afterglow.passes"),
    *("afterglow.transforms", "afterglow.lowering", "afterglow.frontends", "afterglow.memory"),
    *(
        "afterglow.backends.cpu",
        "afterglow.backends.interpreter",
    ),
    *("afterglow.driver.compile", "afterglow.report", "afterglow.cli"),
)
"""What runs no model."""
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def imported(program: str, *arguments: str | Path, of: tuple[str, ...] = COMPILER) -> list[str]:
    """Which of some modules a program of its own process has imported when it ends."""
    code = f"import sys\n{program}\nprint('\\n' + '\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [name for name in of if name in done.stdout.splitlines()]


RUN = """
import numpy as np
import afterglow as ag
model = ag.{way}
model.run(None, {{i.name: np.zeros(i.shape, i.dtype.numpy) for i in model.inputs}})
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = model(
        [node("Mul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])],
        inputs=[info("x", X.shape)],
        outputs=[info("y", X.shape)],
        constants={"w": np.full(3, 2, np.float32)},
    )
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_importing_the_package_imports_nothing() -> None:
    assert not imported("import afterglow; dir(afterglow)", of=(*COMPILER, "numpy"))


def test_a_text_may_name_any_op_at_once() -> None:
    text = "func @main(%x: f32[2]) { %y = relu(%x) : f32[2] return %y }"
    assert imported(f"import afterglow\nafterglow.parse_module({text!r})", of=("afterglow.ops",))


def test_compiling_a_model_imports_no_tests_and_no_other_backends_kernels(source: Path) -> None:
    others = ("afterglow.testing", "pytest", "hypothesis", "afterglow.backends.opencl.kernels")
    compiled = RUN.format(way="compile(sys.argv[1], backend='interpreter', cache=False)")
    assert not imported(f"{compiled}import afterglow.cli.main", source, of=others)


def test_compiling_a_file_imports_of_onnx_only_the_messages(source: Path) -> None:
    program = "import afterglow as ag; ag.compile(sys.argv[1], cache=False)"
    assert not imported(program, source, of=("onnx", "ml_dtypes"))


def test_running_a_saved_model_imports_no_compiler(tmp_path: Path) -> None:
    afterglow.compile(networks.tiny()).save(tmp_path / "model.agc")
    assert not imported(RUN.format(way="load(sys.argv[1])"), tmp_path / "model.agc")


def test_running_a_library_imports_no_compiler(tmp_path: Path) -> None:
    bundle = afterglow.compile(networks.tiny()).export_bundle(tmp_path, shared=True)
    assert bundle.library is not None
    assert not imported(RUN.format(way="load(sys.argv[1])"), bundle.library)


def test_a_saved_model_whose_host_runs_ops_imports_them(tmp_path: Path) -> None:
    afterglow.compile(networks.texts()).save(tmp_path / "model.agc")
    found = imported("import afterglow\nafterglow.load(sys.argv[1])", tmp_path / "model.agc")
    assert "afterglow.ops" in found
    assert "llvmlite" not in found


def test_a_model_that_was_compiled_before_imports_no_compiler(source: Path) -> None:
    program = RUN.format(way="compile(sys.argv[1], cache=sys.argv[2])")
    folder = source.parent / "cache"
    assert "llvmlite" in imported(program, source, folder)
    assert not imported(program, source, folder)


SMALL = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import afterglow as ag
"""
"""The beginning of a program in an installation that has only NumPy."""


def run_small(program: str, *arguments: str | Path) -> str:
    """What a program prints in such an installation."""
    words = [" ".join(COMPILER_PACKAGES), *map(str, arguments)]
    command = [sys.executable, "-c", SMALL + program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numpy_alone_runs_saved_models(tmp_path: Path) -> None:
    afterglow.compile(networks.tiny()).save(tmp_path / "model.agc")
    program = """
model, session = ag.load(sys.argv[2]), ag.InferenceSession(sys.argv[2])
feed = {i.name: np.ones(i.shape, i.dtype.numpy) for i in model.inputs}
assert session.run(None, feed)[0].tolist() == model.run(None, feed)[0].tolist()
assert session.get_inputs()[0].type == "tensor(float)"
print(model.run(None, feed)[0].shape)
"""
    expected = afterglow.load(tmp_path / "model.agc").outputs[0].shape
    assert run_small(program, tmp_path / "model.agc") == f"{expected}\n"


def test_numpy_alone_runs_saved_models_whose_host_runs_ops(tmp_path: Path) -> None:
    afterglow.compile(networks.texts()).save(tmp_path / "model.agc")
    run_small("ag.load(sys.argv[2])", tmp_path / "model.agc")


@pytest.mark.parametrize(
    ("program", "purpose", "package"),
    [
        ("ag.compile(sys.argv[2], cache=False)", "compiling a model", "llvmlite"),
        ("ag.Trainer", "afterglow.Trainer", "llvmlite"),
        ("ag.onnx_backend", "afterglow.onnx_backend", "onnx"),
        ("ag.types.dtype.bf16.numpy", "an element type that NumPy lacks", "ml_dtypes"),
    ],
)
def test_numpy_alone_says_what_to_install(
    source: Path, program: str, purpose: str, package: str
) -> None:
    caught = f"""
import afterglow.types.dtype
try:
    {program}
except ag.UsageError as error:
    print(error)
"""
    assert run_small(caught, source) == (
        f"error: {purpose} needs the package {package}, which is not installed\n"
        "  help: pip install 'afterglow[compiler]'\n"
    )


def test_the_command_says_what_to_install() -> None:
    program = """
from afterglow.__main__ import main
sys.stderr = sys.stdout
try:
    main()
except SystemExit as exit:
    print(exit.code)
"""
    assert run_small(program) == (
        "error: the command line needs the package click, which is not installed\n"
        "  help: pip install 'afterglow[compiler]'\n2\n"
    )


def test_the_compiler_needs_what_its_extra_installs() -> None:
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    names = [re.split(r"[<>=]", each)[0] for each in project["optional-dependencies"]["compiler"]]
    assert tuple(names) == COMPILER_PACKAGES
    assert [re.split(r"[<>=]", each)[0] for each in project["dependencies"]] == ["numpy"]


def test_a_kept_model_reads_its_source_when_it_is_asked_about_it(source: Path) -> None:
    folder = source.parent / "cache"
    whole = afterglow.compile(source, cache=folder)
    kept = afterglow.compile(source, cache=folder)
    assert kept(X).tobytes() == whole(X).tobytes()
    assert kept.ir("graph") == whole.ir("graph")
    assert kept.export_bundle(source.parent / "bundle").name == "model"


def test_a_kept_model_does_not_take_another_source_for_its_own(source: Path) -> None:
    folder = source.parent / "cache"
    afterglow.compile(source, cache=folder)
    kept = afterglow.compile(source, cache=folder)
    proto = onnx.load(source)
    proto.graph.node[0].op_type = "Add"
    onnx.save(proto, source)
    with pytest.raises(UsageError) as caught:
        kept.ir("graph")
    assert str(caught.value) == (
        f"error: {source} has changed since the model was compiled\n  help: compile it again"
    )


def test_kept_models_with_tensors_in_other_files(source: Path) -> None:
    proto = onnx.load(source)
    onnx.save(proto, source, save_as_external_data=True, location="weights", size_threshold=0)
    program = RUN.format(way="compile(sys.argv[1], cache=sys.argv[2])")
    folder = source.parent / "cache"
    imported(program, source, folder)
    assert not imported(program, source, folder)
    first = afterglow.compile(source, cache=folder)(X)
    weights = source.parent / "weights"
    weights.write_bytes((np.frombuffer(weights.read_bytes(), np.float32) * 2).tobytes())
    assert not np.array_equal(afterglow.compile(source, cache=folder)(X), first)


@pytest.mark.parametrize("threads", [0, -1])
def test_options_are_checked_for_kept_models_too(source: Path, threads: int) -> None:
    folder = source.parent / "cache"
    afterglow.compile(source, cache=folder)
    with pytest.raises(UsageError, match="threads must be 1 or more"):
        afterglow.compile(source, cache=folder, threads=threads)


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_imports_no_verb(words: list[str]) -> None:
    program = f"from afterglow.cli.main import execute; execute({words})"
    light = {"click", "afterglow.cli", "importlib.metadata"}
    heavy = (*(name for name in COMPILER if name not in light), "numpy", "afterglow.cli.run")
    assert not imported(program, of=heavy)


def test_every_public_name_is_what_type_checkers_take_it_for() -> None:
    tree = ast.parse(Path(afterglow.__file__).read_text())
    guarded = next(n for n in tree.body if isinstance(n, ast.If)).body
    declared = {
        alias.name: statement.module
        for statement in guarded
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert sorted(declared) == sorted(afterglow.__all__)
    for name, home in declared.items():
        assert getattr(afterglow, name) is getattr(import_module(home or ""), name)


def test_the_package_lists_its_public_names_and_no_others() -> None:
    assert dir(afterglow) == sorted([*afterglow.__all__, "__version__"])
    assert not {
        name for name in ("Any", "import_module", "TYPE_CHECKING") if name in vars(afterglow)
    }


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'afterglow' has no attribute 'fly'"):
        afterglow.fly  # noqa: B018
