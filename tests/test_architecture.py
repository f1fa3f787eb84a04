"""The architecture as a test: who may import whom, how long files are, what is documented."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "afterglow"

LAYERS = [
    {"support"},
    {"types"},
    {"runtime"},
    {"graph"},
    {"instr"},
    {"ops"},
    {"passes"},
    {"autodiff"},
    {"transforms", "quantization", "lowering", "frontends", "optim", "nn"},
    {"memory", "exporters"},
    {"backends"},
    {"partition"},
    {"driver"},
    {"training"},
    {"host"},
    {"text"},
    {"serve"},
    {"ray"},
    {"report"},
    {"onnx_backend", "onnxruntime", "torch_backend"},
    {"testing"},
    {""},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ROOMS = {
    "afterglow.backends.cpu": [
        {"target"},
        {"llvm"},
        {"pointwise"},
        {"micro"},
        {"kernels"},
        {"link", "threads"},
        {"codegen"},
        {"bundle", "tools"},
    ],
    "afterglow.backends.cuda": [
        {"driver"},
        {"target"},
        {"tl"},
        {"kernels"},
        {"compile"},
        {"emulator"},
        {"bundle"},
    ],
}
"""Sub-layers of large packages; the files of a package itself lie above all of them."""
DOORS = {
    "afterglow.__main__": "the command line, for installations that have it",
    "afterglow.driver.api": "the compiler, for what was not compiled before",
    "afterglow.backends.cpu.backend": "what writes bundles, for models that are exported",
    "afterglow.backends.cuda.device": "the emulator, for programs that are compiled for it",
    "afterglow.backends.cuda.executable": "the interpreter, for steps of the host",
    "afterglow.backends.cuda.factory": "its kernels, for compilations that ask for CUDA",
    "afterglow.backends.opencl.factory": "its kernels, for compilations that ask for OpenCL",
    "afterglow.driver.backends": "the partitioner, for models that several devices run",
    "afterglow.driver.stages": "the checker of plans, for passes that are verified",
    "afterglow.driver.devices": "the interpreter, for models of which the host runs something",
    "afterglow.driver.rounding": "the compiler, which runs a model to round its weights",
    "afterglow.driver.loading": "the compiler, for models with data-dependent shapes",
    "afterglow.driver.cached": "the compiler, for what else is asked of a kept model",
    "afterglow.frontends.caffe2.front_end": "its importers, once a net is opened",
    "afterglow.frontends.gguf.front_end": "its reader and the ops of language models",
    "afterglow.frontends.huggingface.front_end": "the same",
    "afterglow.frontends.onnx.front_end": "the library that reads ONNX files, once one is opened",
    "afterglow.frontends.onnx.registry": "the same, for ops that only the standard defines",
    "afterglow.frontends.onnx.source": "all of that library, for types that are inferred",
    "afterglow.frontends.onnx.tensors": "the same, for tensors of rare forms",
    "afterglow.frontends.torch.front_end": "PyTorch, once a program of it is opened",
    "afterglow.frontends.tflite.front_end": "the library that reads TFLite files",
    "afterglow.runtime.background": "futures and threads, for what runs in the background",
    "afterglow.runtime.native.machine": "LLVM, for features that the system lists under no name",
    "afterglow.support.plugins": "the metadata of packages, for names that are not our own",
    "afterglow.text.chat": "Jinja, which runs the chat templates of models",
    "afterglow.text.tokenizer.tokenizer_json": "the package tokenizers, for a tokenizer.json",
    "afterglow.text.opening": "the compiler, for language models that are not saved ones",
    "afterglow.types.dtype": "ml_dtypes, for elements that NumPy has not",
}
"""Modules with an import inside a function, and for what: all that running a model does without."""
MOST_LINES = 600
MODULES = sorted(SOURCE.rglob("*.py"))


def layer(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ""


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("afterglow"):
            below = [f"{node.module}.{alias.name}" for alias in node.names]
            found.extend(below if node.module == "afterglow" else [node.module or ""])
        elif isinstance(node, ast.Import):
            found.extend(a.name for a in node.names if a.name.startswith("afterglow"))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.extend(_named(node.args[0]))
    return found


def _named(argument: ast.expr) -> list[str]:
    """The module of this package that `import_module` is given as a text, if it is."""
    text = argument.value if isinstance(argument, ast.Constant) else ""
    return [text] if str(text).startswith("afterglow.") else []


each_module = pytest.mark.parametrize("path", MODULES, ids=dotted)


@each_module
def test_imports_point_down(path: Path) -> None:
    me = layer(dotted(path))
    for imported in imports(ast.parse(path.read_text())):
        other = layer(imported)
        below = RANK[other] < RANK[me]
        assert below or other == me, f"{dotted(path)} imports {imported}, which is not below it"


@pytest.mark.parametrize("package", ROOMS)
def test_imports_between_rooms_point_down(package: str) -> None:
    rank = {name: number for number, names in enumerate(ROOMS[package]) for name in names}
    top = len(ROOMS[package])
    for path in modules_of(package):
        me = room(dotted(path), package)
        for imported in imports(ast.parse(path.read_text())):
            if not is_within(imported, package) or room(imported, package) == me:
                continue
            other = room(imported, package)
            below = rank.get(other, top) < rank.get(me, top) or me not in rank
            assert below, f"{dotted(path)} imports {imported}, which is not below it"


@pytest.mark.parametrize("package", ROOMS)
def test_every_folder_of_a_large_package_is_a_room(package: str) -> None:
    folder = SOURCE.parent.joinpath(*package.split("."))
    found = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert found == set().union(*ROOMS[package])


@pytest.mark.parametrize("package", ROOMS)
def test_modules_of_a_large_package_do_not_import_in_circles(package: str) -> None:
    edges = {
        dotted(path): {i for i in imports_to_run(path) if is_within(i, package)} - {dotted(path)}
        for path in modules_of(package)
    }
    TopologicalSorter(edges).prepare()


def modules_of(package: str) -> Iterable[Path]:
    return (path for path in MODULES if is_within(dotted(path), package))


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def room(module: str, package: str) -> str:
    return module.removeprefix(package).strip(".").split(".")[0]


def imports_to_run(path: Path) -> list[str]:
    """What a module imports when it runs, not only for its annotations."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return imports(tree)


