"""`main.c`: a program that runs a bundle on files, and shows how it is called."""

from __future__ import annotations

from afterglow.backends.bundling.fields import Field, fields_of
from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.files.program_extents import program_extents
from afterglow.backends.cpu.bundle.files.states import initialiser

_PROGRAM = Text(r"""/* Runs @prefix on files.
 *
 *     main INPUT=FILE... [--output OUTPUT=FILE]... [--weights FILE] [--threads N] [--repeat N]
@usage *     main --self-check
 *
 * Files are .npy, or the raw bytes of a tensor. Without --output the largest elements are printed.
 */
#define _POSIX_C_SOURCE 200112L
#include "@name.h"
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define HAS_MMAP 1
#endif

typedef struct {
    const char *name, *descr, *shape; /* type and shape in the format of .npy files */
    size_t count, bytes;
    int is_output;
    void *data;
    const char *file; /* file to read an input from, or to write an output to */
} tensor;

enum { TENSORS = @tensors, ALIGN = @{upper}_ARENA_ALIGN, TOP = 5 };

static tensor tensors[TENSORS + 1] = {
@rows
};

static void fail(const char *what, const char *about) {
    fprintf(stderr, "error: %s%s%s\n", what, *about ? ": " : "", about);
    exit(1);
}

/* Zeroed memory, aligned to ALIGN, which is never freed. */
static void *allocate(size_t bytes) {
    static struct block { struct block *next; } *blocks;
    struct block *block = calloc(1, sizeof *block + bytes + ALIGN);
    if (block == NULL) fail("out of memory", "");
    block->next = blocks;
    blocks = block;
    char *start = (char *)(block + 1);
    return start + (ALIGN - (uintptr_t)start % ALIGN) % ALIGN;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static tensor *find(const char *name, size_t length, int is_output) {
    for (int i = 0; i < TENSORS; i++) {
        tensor *t = &tensors[i];
        if (t->is_output == is_output && strlen(t->name) == length &&
            memcmp(t->name, name, length) == 0)
            return t;
    }
    fail(is_output ? "no such output" : "no such input", name);
    return NULL;
}

static tensor *split(const char *argument, int is_output, const char **file) {
    const char *equals = strchr(argument, '=');
    if (equals == NULL) fail("write NAME=FILE", argument);
    *file = equals + 1;
    return find(argument, (size_t)(equals - argument), is_output);
}

/* Skip the header of a .npy file, if there is one. */
static void skip_npy_header(FILE *file, const tensor *t, const char *path) {
    unsigned char start[12];
    char header[4096];
    size_t got = fread(start, 1, 10, file), length;
    if (got < 10 || memcmp(start, "\x93NUMPY", 6) != 0) {
        rewind(file);
        return;
    }
    length = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        if (fread(start + 10, 1, 2, file) != 2) fail("the header is truncated", path);
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length >= sizeof header || fread(header, 1, length, file) != length)
        fail("the header is too long or truncated", path);
    header[length] = 0;
    if (strstr(header, t->descr) == NULL) fail("the file has the wrong element type", path);
    if (strstr(header, "'fortran_order': False") == NULL) fail("the file is not in C order", path);
}

static void read_tensor(tensor *t, const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail("cannot read", path);
    skip_npy_header(file, t, path);
    if (fread(t->data, 1, t->bytes, file) != t->bytes || fgetc(file) != EOF)
        fail("the file has the wrong size", path);
    fclose(file);
}

static void write_tensor(const tensor *t, const char *path) {
    FILE *file = fopen(path, "wb");
    char header[1024];
    int length;
    if (file == NULL) fail("cannot write", path);
    length = snprintf(header, sizeof header,
                      "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", t->descr, t->shape);
    if (length < 0 || length > 900) fail("the shape is too long", path);
    while ((length + 11) % 64 != 0) header[length++] = ' ';
    header[length++] = '\n';
    fwrite("\x93NUMPY\1\0", 1, 8, file);
    fputc(length & 255, file);
    fputc(length >> 8, file);
    fwrite(header, 1, (size_t)length, file);
    fwrite(t->data, 1, t->bytes, file);
    if (fclose(file) != 0) fail("cannot write", path);
}

@element
static void print_largest(const tensor *t) {
    size_t shown[TOP], many = t->count < TOP ? t->count : TOP;
    for (size_t place = 0; place < many; place++) {
        size_t best = t->count;
        for (size_t i = 0; i < t->count; i++) {
            int taken = 0;
            for (size_t j = 0; j < place; j++) taken |= shown[j] == i;
            if (!taken && (best == t->count || element(t, i) > element(t, best))) best = i;
        }
        shown[place] = best;
        printf("%s[%zu] = %.6g\n", t->name, best, element(t, best));
    }
}
@read_weights
static void check(int32_t status) {
    static const char *const meanings[] = {
@meanings
    };
    if (status != 0) fail(@quoted_name, meanings[status]);
}

/* The path of a file in the folder of this program. */
static const char *beside(const char *program, const char *file) {
    const char *slash = strrchr(program, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - program) + 1;
    char *path = allocate(length + strlen(file) + 1);
    memcpy(path, program, length);
    strcpy(path + length, file);
    return path;
}
@extents
int main(int argc, char **argv) {
    const char *weights_file = NULL, *file;
    int threads = 1, repeat = 1, self_check = 0, writes = 0, given = 0;
    double start = now(), first = 0, best = 0;
    for (int i = 0; i < TENSORS; i++) tensors[i].data = allocate(tensors[i].bytes);
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--self-check") == 0) {
            self_check = 1;
        } else if (strncmp(argv[i], "--", 2) != 0) {
            tensor *t = split(argv[i], 0, &file);
            t->file = file;
            given++;
        } else if (next == NULL) {
            fail("this option needs a value", argv[i]);
        } else if (strcmp(argv[i], "--output") == 0) {
            tensor *t = split(argv[++i], 1, &file);
            t->file = file;
            writes = 1;
        } else if (strcmp(argv[i], "--weights") == 0) {
            weights_file = argv[++i];
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--repeat") == 0) {
            repeat = atoi(argv[++i]);
@option        } else {
            fail("no such option", argv[i]);
        }
    }
    void *arena = allocate(@{upper}_ARENA_BYTES);
@load_weights
    if (self_check) {
        check(@{prefix}_self_check(arena@given, allocate(@{upper}_SELF_CHECK_BYTES)));
        puts("self-check passed");
        return 0;
    }
    if (given < @inputs) fail("give each input as NAME=FILE; the inputs are", "@input_names");
@sizes    for (int i = 0; i < TENSORS; i++)
        if (!tensors[i].is_output && tensors[i].file) read_tensor(&tensors[i], tensors[i].file);
    @{prefix}_io io = {@members};
@first    afterglow_pool *pool = NULL;
    if (threads > 1) pool = afterglow_pool_start(threads, @{upper}_SCRATCH_BYTES);
    for (int i = 0; i < repeat; i++) {
        double before = now(), after;
        check(pool == NULL
                  ? @{prefix}_run(&io, arena@given@extent)
                  : @{prefix}_run_team(&io, arena@given@extent, afterglow_pool_team(pool)));
        after = now();
        if (i == 0) first = after - start;
        if (i == 0 || after - before < best) best = after - before;
    }
    afterglow_pool_stop(pool);
    for (int i = 0; i < TENSORS; i++) {
        if (tensors[i].is_output && tensors[i].file) write_tensor(&tensors[i], tensors[i].file);
        if (tensors[i].is_output == 1 && !writes) print_largest(&tensors[i]);
    }
    if (repeat > 1) printf("first result after %.2f ms, best run %.2f ms\n", first, best);
    return 0;
}
""")

