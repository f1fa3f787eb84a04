"""What a wheel contains, by what setuptools would copy into it: nothing is built or fetched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LISTING = """
import json
from setuptools import Distribution
from setuptools.config.pyprojecttoml import apply_configuration

project = Distribution({"script_name": "setup.py"})
command = apply_configuration(project, "pyproject.toml").get_command_obj("build_py")
command.build_lib = "."
command.ensure_finalized()
modules = [file for _, _, file in command.find_all_modules()]
data = [f"{folder}/{name}" for _, folder, _, names in command.data_files for name in names]
print(json.dumps([*modules, *data]))
"""


def test_a_wheel_contains_every_file_of_the_package() -> None:
    pytest.importorskip("setuptools", minversion="77", reason="setuptools is not installed")
    done = subprocess.run(
        [sys.executable, "-c", LISTING], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    listed = {Path(name) for name in json.loads(done.stdout.splitlines()[-1])}
    there = {
        path.relative_to(ROOT)
        for path in (ROOT / "src" / "afterglow").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert listed == there
