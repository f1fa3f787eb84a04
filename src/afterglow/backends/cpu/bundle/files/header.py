"""The header of a bundle: the interface and its documentation."""

from __future__ import annotations

import numpy as np

from afterglow.backends.bundling.fields import Field, fields_of, name_in_model
from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode
from afterglow.backends.cpu.bundle.files.choosing import write_choosing
from afterglow.backends.cpu.bundle.files.extents import parameter, write_extents
from afterglow.backends.cpu.bundle.files.states import initialiser, write_states
from afterglow.runtime.native.status import Status

TEAM = """\
#ifndef AFTERGLOW_TEAM
#define AFTERGLOW_TEAM
/* A team executes the steps of a run. The model calls parallel_for once for each step, in order.
 * It must call step(bases, scratch, begin, end) for all units from 0 to units - 1, in ranges of any
 * size, on any threads, each with its own scratch memory, and return when all are done. `chunks` is
 * a hint: the number of ranges worth making. To pass data to your parallel_for, make this struct
 * the first member of your own. */
typedef struct afterglow_team afterglow_team;
typedef void (*afterglow_step)(void *bases, void *scratch, intptr_t begin, intptr_t end);
struct afterglow_team {
    void (*parallel_for)(afterglow_team *team, afterglow_step step, void *bases, intptr_t units,
                         intptr_t chunks);
};
#endif
"""

_HEADER = Text("""\
/* @name: a neural network, compiled by Afterglow @version for @target.
 *
 * The code allocates nothing, stores nothing between calls and starts no threads. The caller
 * provides all memory. Calls may run concurrently if each has its own arena, outputs and states;
 * they may share the weights. @needs
 */
#ifndef @{upper}_H
#define @{upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @{upper}_AFTERGLOW_VERSION "@version"
#define @{upper}_TARGET "@target"
#define @{upper}_TRIPLE "@triple"
#define @{upper}_DIGEST "@digest"

/* Status codes that functions return. */
enum {
@statuses
};

@weights
@team
@entries@table@state
#ifdef __cplusplus
}
#endif

#endif
""")

_NEEDS = "It needs only memcpy, memmove and memset."
_NEEDS_NOTHING = "It needs no library."

_WEIGHTS = Text("""\
/* The weights: the contents of @name.weights, mapped or read to an address that is a multiple of
 * @{upper}_WEIGHTS_ALIGN. They are read-only. */
#define @{upper}_WEIGHTS_BYTES @size
#define @{upper}_WEIGHTS_ALIGN @align

/* Check size and checksum of the weights. Call it once, before the first run: runs do not check. It
 * reads all of them and allocates nothing. */
int32_t @{name}_check_weights(const void *weights, size_t size);
""")

_ENTRY = Text("""\
@extents/* @heading
 * A pointer to each tensor: contiguous, in row-major order. Memory that is written must not overlap
 * any other.@states */
typedef struct {
@members
} @{prefix}_io;

@sizes

/* Memory of a run, aligned to ARENA_ALIGN. Its contents before and after a run do not matter. */
#define @{upper}_ARENA_BYTES @arena
#define @{upper}_ARENA_ALIGN @align
/* Scratch memory for each thread of a team, aligned like the arena. */
#define @{upper}_SCRATCH_BYTES @scratch
/* Maximum stack use of a call. */
#define @{upper}_STACK_BYTES @stack
/* Number of steps of a run. */
#define @{upper}_STEPS @steps
/* Memory for the self-check, aligned like the arena. */
#define @{upper}_SELF_CHECK_BYTES @self_check

/* Run once, on the calling thread. */
int32_t @{prefix}_run(const @{prefix}_io *io, void *arena@given@extent);

/* Run once, on a team: see afterglow_team. */
int32_t @{prefix}_run_team(const @{prefix}_io *io, void *arena@given@team);

/* Run on generated inputs and compare with stored results; memory: @{upper}_SELF_CHECK_BYTES. */
int32_t @{prefix}_self_check(void *arena@given, void *memory);

/* The kernels of a step and their nodes in the model; "" if there is no such step. */
const char *@{prefix}_step_name(uint32_t step);
""")