_READ_WEIGHTS = Text(r"""
/* The weights: mapped if possible, otherwise read. */
static const void *read_weights(const char *path) {
#ifdef HAS_MMAP
    struct stat status;
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) fail("cannot read the weights", path);
    if (status.st_size != @{upper}_WEIGHTS_BYTES) fail("the weights have the wrong size", path);
    void *weights = mmap(NULL, @{upper}_WEIGHTS_BYTES, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (weights == MAP_FAILED) fail("cannot map the weights", path);
    close(descriptor);
    return weights;
#else
    FILE *file = fopen(path, "rb");
    void *weights = allocate(@{upper}_WEIGHTS_BYTES);
    if (file == NULL) fail("cannot read the weights", path);
    if (fread(weights, 1, @{upper}_WEIGHTS_BYTES, file) != @{upper}_WEIGHTS_BYTES ||
        fgetc(file) != EOF)
        fail("the weights have the wrong size", path);
    fclose(file);
    return weights;
#endif
}
""")

_LOAD_WEIGHTS = Text("""\
    if (weights_file == NULL) weights_file = beside(argv[0], "@name.weights");
    const void *weights = read_weights(weights_file);
    check(@{name}_check_weights(weights, @{upper}_WEIGHTS_BYTES));
""")

_ELEMENT = """\
/* An element as a number; for floats below 32 bits, their bits. */
static double element(const tensor *t, size_t i) {
    const char *at = (const char *)t->data + i * (t->bytes / t->count);
    double number = 0;
    switch (t->descr[1] * 16 + t->descr[2] - '0') {
#define CASE(kind, size, type)        \\
    case kind * 16 + size: {          \\
        type value;                   \\
        memcpy(&value, at, sizeof value); \\
        number = (double)value;       \\
        break;                        \\
    }
        CASE('f', 4, float)
        CASE('f', 8, double)
        CASE('i', 1, int8_t)
        CASE('i', 2, int16_t)
        CASE('i', 4, int32_t)
        CASE('i', 8, int64_t)
        CASE('u', 1, uint8_t)
        CASE('u', 2, uint16_t)
        CASE('u', 4, uint32_t)
        CASE('u', 8, uint64_t)
        CASE('b', 1, uint8_t)
        CASE('f', 2, uint16_t)
        CASE('V', 1, uint8_t)
        CASE('V', 2, uint16_t)
#undef CASE
    }
    return number;
}
"""


