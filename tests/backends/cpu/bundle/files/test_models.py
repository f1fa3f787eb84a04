"""Models of every kind run from C, on every kind of x86-64, and give the interpreter's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from afterglow.backends.cpu.target import Target
from tests.backends.cpu.bundle.files.building import build, export, interpreted, random_inputs, run
from tests.emulation.models import MODELS

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
{includes}

static void *take(size_t bytes) {{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL) exit(2);
    return memory;
}}

static void *take_file(const char *path, size_t bytes) {{
    void *memory = take(bytes);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(memory, 1, bytes, file) != bytes) exit(3);
    fclose(file);
    return memory;
}}

static void put_file(const char *path, const void *memory, size_t bytes) {{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(memory, 1, bytes, file) != bytes) exit(4);
    fclose(file);
}}

/* How much of a painted stack a self-check uses. */
enum {{ STACK = 1 << 20, PAINT = 0xA5 }};
static unsigned char stack[STACK] __attribute__((aligned(64)));
static ucontext_t outside, inside;
static int32_t (*check)(void *, const void *, void *), result;
static void *arguments[3];

static void call(void) {{ result = check(arguments[0], arguments[1], arguments[2]); }}

static int measured(const char *name, int bound) {{
    int left = 0;
    memset(stack, PAINT, STACK);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, call, 0);
    swapcontext(&outside, &inside);
    while (stack[left] == PAINT) left++;
    printf("%s %d %d\\n", name, STACK - left, bound);
    return result;
}}

int main(void) {{
    int failures = 0;
{calls}
    return failures;
}}
"""

CALL = """
    {{
        void *weights = take_file("{name}.weights", {upper}_WEIGHTS_BYTES);
        void *arena = take({upper}_ARENA_BYTES), *memory = take({upper}_SELF_CHECK_BYTES);
        void *in = take_file("{name}.in", {upper}_INPUT_{input}_BYTES);
        void *out = take({upper}_OUTPUT_{output}_BYTES);
        {name}_io io = {{in, out}};
        memset(arena, 0xAA, {upper}_ARENA_BYTES);
        failures += {name}_check_weights(weights, {upper}_WEIGHTS_BYTES) != 0;
        check = {name}_self_check;
        arguments[0] = arena, arguments[1] = weights, arguments[2] = memory;
        failures += measured("{name}", {upper}_STACK_BYTES) != 0;
        failures += {name}_run(&io, arena, weights) != 0;
        put_file("{name}.out", out, {upper}_OUTPUT_{output}_BYTES);
    }}
"""


CALLER = 128
"""Bytes of stack that the function takes that calls the self-check."""
SLACK = 2048
"""Bytes by which the bound may be too large."""


def missing(target: str) -> list[str]:
    return Target.of(target).missing_on(Target.host())


KINDS = {
    "x86-64": {},
    "x86-64-v2": {"freestanding": True},
    "x86-64-v3": {"small": True},
    "x86-64-v4": {},
    "host": {},
}
"""Targets, with what bundles for them are to be besides."""


@pytest.mark.parametrize("target", KINDS)
def test_all_models_run_in_one_program(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing(target):
        pytest.skip(f"this machine lacks {missing(target)}")
    calls, includes, expected = [], [], {}
    for label, make in MODELS.items():
        name, source = label.replace("-", "_"), make()
        bundle = export(source, tmp_path, name, target, **KINDS[target])
        entry = bundle.description["entries"][0]
        inputs = random_inputs(bundle)
        inputs[0].tofile(tmp_path / f"{name}.in")
        expected[name] = interpreted(source, inputs)[0]
        members = {
            "input": entry["inputs"][0]["member"].upper(),
            "output": entry["outputs"][0]["member"].upper(),
        }
        calls.append(CALL.format(name=name, upper=name.upper(), **members))
        includes.append(f'#include "{name}.h"')
    text = PROGRAM.format(includes="\n".join(includes), calls="".join(calls))
    (tmp_path / "all.c").write_text(text)
    objects = sorted(tmp_path.glob("*.o"))
    program = build(tmp_path, [tmp_path / "all.c", *objects])
    monkeypatch.chdir(tmp_path)
    for line in run(program).splitlines():
        name, used, bound = line.split()
        assert int(used) <= int(bound) + CALLER, name
        assert int(bound) <= int(used) + SLACK, name
    for name, wanted in expected.items():
        got = np.fromfile(tmp_path / f"{name}.out", np.float32).reshape(wanted.shape)
        np.testing.assert_allclose(got, wanted, atol=2e-2 if "int8" in name else 2e-5, err_msg=name)
