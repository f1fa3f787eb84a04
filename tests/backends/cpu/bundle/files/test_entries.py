"""Bundles of a model for several shapes: a table of entries that share weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.runtime.bundle import Bundle
from afterglow.support.errors import UsageError
from tests.backends.cpu.bundle.files.building import build, run
from tests.frontends.models import info, model, node

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

#define EXPECT(what) \
    if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); }

int main(void) {
    int32_t count = 0;
    const net_entry *entries = net_entries(&count);
    void *weights = aligned_alloc(64, NET_WEIGHTS_BYTES);
    FILE *file = fopen("net.weights", "rb");
    EXPECT(fread(weights, 1, NET_WEIGHTS_BYTES, file) == NET_WEIGHTS_BYTES);
    fclose(file);
    EXPECT(count == 2 && net_entries(NULL) == entries);
    EXPECT(strcmp(entries[0].name, "net_1x6") == 0 && strcmp(entries[1].name, "net_5x6") == 0);
    EXPECT(entries[1].arena_bytes == NET_5X6_ARENA_BYTES);
    EXPECT(entries[1].scratch_bytes == NET_5X6_SCRATCH_BYTES);
    EXPECT(entries[1].steps == NET_5X6_STEPS);
    const net_entry *found = NULL;
    EXPECT(net_find(2, &found) == NET_ERROR_EXTENT && found == NULL);
    EXPECT(net_find(-1, &found) == NET_ERROR_EXTENT && net_find(5, NULL) == NET_ERROR_NULL);
    EXPECT(net_find(1, &found) == NET_OK && found == entries);
    EXPECT(net_find(5, &found) == NET_OK && found == entries + 1);
    EXPECT(NET_ARENA_BYTES >= NET_5X6_ARENA_BYTES && NET_ARENA_BYTES >= NET_1X6_ARENA_BYTES);
    {
        static _Alignas(NET_ARENA_ALIGN) char arena[NET_ARENA_BYTES];
        float x[NET_5X6_INPUT_X_COUNT] = {0}, y[NET_5X6_OUTPUT_Y_COUNT];
        net_io io = {.x = x, .y = y};
        EXPECT(found->run(&io, arena, weights) == NET_OK && y[0] == 0);
    }
    for (int i = 0; i < count; i++) {
        void *arena = aligned_alloc(64, entries[i].arena_bytes);
        void *memory = aligned_alloc(64, entries[i].self_check_bytes);
        EXPECT(entries[i].self_check(arena, weights, memory) == NET_OK);
        EXPECT(strlen(entries[i].step_name(0)) > 0);
        free(arena), free(memory);
    }
    free(weights);
    return 0;
}
"""


def source() -> onnx.ModelProto:
    random = np.random.default_rng(1)
    weights = {"w": random.standard_normal((6, 4)).astype(np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Tanh", ["m"], ["y"])]
    shapes = {"inputs": [info("x", ("batch", 6))], "outputs": [info("y", ("batch", 4))]}
    return model(nodes, constants=weights, **shapes)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    compiled = afterglow.compile(source(), dims={"batch": [1, 5]})
    folder = tmp_path_factory.mktemp("bundle")
    return compiled.export_bundle(folder, target="x86-64-v3", name="net", shared=True)


def test_a_table_lists_the_entries(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    (bundle.folder / "test.c").write_text(PROGRAM)
    program = build(bundle.folder, [bundle.folder / "test.c", bundle.folder / "net.o"])
    monkeypatch.chdir(bundle.folder)
    run(program)


def test_the_library_runs_for_each_shape(bundle: Bundle) -> None:
    assert bundle.library is not None
    loaded = afterglow.load(bundle.library)
    reference = afterglow.compile(source(), backend="interpreter")
    assert [str(info) for info in loaded.inputs] == ["x: f32[batch, 6]"]
    for batch in (1, 5):
        x = np.random.default_rng(batch).standard_normal((batch, 6)).astype(np.float32)
        np.testing.assert_allclose(loaded(x), reference(x), atol=1e-5)
    with pytest.raises(UsageError, match="was not saved for x: f32"):
        loaded(np.zeros((2, 6), np.float32))


def test_equal_weights_are_stored_once(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "w"], ["y"])]
    random = np.random.default_rng(1)
    weights = {"w": random.standard_normal((64, 64)).astype(np.float32)}
    shapes = {"inputs": [info("x", ("n", 64, 64))], "outputs": [info("y", ("n", 64, 64))]}
    sizes = []
    for batches in ((2,), (2, 3)):
        compiled = afterglow.compile(model(nodes, constants=weights, **shapes))
        for batch in batches:
            compiled(np.zeros((batch, 64, 64), np.float32))
        bundle = compiled.export_bundle(tmp_path, target="x86-64-v3", name="net")
        sizes.append(bundle.description["weights"]["bytes"])
    assert sizes[0] == sizes[1]


def test_free_dimensions_must_be_bound_first(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing of the model is compiled yet"):
        afterglow.compile(source()).export_bundle(tmp_path)
