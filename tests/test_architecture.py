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
    {"transforms", "lowering", "frontends"},
    {"memory"},
    {"backends"},
    {"bundles"},
    {"driver"},
    {"report"},
    {"onnx_backend"},
    {""},
    {"cli"},
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
        {"bundle"},
    ],
}
"""Sub-layers of large packages; the files of a package itself lie above all of them."""
DOORS = {
    "afterglow.driver.api": "the compiler, for what was not compiled before",
    "afterglow.driver.compile": "what writes bundles, for models that are exported",
    "afterglow.driver.kept": "the compiler, for what else is asked of a kept model",
    "afterglow.runtime.native.machine": "LLVM, for features that the system lists under no name",
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
    return found


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
            assert private or setter or ast.get_docstring(node), f"{node.name} has no docstring"
