"""Calling bundles from C: with teams, at the same time, and in the wrong way."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from afterglow.runtime.bundle import Bundle
from tests.backends.cpu.bundle.files.building import build, export, run
from tests.emulation.models import MODELS

COMMON = r"""
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cnn.h"
#include "mlp.h"
#include "pool.h"

#define EXPECT(what) \
    if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); }

static void *take(size_t bytes) {
    void *memory = NULL;
    EXPECT(posix_memalign(&memory, 64, bytes) == 0);
    memset(memory, 0x7F, bytes);
    return memory;
}

static void *take_file(const char *path, size_t bytes) {
    void *memory = take(bytes);
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL && fread(memory, 1, bytes, file) == bytes);
    fclose(file);
    return memory;
}

static float *take_floats(size_t count, unsigned seed) {
    float *floats = take(count * sizeof *floats);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        floats[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return floats;
}
"""

WRONG_USE = (
    COMMON
    + r"""
int main(void) {
    char *weights = take_file("cnn.weights", CNN_WEIGHTS_BYTES);
    char *arena = take(CNN_ARENA_BYTES + 64);
    float *x = take_floats(CNN_INPUT_X_COUNT, 1), *y = take(CNN_OUTPUT_Y_BYTES);
    char *memory = take(CNN_SELF_CHECK_BYTES + 64);
    cnn_io io = {x, y}, no_input = {NULL, y}, no_output = {x, NULL};
    afterglow_pool *pool = afterglow_pool_start(2, CNN_SCRATCH_BYTES);

    EXPECT(cnn_run(&io, arena, weights) == CNN_OK);
    EXPECT(cnn_run(NULL, arena, weights) == CNN_ERROR_NULL);
    EXPECT(cnn_run(&io, NULL, weights) == CNN_ERROR_NULL);
    EXPECT(cnn_run(&io, arena, NULL) == CNN_ERROR_NULL);
    EXPECT(cnn_run(&no_input, arena, weights) == CNN_ERROR_NULL);
    EXPECT(cnn_run(&no_output, arena, weights) == CNN_ERROR_NULL);
    EXPECT(cnn_run(&io, arena + 4, weights) == CNN_ERROR_ALIGNMENT);
    EXPECT(cnn_run(&io, arena, weights + 32) == CNN_ERROR_ALIGNMENT);

    EXPECT(cnn_run_team(&io, arena, weights, afterglow_pool_team(pool)) == CNN_OK);
    EXPECT(cnn_run_team(&io, arena, weights, NULL) == CNN_ERROR_NULL);
    EXPECT(cnn_run_team(&io, arena + 8, weights, afterglow_pool_team(pool)) == CNN_ERROR_ALIGNMENT);

    EXPECT(cnn_self_check(arena, weights, memory) == CNN_OK);
    EXPECT(cnn_self_check(NULL, weights, memory) == CNN_ERROR_NULL);
    EXPECT(cnn_self_check(arena, NULL, memory) == CNN_ERROR_NULL);
    EXPECT(cnn_self_check(arena, weights, NULL) == CNN_ERROR_NULL);
    EXPECT(cnn_self_check(arena, weights, memory + 1) == CNN_ERROR_ALIGNMENT);

    EXPECT(cnn_check_weights(weights, CNN_WEIGHTS_BYTES) == CNN_OK);
    EXPECT(cnn_check_weights(weights, CNN_WEIGHTS_BYTES - 1) == CNN_ERROR_WEIGHTS_SIZE);
    EXPECT(cnn_check_weights(NULL, 0) == CNN_ERROR_WEIGHTS_SIZE);
    EXPECT(cnn_check_weights(NULL, CNN_WEIGHTS_BYTES) == CNN_ERROR_NULL);
    EXPECT(cnn_check_weights(weights + 1, CNN_WEIGHTS_BYTES) == CNN_ERROR_ALIGNMENT);
    weights[CNN_WEIGHTS_BYTES / 2] ^= 1;
    EXPECT(cnn_check_weights(weights, CNN_WEIGHTS_BYTES) == CNN_ERROR_WEIGHTS_CONTENT);
    memset(weights, 0, CNN_WEIGHTS_BYTES);
    EXPECT(cnn_self_check(arena, weights, memory) == CNN_ERROR_SELF_CHECK);
    afterglow_pool_stop(pool);
    free(weights), free(arena), free(x), free(y), free(memory);
    return 0;
}
"""
)

TEAMS = (
    COMMON
    + r"""
/* A team of one that writes down what it is asked to do. */
typedef struct {
    afterglow_team team;
    void *scratch;
    unsigned steps, shared;
} profiler;

static void profile(afterglow_team *team, afterglow_step step, void *bases, intptr_t units,
                    intptr_t chunks) {
    profiler *self = (profiler *)team;
    EXPECT(units >= 1 && chunks >= 1 && chunks <= units);
    EXPECT(strlen(cnn_step_name(self->steps)) > 0);
    self->steps++;
    self->shared += chunks > 1;
    for (intptr_t unit = units; unit > 0; unit--) step(bases, self->scratch, unit - 1, unit);
}

int main(void) {
    char *weights = take_file("cnn.weights", CNN_WEIGHTS_BYTES), *arena = take(CNN_ARENA_BYTES);
    float *x = take_floats(CNN_INPUT_X_COUNT, 1);
    float *alone = take(CNN_OUTPUT_Y_BYTES), *shared = take(CNN_OUTPUT_Y_BYTES);
    cnn_io io = {x, alone}, others = {x, shared};
    EXPECT(cnn_run(&io, arena, weights) == CNN_OK);

    profiler self = {{profile}, take(CNN_SCRATCH_BYTES), 0, 0};
    EXPECT(cnn_run_team(&others, arena, weights, &self.team) == CNN_OK);
    EXPECT(self.steps == CNN_STEPS && self.shared > 0);
    EXPECT(cnn_step_name(CNN_STEPS)[0] == 0 && cnn_step_name(0xFFFFFFFF)[0] == 0);
    EXPECT(memcmp(alone, shared, CNN_OUTPUT_Y_BYTES) == 0);

    for (int threads = 1; threads <= 4; threads++) {
        afterglow_pool *pool = afterglow_pool_start(threads, CNN_SCRATCH_BYTES);
        EXPECT(pool != NULL);
        for (int i = 0; i < 20; i++) {
            memset(shared, 0, CNN_OUTPUT_Y_BYTES);
            EXPECT(cnn_run_team(&others, arena, weights, afterglow_pool_team(pool)) == CNN_OK);
            EXPECT(memcmp(alone, shared, CNN_OUTPUT_Y_BYTES) == 0);
        }
        afterglow_pool_stop(pool);
    }
    free(weights), free(arena), free(x), free(alone), free(shared), free(self.scratch);
    return 0;
}
"""
)

AT_ONCE = (
    COMMON
    + r"""
static const void *cnn_weights, *mlp_weights;

/* Runs both models many times, with memory of its own, and always gets the same. */
static void *work(void *seed) {
    char *cnn_arena = take(CNN_ARENA_BYTES), *mlp_arena = take(MLP_ARENA_BYTES);
    float *image = take_floats(CNN_INPUT_X_COUNT, *(unsigned *)seed);
    float *vector = take_floats(MLP_INPUT_X_COUNT, *(unsigned *)seed);
    float *first[2] = {take(CNN_OUTPUT_Y_BYTES), take(MLP_OUTPUT_Y_BYTES)};
    float *later[2] = {take(CNN_OUTPUT_Y_BYTES), take(MLP_OUTPUT_Y_BYTES)};
    cnn_io cnn_first = {image, first[0]}, cnn_later = {image, later[0]};
    mlp_io mlp_first = {vector, first[1]}, mlp_later = {vector, later[1]};
    EXPECT(cnn_run(&cnn_first, cnn_arena, cnn_weights) == CNN_OK);
    EXPECT(mlp_run(&mlp_first, mlp_arena, mlp_weights) == MLP_OK);
    for (int i = 0; i < 200; i++) {
        EXPECT(cnn_run(&cnn_later, cnn_arena, cnn_weights) == CNN_OK);
        EXPECT(mlp_run(&mlp_later, mlp_arena, mlp_weights) == MLP_OK);
        EXPECT(memcmp(first[0], later[0], CNN_OUTPUT_Y_BYTES) == 0);
        EXPECT(memcmp(first[1], later[1], MLP_OUTPUT_Y_BYTES) == 0);
    }
    free(cnn_arena), free(mlp_arena), free(image), free(vector);
    free(first[0]), free(first[1]), free(later[0]), free(later[1]);
    return NULL;
}

/* Two runs of one model in one thread, each with an arena, turn by turn. */
static void take_turns(void) {
    char *arenas[2] = {take(CNN_ARENA_BYTES), take(CNN_ARENA_BYTES)};
    float *x[2] = {take_floats(CNN_INPUT_X_COUNT, 3), take_floats(CNN_INPUT_X_COUNT, 4)};
    float *y[2] = {take(CNN_OUTPUT_Y_BYTES), take(CNN_OUTPUT_Y_BYTES)};
    float *again = take(CNN_OUTPUT_Y_BYTES);
    for (int i = 0; i < 2; i++) {
        cnn_io io = {x[i], y[i]};
        EXPECT(cnn_run(&io, arenas[i], cnn_weights) == CNN_OK);
    }
    EXPECT(memcmp(y[0], y[1], CNN_OUTPUT_Y_BYTES) != 0);
    for (int i = 0; i < 2; i++) {
        cnn_io io = {x[i], again};
        EXPECT(cnn_run(&io, arenas[1 - i], cnn_weights) == CNN_OK);
        EXPECT(memcmp(again, y[i], CNN_OUTPUT_Y_BYTES) == 0);
        free(arenas[1 - i]), free(x[i]), free(y[i]);
    }
    free(again);
}

int main(void) {
    pthread_t threads[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    void *cnn = take_file("cnn.weights", CNN_WEIGHTS_BYTES);
    void *mlp = take_file("mlp.weights", MLP_WEIGHTS_BYTES);
    cnn_weights = cnn, mlp_weights = mlp;
    take_turns();
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
    for (int i = 0; i < 4; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    free(cnn), free(mlp);
    return 0;
}
"""
)

PROGRAMS = {"wrong_use": WRONG_USE, "teams": TEAMS, "at_once": AT_ONCE}
each_program = pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Bundle]:
    folder = tmp_path_factory.mktemp("bundles")
    models = {"cnn": MODELS["mnist-cnn"], "mlp": MODELS["mlp"]}
    return [export(make(), folder, name) for name, make in models.items()]


def built(bundles: list[Bundle], text: str, folder: Path, *, sanitize: bool = False) -> Path:
    shared = bundles[0].folder
    (folder / "test.c").write_text(text)
    for weights in shared.glob("*.weights"):
        shutil.copy(weights, folder)
    files = [folder / "test.c", shared / "pool.c", shared / "cnn.o", shared / "mlp.o"]
    return build(folder, files, options=["-I", str(shared)], sanitize=sanitize)


@each_program
def test_programs_run(
    bundles: list[Bundle], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(built(bundles, text, tmp_path))


@each_program
def test_sanitizers_find_nothing(
    bundles: list[Bundle], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(built(bundles, text, tmp_path, sanitize=True))


def test_valgrind_finds_nothing(
    bundles: list[Bundle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("valgrind is not here")
    monkeypatch.chdir(tmp_path)
    program = built(bundles, WRONG_USE, tmp_path)
    command = [valgrind, "--error-exitcode=9", "--leak-check=full", "-q", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
