"""`main.c` of a bundle for GPUs, which runs the model on files; how it is built and used."""

from __future__ import annotations

from afterglow.backends.bundling.fields import Field, fields_of
from afterglow.backends.bundling.template import Text
from afterglow.backends.cuda.bundle.code import GpuCode
from afterglow.backends.cuda.bundle.status import all_statuses

_PROGRAM = Text(r"""/* Runs @name on files: ./main [--device N] [--runs N] NAME=FILE...
 * NAME is that of an input or an output. Files are .npy, or hold the elements alone; inputs without
 * a file are zeros. */
#define _POSIX_C_SOURCE 200809L
#include "@name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    const char *name, *descr, *shape; /* type and shape in the format of .npy files */
    size_t bytes;
    int is_output;
    void *data;
    const char *file;
} tensor;

enum { TENSORS = @tensors };

static tensor tensors[TENSORS + 1] = {
@rows
};

static void fail(const char *what, const char *about) {
    fprintf(stderr, "error: %s%s%s\n", what, *about ? ": " : "", about);
    exit(1);
}

static void check(int32_t status) {
    static const char *meanings[] = {
@meanings
    };
    if (status == @{upper}_OK) return;
    fprintf(stderr, "error: %s\n", meanings[status]);
    if (*@{name}_error()) fprintf(stderr, "  %s\n", @{name}_error());
    exit(1);
}

static void *allocate(size_t bytes) {
    void *found = calloc(bytes > 0 ? bytes : 1, 1);
    if (found == NULL) fail("out of memory", "");
    return found;
}

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    size_t room = 0, used = 0, got;
    if (file == NULL) fail("cannot read", path);
    do {
        if (used == room) {
            room = room ? 2 * room : 1 << 16;
            data = realloc(data, room);
            if (data == NULL) fail("out of memory", "");
        }
        got = fread(data + used, 1, room - used, file);
        used += got;
    } while (got > 0);
    fclose(file);
    *size = used;
    return data;
}

static void read_tensor(tensor *t) {
    size_t size, start = 0;
    unsigned char *data = read_file(t->file, &size);
    if (size >= 12 && memcmp(data, "\x93NUMPY", 6) == 0) {
        char header[1024] = {0};
        size_t length = data[8] | (size_t)data[9] << 8;
        start = 10 + length;
        if (data[6] != 1 || start > size || length >= sizeof header)
            fail("the header cannot be read", t->file);
        memcpy(header, data + 10, length);
        if (strstr(header, t->descr) == NULL) fail("the file has the wrong element type", t->file);
        if (strstr(header, "'fortran_order': False") == NULL)
            fail("the file is not in C order", t->file);
    }
    if (size - start != t->bytes) fail("the file has the wrong size", t->file);
    memcpy(t->data, data + start, t->bytes);
    free(data);
}

static void write_tensor(const tensor *t) {
    FILE *file = fopen(t->file, "wb");
    char header[1024];
    int length;
    if (file == NULL) fail("cannot write", t->file);
    length = snprintf(header, sizeof header,
                      "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", t->descr, t->shape);
    if (length < 0 || length > 900) fail("the shape is too long", t->file);
    while ((length + 11) % 64 != 0) header[length++] = ' ';
    header[length++] = '\n';
    fwrite("\x93NUMPY\1\0", 1, 8, file);
    fputc(length & 255, file);
    fputc(length >> 8, file);
    fwrite(header, 1, (size_t)length, file);
    fwrite(t->data, 1, t->bytes, file);
    if (fclose(file) != 0) fail("cannot write", t->file);
}

static void take(const char *argument) {
    const char *equals = strchr(argument, '=');
    if (equals == NULL) fail("write NAME=FILE", argument);
    for (int i = 0; i < TENSORS; i++) {
        size_t length = (size_t)(equals - argument);
        if (strlen(tensors[i].name) != length || memcmp(tensors[i].name, argument, length) != 0)
            continue;
        tensors[i].file = equals + 1;
        return;
    }
    fail("no such input or output", argument);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int main(int count, char **arguments) {
    int device = 0, runs = 1;
    size_t size;
    void *data;
    @{name}_model *model;
    @{name}_io io;
    double start;
    for (int i = 0; i < TENSORS; i++) tensors[i].data = allocate(tensors[i].bytes);
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--device") == 0 && i + 1 < count) device = atoi(arguments[++i]);
        else if (strcmp(arguments[i], "--runs") == 0 && i + 1 < count) runs = atoi(arguments[++i]);
        else take(arguments[i]);
    }
    for (int i = 0; i < TENSORS; i++)
        if (!tensors[i].is_output && tensors[i].file != NULL) read_tensor(&tensors[i]);
    data = read_file("@name.bin", &size);
    check(@{name}_open(data, size, device, &model));
    free(data);
    memset(&io, 0, sizeof io);
@filling
    start = now();
    for (int i = 0; i < runs; i++) check(@{name}_run(model, &io));
    printf("%.3f ms a run\n", (now() - start) / (runs > 0 ? runs : 1));
    for (int i = 0; i < TENSORS; i++)
        if (tensors[i].is_output && tensors[i].file != NULL) write_tensor(&tensors[i]);
    @{name}_close(model);
    for (int i = 0; i < TENSORS; i++) free(tensors[i].data);
    return 0;
}
""")