def write_header(code: BundleCode, version: str, digest: str) -> str:
    """The text of NAME.h."""
    upper = code.name.upper()
    given = "" if code.embedded else ", const void *weights"
    weights = _WEIGHTS.substitute(
        name=code.name, upper=upper, size=code.weights.nbytes, align=code.alignment
    )
    return _HEADER.substitute(
        name=code.name,
        upper=upper,
        version=version,
        target=code.target,
        triple=code.target.triple,
        digest=digest,
        needs=_NEEDS_NOTHING if code.freestanding else _NEEDS,
        statuses="\n".join(_status(upper, status) for status in Status),
        weights="/* The weights are in the object. */\n" if code.embedded else weights,
        team=TEAM,
        entries="\n".join(_entry(entry, code, given) for entry in code.entries),
        table=write_choosing(code, given),
        state=write_states(code),
    )


def _status(upper: str, status: Status) -> str:
    name = "OK" if status is Status.OK else f"ERROR_{status.name}"
    comma = "" if status is list(Status)[-1] else ","
    return f"    {upper}_{name} = {status.value}{comma} /* {status.meaning} */"


def _entry(entry: EntryCode, code: BundleCode, given: str) -> str:
    fields, upper, extent = fields_of(entry), entry.prefix.upper(), parameter(entry)
    gap = f"\n{' ' * len(f'int32_t {entry.prefix}_run_team(')}" if extent else " "
    states = any(field.role == "state" and field.level is None for field in fields)
    states = states and initialiser(code) is None
    return _ENTRY.substitute(
        extents=write_extents(entry, code.name.upper()),
        extent=extent,
        team=f"{extent},{gap}afterglow_team *team",
        heading=f"{entry.prefix}: {_signature(fields)}.",
        states=" Set states to zero before the first run; pass them on to the next." * states,
        prefix=entry.prefix,
        upper=upper,
        members="\n".join(map(_member, fields)),
        sizes="\n".join(line for field in fields for line in _sizes(upper, field)),
        arena=entry.layout.size,
        align=code.alignment,
        scratch=entry.layout.scratch,
        stack=entry.stack_bytes,
        steps=len(entry.steps),
        self_check=max(entry.self_check_bytes, code.alignment),
        given=given,
    )


def _signature(fields: list[Field]) -> str:
    def shown(role: str) -> str:
        return ", ".join(f"{f.member} {f.shape}" for f in fields if f.role == role) or "nothing"

    return f"{shown('input')} -> {shown('output')}"


def _member(field: Field) -> str:
    constant = "" if field.written else "const "
    declared = f"    {constant}{field.c_type} *{field.member};"
    donated = ", may be overwritten" if field.role == "input" and field.written else ""
    called = name_in_model(field.name, field.member)
    stands = _meaning(field)
    return f"{declared} /* {field.role} {field.shape}{called}{donated}{stands} */"


def _meaning(field: Field) -> str:
    """What the integers of a tensor stand for."""
    quantization = field.type.quantization
    if quantization is None:
        return ""
    scale, zero = quantization.scales[0], quantization.offsets[0]
    return f", stands for {scale:.6g} * (element - {zero})"


def _sizes(upper: str, field: Field) -> list[str]:
    most = "MAX_" if field.type.is_ranged else ""
    sizes = [
        f"#define {upper}_{field.macro}_{most}COUNT {field.count}",
        f"#define {upper}_{field.macro}_{most}BYTES {field.type.nbytes}",
    ]
    quantization = field.type.quantization
    if quantization is None:
        return sizes
    return [
        *sizes,
        f"#define {upper}_{field.macro}_SCALE {np.float32(quantization.scales[0])!s}f",
        f"#define {upper}_{field.macro}_ZERO_POINT ({quantization.offsets[0]})",
    ]