@each_module
def test_nothing_but_the_tests_needs_the_conformance_kit(path: Path) -> None:
    known = [i for i in imports(ast.parse(path.read_text())) if layer(i) == "testing"]
    assert not known or layer(dotted(path)) == "testing", f"{dotted(path)} imports {known[0]}"


@each_module
def test_nothing_but_the_registry_knows_the_cpu_backend(path: Path) -> None:
    inside = is_within(dotted(path), "afterglow.backends.cpu")
    if inside or dotted(path) == "afterglow.backends.registry":
        return
    tree = ast.parse(path.read_text())
    known = [name for name in imports(tree) if is_within(name, "afterglow.backends.cpu")]
    assert not known, f"{dotted(path)} imports {known[0]}: ask for a capability instead"
    compared = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Constant) and side.value == "cpu"
    ]
    assert not compared or dotted(path) == "afterglow.driver.devices", f"line {compared}"


@each_module
def test_nothing_is_imported_inside_a_function(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
            assert not inner or dotted(path) in DOORS, f"line {inner[0].lineno}"


def test_the_alignment_of_memory_is_defined_once() -> None:
    found = [
        dotted(path)
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ALIGNMENT"
    ]
    assert found == ["afterglow.runtime.native.convention"]


@each_module
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@each_module
def test_every_public_name_is_documented(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module has no docstring"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            owner = next((p for p in ast.walk(tree) if node in ast.iter_child_nodes(p)), tree)
            private = isinstance(owner, ast.FunctionDef) or (
                isinstance(owner, ast.ClassDef) and owner.name.startswith("_")
            )
            setter = any(isinstance(d, ast.Attribute) for d in node.decorator_list)
            signature = any(ast.unparse(d) == "overload" for d in node.decorator_list)
            exempt = private or setter or signature
            assert exempt or ast.get_docstring(node), f"{node.name} has no docstring"


GENERAL = ("base", "partition", "registry")
"""What the driver may import of the front ends."""


@each_module
def test_only_the_registry_of_front_ends_brings_a_particular_one(path: Path) -> None:
    me = dotted(path)
    if not me.startswith("afterglow.driver"):
        return
    for imported in (*imports(ast.parse(path.read_text())), *_libraries(path)):
        is_general = imported.removeprefix("afterglow.frontends.") in GENERAL
        is_other = not imported.startswith(("afterglow.frontends", "onnx"))
        assert is_general or is_other, f"{me} imports {imported}"


def _libraries(path: Path) -> list[str]:
    """What a file imports by name of other packages."""
    tree = ast.parse(path.read_text())
    froms = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    plain = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    return [name for name in (*froms, *plain) if not name.startswith("afterglow")]