_MAKEFILE = Text("""\
# Builds main, which runs @name on files. It needs neither CUDA's headers nor its libraries.
CC ?= cc
CFLAGS ?= -O2 -Wall -Wextra

main: main.c @name.c @name.h
\t$(CC) $(CFLAGS) -std=c11 -o $@@ main.c @name.c -ldl

clean:
\trm -f main

.PHONY: clean
""")

_README = Text("""\
# @name

A neural network for NVIDIA GPUs of compute capability @capability, compiled by Afterglow @version.

| file | what it is |
|---|---|
| `@name.h` | the interface: read it first |
| `@name.c` | opens and runs the model; needs the driver of NVIDIA alone, which it loads itself |
| `@name.bin` | machine code and weights |
| `@name.json` | the same facts for programs |
| `main.c`, `Makefile` | a program that runs the model on files: `make && ./main @example` |
| `@name.sha256` | digests of all these files |

In a program of yours: compile `@name.c`, read `@name.bin` into memory, call `@{name}_open` once,
then `@{name}_run` on memory of the host, or `@{name}_start` on memory of the GPU and a stream of
yours.
""")


def write_program(code: GpuCode) -> str:
    """The text of main.c."""
    fields = _fields(code)
    return _PROGRAM.substitute(
        name=code.name,
        upper=code.name.upper(),
        tensors=len(fields),
        rows="\n".join([*map(_row, fields), "    {NULL, NULL, NULL, 0, 0, NULL, NULL},"]),
        meanings="\n".join(
            f'        [{value}] = "{meaning}",' for value, meaning in all_statuses().values()
        ),
        filling="\n".join(
            f"    io.{field.member} = tensors[{i}].data;" for i, field in enumerate(fields)
        ),
    )


def write_makefile(code: GpuCode) -> str:
    """The text of the Makefile."""
    return _MAKEFILE.substitute(name=code.name)


def write_readme(code: GpuCode, version: str) -> str:
    """The text of README.md."""
    example = " ".join(f"{field.member}={field.member}.npy" for field in _fields(code))
    capability = f"{code.arch // 10}.{code.arch % 10}"
    return _README.substitute(
        name=code.name, version=version, capability=capability, example=example
    )


def _fields(code: GpuCode) -> list[Field]:
    return [field for field in fields_of(code) if field.role != "state"]


def _row(field: Field) -> str:
    extents = field.type.shape
    shape = f"({extents[0]},)" if len(extents) == 1 else f"({', '.join(map(str, extents))})"
    is_output = int(field.role == "output")
    return (
        f'    {{"{field.member}", "{field.type.dtype.numpy.str}", "{shape}", {field.type.nbytes}, '
        f"{is_output}, NULL, NULL}},"
    )