def write_program(code: BundleCode, meanings: list[str]) -> str:
    """The text of main.c, for the first entry."""
    entry = code.entries[0]
    fields, upper = fields_of(entry), code.name.upper()
    inputs = [field for field in fields if field.role == "input"]
    reads = "" if code.embedded else _READ_WEIGHTS.substitute(upper=upper)
    loads = "" if code.embedded else _LOAD_WEIGHTS.substitute(upper=upper, name=code.name)
    if code.embedded:
        loads = "    (void)weights_file, (void)beside;\n"
    return _PROGRAM.substitute(
        name=code.name,
        quoted_name=f'"{code.name}"',
        prefix=entry.prefix,
        upper=entry.prefix.upper(),
        tensors=len(fields),
        rows="\n".join(map(_row, fields)),
        element=_ELEMENT,
        read_weights=reads,
        load_weights=loads,
        meanings="\n".join(f'        "{meaning}",' for meaning in meanings),
        given="" if code.embedded else ", weights",
        inputs=len(inputs),
        input_names=" ".join(field.member for field in inputs),
        members=", ".join(f"tensors[{number}].data" for number in range(len(fields))),
        first=_filling(code, fields),
        **program_extents(entry, fields),
    )


def _filling(code: BundleCode, fields: list[Field]) -> str:
    """Have the entry that fills the state do so, if there is one."""
    entry = initialiser(code)
    if entry is None:
        return ""
    places = {field.name: number for number, field in enumerate(fields) if field.role == "state"}
    unused = "allocate({})"
    members = [
        f"tensors[{places[f.name]}].data" if f.name in places else unused.format(f.type.nbytes)
        for f in fields_of(entry)
    ]
    given = "" if code.embedded else ", weights"
    upper = entry.prefix.upper()
    return (
        f"    {entry.prefix}_io filled = {{{', '.join(members)}}};\n"
        f"    check({entry.prefix}_run(&filled, allocate({upper}_ARENA_BYTES){given}));\n"
    )


def _row(field: Field) -> str:
    extents = [] if field.type.is_ranged else field.type.shape
    shape = f"({extents[0]},)" if len(extents) == 1 else f"({', '.join(map(str, extents))})"
    role = {"input": 0, "output": 1, "state": 2}[field.role]
    descr = field.type.dtype.numpy.str
    return (
        f'    {{"{field.member}", "{descr}", "{shape}", {field.count}, {field.type.nbytes}, '
        f"{role}, NULL, NULL}},"
    )
