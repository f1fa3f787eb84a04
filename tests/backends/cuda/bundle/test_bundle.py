"""Bundles for GPUs, compiled and run against a library that pretends to be the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from afterglow.backends.capabilities import BundleEntry
from afterglow.backends.cuda.bundle import bundle_for_cuda
from afterglow.backends.cuda.bundle.bundler import CudaBundle
from afterglow.backends.cuda.bundle.code import GpuCode
from afterglow.instr import Program
from afterglow.runtime.bundle import BundleRequest
from afterglow.runtime.native.program import CheckedIndex
from afterglow.support.errors import UsageError
from afterglow.types import IndexRange
from tests.backends.cuda.driver.fake_library import build_library, c_compiler
from tests.backends.cuda.fake_driver import DOUBLED, QUADRUPLED, artifact

X = np.arange(4, dtype=np.float32)
STRICT = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
CHECKED = (("check", "input 0", ["alarms", 16]), ("double", "input 0", "output 0"))
CHECKS = [CheckedIndex("pick", "gather", "indices", IndexRange(0, 9))]
ON_DEVICE = r"""
#include "net.h"
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    FILE *file = fopen("net.bin", "rb");
    static unsigned char data[NET_DATA_BYTES];
    _Alignas(16) float x[4] = {1, 2, 3, 4}, y[2][4];
    net_model *model;
    if (fread(data, 1, sizeof data, file) != sizeof data) return 1;
    fclose(file);
    if (net_open(data, sizeof data, 0, &model) != NET_OK) return 2;
    for (int i = 0; i < 6; i++) { /* two sets of addresses, three times each */
        net_io io = {.x = x, .y = y[i % 2]};
        if (net_start(model, &io, NULL) != NET_OK) return 3;
    }
    if (net_wait(model, NULL) != NET_OK) return 4;
    net_io askew = {.x = (float *)((char *)x + 4), .y = y[0]};
    if (net_start(model, &askew, NULL) != NET_ERROR_ADDRESS) return 5;
    net_io missing = {.x = x};
    if (net_run(model, &missing) != NET_ERROR_NULL) return 6;
    net_close(model);
    printf("%g %g\n", y[0][3], y[1][3]);
    data[0] ^= 1;
    if (net_open(data, sizeof data, 0, &model) != NET_ERROR_WEIGHTS_CONTENT) return 7;
    if (net_open(data, 1, 0, &model) != NET_ERROR_WEIGHTS_SIZE) return 8;
    return 0;
}
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("driver"))


def code(parts=DOUBLED, **named):
    made = artifact(parts, **named)
    kernels = made.manifest["kernels"].values()
    ended = {each["section"]: made.sections[each["section"]] + b"\0" for each in kernels}
    made = replace(made, sections={**made.sections, **ended})  # texts, in place of machine code
    return GpuCode("net", made, ("x",), ("y",))


