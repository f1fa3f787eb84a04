"""The program in docs/bundles.md is built and run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from textwrap import indent

import pytest

import afterglow
from tests.backends.cpu.bundle.files.building import build, export, run
from tests.backends.cpu.bundle.files.test_entries import source
from tests.emulation.models import DIGITS
from tests.frontends.gguf.files import gguf_bytes
from tests.frontends.language.models import llama_metadata, llama_weights
from tests.frontends.models import info, model, node

DOCUMENT = Path(__file__).parents[5] / "docs" / "bundles.md"


CALLER = r"""
#include "net.h"

static int32_t compute(int32_t batch, const float *x, float *y, const void *weights) {
    @block
    return status;
}

int main(void) {
    static _Alignas(NET_WEIGHTS_ALIGN) char weights[NET_WEIGHTS_BYTES];
    static float x[NET_5X6_INPUT_X_COUNT], y[NET_5X6_OUTPUT_Y_COUNT] = {1};
    if (compute(4, x, y, weights) != NET_ERROR_EXTENT || y[0] != 1) return 1;
    return compute(5, x, y, weights) != NET_OK || y[0] != 0;
}
"""


def blocks() -> list[str]:
    """What the document has of C: a program, and pieces of others."""
    return re.findall(r"^```c\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


def test_an_entry_is_chosen_as_the_document_says(tmp_path: Path) -> None:
    *_, piece = blocks()
    compiled = afterglow.compile(source(), dims={"batch": [1, 5]})
    compiled.export_bundle(tmp_path, target="x86-64-v3", name="net")
    (tmp_path / "program.c").write_text(CALLER.replace("@block", piece))
    run(build(tmp_path, [tmp_path / "program.c", tmp_path / "net.o"]))


RANGED_CALLER = r"""
#include "net.h"

static int32_t compute(int32_t batch, const float *x, const void *weights, size_t *computed) {
    @block
    *computed = count;
    return status;
}

int main(void) {
    static _Alignas(NET_WEIGHTS_ALIGN) char weights[NET_WEIGHTS_BYTES];
    static float x[NET_INPUT_X_MAX_COUNT];
    size_t count = 0;
    if (compute(9, x, weights, &count) != NET_ERROR_EXTENT || count != 0) return 1;
    return compute(3, x, weights, &count) != NET_OK || count != 3 * 4;
}
"""


def test_extents_are_given_as_the_document_says(tmp_path: Path) -> None:
    _, piece, *_ = blocks()
    shapes = {"inputs": [info("x", ("batch", 4))], "outputs": [info("y", ("batch", 4))]}
    ranged = afterglow.compile(
        model([node("Tanh", ["x"], ["y"])], **shapes), dims={"batch": (1, 8)}
    )
    ranged.export_bundle(tmp_path, target="x86-64-v3", name="net")
    (tmp_path / "program.c").write_text(RANGED_CALLER.replace("@block", piece))
    run(build(tmp_path, [tmp_path / "program.c", tmp_path / "net.o"]))


STATE_CALLER = r"""
#include "net.h"

static int32_t compute(int count, float rows[][3], float *highest, float *state) {
    static _Alignas(NET_ARENA_ALIGN) char arena[NET_ARENA_BYTES];
    static _Alignas(NET_WEIGHTS_ALIGN) char weights[NET_WEIGHTS_BYTES];
    @block
    return NET_OK;
}

int main(void) {
    static float state[NET_STATE_PAST_ROWS_COUNT], highest[3];
    float rows[3][3] = {{1, 5, 2}, {3, 4, 2}, {0, 0, 7}};
    if (compute(2, rows, highest, state) != NET_OK) return 1;
    if (highest[0] != 3 || highest[1] != 5 || highest[2] != 2) return 2;
    if (compute(3, rows, highest, state) != NET_ERROR_EXTENT) return 3;
    return compute(1, rows + 2, highest, state) != NET_OK || highest[0] != 0 || highest[2] != 7;
}
"""


def test_state_is_kept_as_the_document_says(tmp_path: Path) -> None:
    _, _, piece, *_ = blocks()
    nodes = [
        node("Concat", ["past.rows", "row"], ["present.rows"], axis=0),
        node("ReduceMax", ["present.rows"], ["highest"], axes=[0]),
    ]
    inputs = [info("row", (1, 3)), info("past.rows", ("past", 3))]
    outputs = [info("highest", (1, 3)), info("present.rows", ("total", 3))]
    source = model(nodes, inputs=inputs, outputs=outputs)
    steps = afterglow.compile(source, dims={"past": (0, 1)}, state={"past.*": "present.*"})
    steps.export_bundle(tmp_path, target="x86-64-v3", name="net")
    (tmp_path / "program.c").write_text(STATE_CALLER.replace("@block", piece))
    run(build(tmp_path, [tmp_path / "program.c", tmp_path / "net.o"]))


LANGUAGE_CALLER = r"""
#include "net_text.h"

#include <stdio.h>
#include <string.h>

@function
static void fill(const char *path, void *to, size_t size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(to, 1, size, file) != size) memset(to, 0, size);
}

int main(int argc, char **argv) {
    static _Alignas(NET_WEIGHTS_ALIGN) char weights[NET_WEIGHTS_BYTES], vocabulary[@size];
    static _Alignas(NET_ARENA_ALIGN) char arena[NET_ARENA_BYTES], memory[NET_TEXT_BYTES];
    const char *prompt = argv[argc - 1];
    size_t size = sizeof vocabulary;
    fill("net.weights", weights, sizeof weights);
    fill("net.vocabulary", vocabulary, size);
    @block
    return status != NET_OK;
}
"""


def test_text_is_generated_as_the_document_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, piece, _ = blocks()
    function, block = piece.split("\n\n")
    block = indent(block, "    ").strip()
    tiny = afterglow.compile(gguf_bytes(llama_metadata(), llama_weights()))
    tiny.export_bundle(tmp_path, target="x86-64-v3", name="net")
    program = LANGUAGE_CALLER.replace("@function", function).replace("@block", block)
    size = (tmp_path / "net.vocabulary").stat().st_size
    (tmp_path / "program.c").write_text(program.replace("@size", str(size)))
    sources = [tmp_path / name for name in ("program.c", "net_text.c", "net.o")]
    monkeypatch.chdir(tmp_path)
    built = build(tmp_path, sources)
    options = {"temperature": 0.8, "top_k": 40, "seed": 3}
    expected = afterglow.text.Generator(tiny).generate("the thing", 200, **options)
    done = subprocess.run([built, "the thing"], capture_output=True, check=True)
    whole = expected.text.replace("\N{REPLACEMENT CHARACTER}", "")
    assert done.stdout.decode("utf-8", "ignore") == whole


@pytest.mark.parametrize("sanitize", [False, True])
def test_the_program_of_the_document_runs(
    sanitize: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, *_ = blocks()
    export(DIGITS, tmp_path, "digits")
    (tmp_path / "program.c").write_text(whole)
    sources = [tmp_path / "program.c", tmp_path / "digits.o"]
    # The weights are never freed: that is the system's business when the program ends.
    program = build(tmp_path, sources, sanitize=sanitize)
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
    monkeypatch.chdir(tmp_path)
    assert run(program) == "it is a 0\n"
