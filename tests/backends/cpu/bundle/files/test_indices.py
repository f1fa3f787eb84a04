"""Bundles that meet an index out of range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow.support.errors import IndexRangeError
from tests.backends.cpu.bundle.files.building import build, export, run
from tests.frontends.models import INT64, info, model, node

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "look.h"
#include "pool.h"

#define EXPECT(what) \
    if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); }

static _Alignas(64) char arena[LOOK_ARENA_BYTES], memory[LOOK_SELF_CHECK_BYTES];
static _Alignas(64) float x[LOOK_INPUT_X_COUNT], y[LOOK_OUTPUT_Y_COUNT];
static int64_t indices[LOOK_INPUT_I_COUNT];

int main(void) {
    look_io io = {x, indices, y};
    for (int i = 0; i < LOOK_INPUT_X_COUNT; i++) x[i] = (float)i;
    memset(arena, 0x7F, sizeof arena);
    EXPECT(look_run(&io, arena) == LOOK_OK);
    indices[3] = 1000000000;
    EXPECT(look_run(&io, arena) == LOOK_ERROR_INDEX);
    afterglow_pool *pool = afterglow_pool_start(2, LOOK_SCRATCH_BYTES);
    EXPECT(look_run_team(&io, arena, afterglow_pool_team(pool)) == LOOK_ERROR_INDEX);
    indices[3] = -5;
    EXPECT(look_run_team(&io, arena, afterglow_pool_team(pool)) == LOOK_OK && y[3] == x[2]);
    afterglow_pool_stop(pool);
    EXPECT(look_self_check(arena, memory) == LOOK_OK);
    return 0;
}
"""


def look_up():
    return model(
        [node("Gather", ["x", "i"], ["y"], name="look")],
        inputs=[info("x", (7,)), info("i", (9,), INT64)],
        outputs=[info("y", (9,))],
    )


def test_a_run_returns_a_code_of_its_own(tmp_path: Path) -> None:
    export(look_up(), tmp_path, "look", embed_weights=True)
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    run(build(tmp_path, [source, tmp_path / "pool.c", tmp_path / "look.o"]))
    assert "LOOK_ERROR_INDEX = 7" in (tmp_path / "look.h").read_text()


def test_the_program_of_a_bundle_says_what_is_wrong(tmp_path: Path) -> None:
    export(look_up(), tmp_path, "look")
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "look.o")])
    np.save(tmp_path / "x.npy", np.zeros(7, np.float32))
    np.save(tmp_path / "i.npy", np.full(9, 7))
    files = (f"x={tmp_path}/x.npy", f"i={tmp_path}/i.npy", "--weights", tmp_path / "look.weights")
    said = run(program, *files, status=1)
    assert said == (
        "error: look: an index in the inputs is out of range: the outputs are undefined\n"
    )


def test_a_self_check_may_meet_such_an_index(tmp_path: Path) -> None:
    source = model(
        [node("Gather", ["x", "i"], ["y"])],
        inputs=[info("x", (1,)), info("i", (9,), INT64)],
        outputs=[info("y", (9,))],
    )
    export(source, tmp_path, "look")
    program = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "look.o")])
    said = run(program, "--self-check", "--weights", tmp_path / "look.weights")
    assert said == "self-check passed\n"


def test_a_loaded_library_names_the_node(tmp_path: Path) -> None:
    made = afterglow.compile(look_up(), cache=False)
    made.export_bundle(tmp_path, name="look", shared=True)
    library = afterglow.load(tmp_path / "liblook.so")
    x = np.arange(7, dtype=np.float32)
    with pytest.raises(IndexRangeError) as caught:
        library(x, np.full(9, -8))
    assert str(caught.value).splitlines()[:2] == [
        "error: gather: indices must be from -7 to 6, got -8",
        "  in node 'look'",
    ]
    assert np.array_equal(library(x, np.arange(9) % 7), x[np.arange(9) % 7])


def test_an_unchecked_bundle_takes_the_nearest(tmp_path: Path) -> None:
    made = afterglow.compile(look_up(), cache=False, unchecked=True)
    made.export_bundle(tmp_path, name="look", shared=True)
    library = afterglow.load(tmp_path / "liblook.so")
    assert (library(np.arange(7, dtype=np.float32), np.full(9, 8)) == 6).all()
