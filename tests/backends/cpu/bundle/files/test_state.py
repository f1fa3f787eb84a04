"""Bundles of models that keep state: it lies in the caller's memory, and grows there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow.runtime.bundle import Bundle
from afterglow.support.errors import UsageError
from afterglow.types import Array
from tests.backends.cpu.bundle.files.building import build, run
from tests.driver.test_state import CAPACITY, PAST, SIZE, STATE, decoder

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

#define EXPECT(what) \
    if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); }

static _Alignas(NET_ARENA_ALIGN) char arena[NET_ARENA_BYTES];
static float x[NET_INPUT_X_COUNT], y[NET_OUTPUT_Y1_COUNT], states[4][NET_STATE_PAST_0_K_COUNT];

int main(int argc, char **argv) {
    net_io io = {x, y, states[0], states[1], states[2], states[3]};
    net_extents extents;
    FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
    EXPECT(argc == 3);
    memset(states, 0xff, sizeof states); /* numbers that are none */
    for (int times = 0; times < 2; times++) {
        net_reset(&extents);
        rewind(in);
        while (fread(x, sizeof x, 1, in) == 1) {
            EXPECT(net_run(&io, arena, &extents) == NET_OK);
            net_advance(&extents);
            fwrite(y, sizeof y, 1, out);
        }
        EXPECT(extents.past == NET_PAST_MAX + 1);
        y[0] = 7;
        EXPECT(net_run(&io, arena, &extents) == NET_ERROR_EXTENT && y[0] == 7);
    }
    fclose(out);
    return 0;
}
"""


@pytest.fixture(scope="module")
def inputs() -> Array:
    shape = (CAPACITY, 1, 1, SIZE)
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def wanted(inputs: Array) -> Array:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE)
    return np.stack([steps(x) for x in inputs])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    steps = afterglow.compile(decoder(), dims=PAST, state=STATE)
    folder = tmp_path_factory.mktemp("state")
    options = {"target": "x86-64-v3", "name": "net", "embed_weights": True, "shared": True}
    return steps.export_bundle(folder, **options)


def test_a_program_keeps_state_that_grows(bundle: Bundle, inputs: Array, wanted: Array) -> None:
    folder: Path = bundle.folder
    (folder / "test.c").write_text(PROGRAM)
    inputs.tofile(folder / "x.bin")
    run(build(folder, [folder / "test.c", folder / "net.o"]), folder / "x.bin", folder / "y.bin")
    results = np.fromfile(folder / "y.bin", np.float32).reshape(2, *wanted.shape)
    for result in results:
        np.testing.assert_allclose(result, wanted, atol=1e-5)


def test_the_program_on_files_checks_state_that_grows(bundle: Bundle) -> None:
    names = ("main.c", "pool.c", "net.o")
    assert "passed" in run(build(bundle.folder, [bundle.folder / n for n in names]), "--self-check")


def test_a_library_keeps_state_that_grows(bundle: Bundle, inputs: Array, wanted: Array) -> None:
    assert bundle.library is not None
    loaded = afterglow.load(bundle.library)
    for x, result in zip(inputs, wanted, strict=True):
        np.testing.assert_allclose(loaded(x), result, atol=1e-5)
    with pytest.raises(UsageError, match=r"state 'past\.0\.k' is full"):
        loaded(inputs[0])
    loaded.reset()
    np.testing.assert_allclose(loaded(inputs[0]), wanted[0], atol=1e-5)
