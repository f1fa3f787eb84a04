"""The header of a bundle: all that a caller must know, and where it is read first."""

from __future__ import annotations

import re

from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode
from afterglow.backends.cpu.bundle.files.choosing import write_choosing
from afterglow.backends.cpu.bundle.files.fields import Field, fields_of
from afterglow.backends.cpu.bundle.files.template import Text
from afterglow.runtime.native.status import Status

TEAM = """\
#ifndef AFTERGLOW_TEAM
#define AFTERGLOW_TEAM
/* A team does the steps of a run. The model calls parallel_for once for each step, in order; it
 * must return when step(bases, scratch, begin, end) has been done for all units from 0 to
 * units - 1, in pieces of any size, by any threads. Each thread gives scratch memory of its own.
 * `chunks` is a hint: into how many pieces the units are worth being cut. Put the struct first into
 * one of your own to keep what your parallel_for needs. */
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
 * The code allocates nothing, keeps nothing between calls and starts no threads. All memory is the
 * caller's. Calls may run at the same time if each has an arena, outputs and states of its own;
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

/* What functions return. */
enum {
@statuses
};

@weights
@team
@entries@table
#ifdef __cplusplus
}
#endif

#endif
""")

_NEEDS = "Of a library only memcpy, memmove and memset are needed."
_NEEDS_NOTHING = "No library is needed."

_WEIGHTS = Text("""\
/* The weights: the bytes of @name.weights, mapped or read to an address that is a multiple of
 * @{upper}_WEIGHTS_ALIGN. They are only read. */
#define @{upper}_WEIGHTS_BYTES @size
#define @{upper}_WEIGHTS_ALIGN @align

/* Whether these are the weights that the code was made for: their size, and their checksum. Call it
 * once, before the first run, which believes them. It reads all of them and allocates nothing. */
int32_t @{name}_check_weights(const void *weights, size_t size);
""")

_ENTRY = Text("""\
/* @heading
 * A pointer to each tensor: dense, the last axis innermost. What is written must not overlap
 * anything.@states */
typedef struct {
@members
} @{prefix}_io;

@sizes

/* Memory of a run, which begins at a multiple of ARENA_ALIGN. What it holds before and after a run
 * does not matter. */
#define @{upper}_ARENA_BYTES @arena
#define @{upper}_ARENA_ALIGN @align
/* Memory of each thread of a team, aligned like the arena. */
#define @{upper}_SCRATCH_BYTES @scratch
/* Stack that a call takes at most. */
#define @{upper}_STACK_BYTES @stack
/* How many steps a run has. */
#define @{upper}_STEPS @steps
/* Memory of the self-check, aligned like the arena. */
#define @{upper}_SELF_CHECK_BYTES @self_check

/* Run once, on the calling thread. */
int32_t @{prefix}_run(const @{prefix}_io *io, void *arena@given);

/* Run once, each step by a team: see afterglow_team. */
int32_t @{prefix}_run_team(const @{prefix}_io *io, void *arena@given, afterglow_team *team);

/* Run on made inputs and compare with stored results; memory: @{upper}_SELF_CHECK_BYTES. */
int32_t @{prefix}_self_check(void *arena@given, void *memory);

/* What a step computes: kernels, and the nodes of the model; "" if there is no such step. */
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
    )


def _status(upper: str, status: Status) -> str:
    name = "OK" if status is Status.OK else f"ERROR_{status.name}"
    comma = "" if status is list(Status)[-1] else ","
    return f"    {upper}_{name} = {status.value}{comma} /* {status.meaning} */"


def _entry(entry: EntryCode, code: BundleCode, given: str) -> str:
    fields, upper = fields_of(entry), entry.prefix.upper()
    states = any(field.role == "state" for field in fields)
    return _ENTRY.substitute(
        heading=f"{entry.prefix}: {_signature(fields)}.",
        states=" States are zero before the first run, and kept from run to run." * states,
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
    name = re.sub(r"[^ -~]", "?", field.name).replace("*/", "* /").replace("/*", "/ *")
    called = "" if name == field.member else f', "{name}" in the model'
    return f"{declared} /* {field.role} {field.shape}{called}{donated} */"


def _sizes(upper: str, field: Field) -> list[str]:
    return [
        f"#define {upper}_{field.macro}_COUNT {field.count}",
        f"#define {upper}_{field.macro}_BYTES {field.type.nbytes}",
    ]
