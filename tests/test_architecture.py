"""The architecture as a test: who may import whom, how long files are, what is documented."""

from __future__ import annotations

import ast
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
DOORS = {
    "afterglow.driver.api": "the compiler, for what was not compiled before",
    "afterglow.driver.compile": "what writes bundles, for models that are exported",
    "afterglow.frontends.onnx.front_end": "the library that reads ONNX files, once one is opened",
    "afterglow.frontends.onnx.functions": "the same, for ops that only the standard defines",
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


@each_module
def test_nothing_is_imported_inside_a_function(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
            assert not inner or dotted(path) in DOORS, f"line {inner[0].lineno}"


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
