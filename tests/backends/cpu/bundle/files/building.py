"""Bundles of small models, and C programs around them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.files import c_compiler, write_bundle
from afterglow.backends.cpu.target import Target
from afterglow.driver.bundles import compile_bundle
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.runtime.bundle import Bundle, BundleRequest
from afterglow.support.errors import UsageError
from afterglow.types import Array

STRICT = ("-Wall", "-Wextra", "-Werror")


def bundle_code(source: Any, name: str, target: str = "x86-64-v3", **options: bool) -> BundleCode:
    """A model compiled for a bundle, without the detour over this machine."""
    request = BundleRequest(target, name, **options)
    return compile_bundle(open_source(source), Options(), request).code


def export(
    source: Any, folder: Path, name: str, target: str = "x86-64-v3", **options: bool
) -> Bundle:
    """The same, written into a folder."""
    return write_bundle(bundle_code(source, name, target, **options), folder)


@cache
def compiler() -> tuple[str, ...]:
    """A C compiler for this machine; the test is skipped if there is none."""
    if not Target.host().triple.startswith("x86_64") or "linux" not in Target.host().triple:
        pytest.skip("the bundles of these tests are for Linux on x86-64")
    try:
        return tuple(c_compiler(Target.of("x86-64")))
    except UsageError:
        pytest.skip("no C compiler is here: install ziglang, or cc")


@cache
def sanitizing_compiler() -> str:
    """A compiler with AddressSanitizer, which zig does not bring along."""
    found = shutil.which("gcc") or shutil.which("clang")
    return found if found is not None else pytest.skip("neither gcc nor clang is here")


def build(
    folder: Path,
    sources: Sequence[Path | str],
    *,
    options: Sequence[str] = (),
    sanitize: bool = False,
) -> Path:
    """Compile and link a program."""
    program = folder / "program"
    base: Sequence[str] = compiler()
    if sanitize:
        base = [sanitizing_compiler(), "-g", "-fsanitize=address,undefined"]
        options = [*options, "-fno-sanitize-recover=all"]
    files = [str(source) for source in sources]
    command = [*base, "-std=c11", "-O1", *STRICT, *options, "-o", str(program), *files, "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, *arguments: object, status: int = 0) -> str:
    """Run a program, and return what it says."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def random_inputs(bundle: Bundle, seed: int = 0) -> list[Array]:
    """Arrays for the inputs of the first entry."""
    random = np.random.default_rng(seed)
    ports = bundle.description["entries"][0]["inputs"]
    return [random.standard_normal(port["shape"]).astype(np.float32) for port in ports]


def interpreted(source: Any, inputs: Sequence[Array]) -> list[Array]:
    """What the interpreter says."""
    model = afterglow.compile(source, backend="interpreter")
    feed = {info.name: array for info, array in zip(model.inputs, inputs, strict=True)}
    return model.run(None, feed)