class Built:
    """A bundle whose program is compiled, and runs with the library."""

    def __init__(self, folder, library, made, source="main.c"):
        self.folder, self.library = folder, library
        CudaBundle(made).write(folder, shared=False, force=False, never=())
        build = [*c_compiler(), *STRICT, "-o", "main", source, "net.c", "-ldl"]
        done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr

    def run(self, *arguments, **environment):
        given = {"LD_LIBRARY_PATH": str(self.library.parent), "FAKE_CUDA_LOG": "log"}
        return subprocess.run(
            ["./main", *arguments],
            cwd=self.folder,
            env={**os.environ, **given, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def log(self):
        return (self.folder / "log").read_text().splitlines()


def test_a_bundle_runs_on_files(tmp_path, library):
    built = Built(tmp_path, library, code(QUADRUPLED))
    np.save(tmp_path / "x.npy", X)
    done = built.run("x=x.npy", "y=y.npy", "--runs", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" ms a run\n")
    assert np.load(tmp_path / "y.npy").tolist() == (4 * X).tolist()
    log = [line.split()[0] for line in built.log()]
    assert log.count("cuGraphLaunch") == 3
    assert log.count("cuGraphInstantiateWithFlags") == 1
    launches = [line for line in built.log() if line.startswith("cuLaunchKernelEx")]
    assert launches == [
        "cuLaunchKernelEx double (2 1 1) (128 1 1) 1024",
        "cuLaunchKernelEx double (2 1 1) (128 1 1) 1024 early",
    ]


def test_everything_is_given_back(tmp_path, library):
    built = Built(tmp_path, library, code(CHECKED, checks=CHECKS))
    assert not built.run().returncode
    log = [line.split()[0] for line in built.log()]
    for made, gone in (
        ("cuMemAlloc_v2", "cuMemFree_v2"),
        ("cuMemHostAlloc", "cuMemFreeHost"),
        ("cuModuleLoadData", "cuModuleUnload"),
        ("cuGraphInstantiateWithFlags", "cuGraphExecDestroy"),
        ("cuStreamCreate", "cuStreamDestroy_v2"),
        ("cuEventCreate", "cuEventDestroy_v2"),
        ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"),
    ):
        assert log.count(made) == log.count(gone) > 0, made


def test_runs_on_memory_of_the_gpu_are_captured_once_for_each_set_of_addresses(tmp_path, library):
    (tmp_path / "device.c").write_text(ON_DEVICE)
    built = Built(tmp_path, library, code(), "device.c")
    done = built.run()
    assert (done.returncode, done.stdout) == (0, "8 8\n")
    log = [line.split()[0] for line in built.log()]
    assert log.count("cuGraphInstantiateWithFlags") == 2
    assert log.count("cuGraphLaunch") == 6


def test_state_lasts_from_run_to_run(tmp_path, library):
    parts = (("add", "input 0", "state s", "output 0"),)
    built = Built(tmp_path, library, code(parts, states=("s",)))
    assert "int32_t net_reset(net_model *model);" in (tmp_path / "net.h").read_text()
    np.save(tmp_path / "x.npy", X)
    assert not built.run("x=x.npy", "y=y.npy", "--runs", "3").returncode
    assert np.load(tmp_path / "y.npy").tolist() == (3 * X).tolist()


def test_an_index_out_of_range_is_reported(tmp_path, library):
    built = Built(tmp_path, library, code(CHECKED, checks=CHECKS))
    np.save(tmp_path / "x.npy", X + 12)
    done = built.run("x=x.npy")
    assert done.returncode == 1
    assert (
        done.stderr == "error: an index in the inputs is out of range: the outputs are undefined\n"
    )


@pytest.mark.parametrize(
    ("fail", "meaning", "detail"),
    [
        ("cuInit:100", "there is no such GPU", "cuInit failed: CUDA_ERROR_NO_DEVICE"),
        (
            "cuMemAlloc_v2:2",
            "there is not enough memory on the GPU, or on the host",
            "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY",
        ),
        (
            "cuModuleLoadData:209",
            "the model was compiled for other GPUs",
            "cuModuleLoadData failed: unknown error",
        ),
        (
            "cuStreamSynchronize:700",
            "the driver reports an error: see the function _error",
            "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS",
        ),
    ],
)
def test_errors_of_the_driver_are_reported(tmp_path, library, fail, meaning, detail):
    done = Built(tmp_path, library, code()).run(FAKE_CUDA_FAIL=fail)
    assert (done.returncode, done.stderr) == (1, f"error: {meaning}\n  {detail}\n")


def test_a_gpu_of_another_kind_is_refused(tmp_path, library):
    done = Built(tmp_path, library, code(arch=80)).run()
    assert done.stderr == (
        "error: the model was compiled for other GPUs\n"
        "  the GPU has compute capability 9.0, not 8.0\n"
    )


def test_without_a_driver_the_program_says_so(tmp_path, library):
    built = Built(tmp_path, library, code())
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "libcuda.so.1").write_text("no library")
    done = built.run(LD_LIBRARY_PATH=str(empty))
    assert done.stderr == (
        "error: there is no driver for CUDA here, or one that is too old\n"
        "  the driver of NVIDIA is not installed\n"
    )
    done = built.run(FAKE_CUDA_VERSION="11040")
    assert done.stderr.endswith("  the driver is too old: it has CUDA 11.4\n")


def test_the_makefile_builds_the_program(tmp_path, library):
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not here")
    CudaBundle(code()).write(tmp_path, shared=False, force=False, never=())
    compiler = " ".join(c_compiler())
    subprocess.run([make, f"CC={compiler}"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "main").exists()


def test_the_description_lists_what_there_is(tmp_path):
    bundle = CudaBundle(code(CHECKED, checks=CHECKS)).write(
        tmp_path, shared=False, force=False, never=()
    )
    assert json.loads((tmp_path / "net.json").read_text()) == bundle.description
    assert bundle.description["kernels"] == ["check", "double"]
    assert bundle.description["target"] == {"name": "sm_90", "compute_capability": 90}
    assert bundle.description["inputs"] == [
        {"name": "x", "member": "x", "dtype": "f32", "shape": [4], "bytes": 16}
    ]
    digests = (tmp_path / "net.sha256").read_text()
    assert all(name in digests for name in ("net.bin", "net.c", "net.h", "main.c", "README.md"))


def test_the_same_program_gives_the_same_files(tmp_path):
    for folder in ("one", "two"):
        CudaBundle(code()).write(tmp_path / folder, shared=False, force=False, never=())
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_what_a_bundle_cannot_be_is_said():
    entry = BundleEntry(Program("main"), ("x",), ("y",), "", lambda backend: None)

    def bundle(entries, **asked):
        request = BundleRequest("sm_90", "net", **asked)
        return bundle_for_cuda(
            "net", entries, request, lambda program: code().artifact, lambda p: []
        )

    with pytest.raises(UsageError) as caught:
        bundle([entry, entry])
    assert str(caught.value) == (
        "error: a bundle for CUDA has one program, and 2 are asked for\n"
        "  help: write a bundle for each shape or function"
    )
    with pytest.raises(UsageError) as caught:
        bundle([entry], freestanding=True)
    assert str(caught.value) == (
        "error: a bundle for CUDA cannot be written with --freestanding\n"
        "  help: its launcher needs the C library, and reads the weights from a file"
    )
    with pytest.raises(UsageError) as caught:
        bundle([entry]).write("", shared=True, force=False, never=())
    assert str(caught.value) == (
        "error: a bundle for CUDA has no shared library\n"
        "  help: save the model as FILE.agc to load it in Python; in C, compile NAME.c"
    )


def test_the_emulator_is_no_target_of_a_bundle():
    entry = BundleEntry(Program("main"), ("x",), ("y",), "", lambda backend: None)
    made = code().artifact
    target = {**made.manifest["target"], "name": "emulated"}
    emulated = replace(made, manifest={**made.manifest, "target": target})
    request = BundleRequest("emulated", "net")
    with pytest.raises(UsageError) as caught:
        bundle_for_cuda("net", [entry], request, lambda _: emulated, lambda _: [])
    assert str(caught.value) == (
        "error: a bundle for CUDA is machine code, which there is none of for the emulator\n"
        "  help: name a kind of GPU, such as --target sm_90"
    )
