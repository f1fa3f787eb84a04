"""The header of a bundle for GPUs: the interface and its documentation."""

from __future__ import annotations

from afterglow.backends.bundling.fields import Field, fields_of, name_in_model
from afterglow.backends.bundling.template import Text
from afterglow.backends.cuda.bundle.code import GpuCode
from afterglow.backends.cuda.bundle.status import status_lines

_HEADER = Text("""\
/* @name: a neural network for NVIDIA GPUs of compute capability @capability, compiled by
 * Afterglow @version.
 *
 * @name.c needs the driver of NVIDIA alone, which it looks for when a model is opened. Machine code
 * and weights are in @name.bin. A model may be used by one thread at a time; open several for more.
 */
#ifndef @{upper}_H
#define @{upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @{upper}_AFTERGLOW_VERSION "@version"
#define @{upper}_COMPUTE_CAPABILITY @arch
#define @{upper}_DIGEST "@digest"

/* Status codes that functions return. */
enum {
@statuses
};

/* The contents of @name.bin, mapped or read anywhere, has so many bytes. */
#define @{upper}_DATA_BYTES @size

/* Memory on the GPU for intermediate results. */
#define @{upper}_ARENA_BYTES @arena

/* @signature.
 * A pointer to each tensor: contiguous, in row-major order. Memory that is written must not overlap
 * any other. */
typedef struct {
@members
} @{name}_io;

@sizes

/* A model on a GPU, with memory of its own. */
typedef struct @{name}_model @{name}_model;

/* Load the model on a GPU: 0 is the first one. The data is not needed any more afterwards. The
 * model shares the primary context of the GPU with whatever else of the process uses CUDA. */
int32_t @{name}_open(const void *data, size_t size, int device, @{name}_model **model);

/* Run once on memory of the host, and wait for the results. */
int32_t @{name}_run(@{name}_model *model, const @{name}_io *io);

/* Begin to run on memory of the GPU, on a stream of the caller (a CUstream or cudaStream_t). The
 * addresses are multiples of 16. The first run on some addresses takes longer than further ones.
 * A run that is begun on another stream begins when the last one has ended. */
int32_t @{name}_start(@{name}_model *model, const @{name}_io *io, void *stream);

/* Wait for everything on a stream. */
int32_t @{name}_wait(@{name}_model *model, void *stream);
@reset
/* Give all memory back. */
void @{name}_close(@{name}_model *model);

/* What the driver said of the last call of this thread that failed: a call and an error. */
const char *@{name}_error(void);

#ifdef __cplusplus
}
#endif

#endif
""")

_RESET = Text("""
/* Set all state, which the model holds, to zero; so it is when the model is opened. */
int32_t @{name}_reset(@{name}_model *model);
""")


def write_header(code: GpuCode, version: str, digest: str) -> str:
    """The text of NAME.h."""
    upper, fields = code.name.upper(), [f for f in fields_of(code) if f.role != "state"]
    return _HEADER.substitute(
        name=code.name,
        upper=upper,
        version=version,
        capability=f"{code.arch // 10}.{code.arch % 10}",
        arch=code.arch,
        digest=digest,
        statuses=status_lines(upper),
        size=code.data.nbytes,
        arena=code.manifest["arena_bytes"],
        signature=f"{_shown(fields, 'input')} -> {_shown(fields, 'output')}",
        members="\n".join(map(_member, fields)) or "    char none;",
        sizes="\n".join(line for field in fields for line in _sizes(upper, field)),
        reset=_RESET.substitute(name=code.name) if code.interface.states else "",
    )


def _shown(fields: list[Field], role: str) -> str:
    return ", ".join(f"{f.member} {f.shape}" for f in fields if f.role == role) or "nothing"


def _member(field: Field) -> str:
    constant = "" if field.role == "output" else "const "
    called = name_in_model(field.name, field.member)
    return f"    {constant}{field.c_type} *{field.member}; /* {field.role} {field.shape}{called} */"


def _sizes(upper: str, field: Field) -> list[str]:
    return [
        f"#define {upper}_{field.macro}_COUNT {field.count}",
        f"#define {upper}_{field.macro}_BYTES {field.type.nbytes}",
    ]
