"""Additional files of a bundle for firmware: a self-check to link, and the weights as an object.

There is no operating system: no files, no threads, and `main` is called by the startup code of the
device.
"""

from __future__ import annotations

from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.files.extents import members_of
from afterglow.backends.cpu.bundle.files.systems import gcc_flags, gcc_name, zig_flags

_PROGRAM = Text("""\
/* Checks @prefix on a device: link it with the startup code and the linker script of the board.
 *
 * main returns 0 if the code gives the same results here as when it was compiled.
 */
#include "@name.h"

static _Alignas(@{upper}_ARENA_ALIGN) unsigned char arena[@{upper}_ARENA_BYTES];
static _Alignas(@{upper}_ARENA_ALIGN) unsigned char memory[@{upper}_SELF_CHECK_BYTES];
@weights
int main(void) {
    return @{prefix}_self_check(arena@given, memory);
}
""")

_WEIGHTS = Text("""\
/* The weights of @name as an object, in read-only memory. */
    .section .rodata.@{name}_weights, "a"
    .balign @align
    .global @{name}_weights
@{name}_weights:
    .incbin "@name.weights"
""")

_MAKEFILE = Text("""\
# Compiles the objects to link with @name.o: @objects. Without GCC for the device:
#   make CC="python -m ziglang cc @zig" MACHINE=
ifeq ($(origin CC),default)
CC = @gcc
endif
MACHINE ?= @machine
CFLAGS ?= -Os -Wall -Wextra

all: @objects

main.o: main.c @name.h
\t$(CC) $(MACHINE) $(CFLAGS) -std=c11 -ffreestanding -c -o $@@ main.c
@weights_rule
clean:
\trm -f @objects

.PHONY: all clean
""")

_WEIGHTS_RULE = Text("""
weights.o: weights.S @name.weights
\t$(CC) $(MACHINE) -c -o $@@ weights.S
""")

STEPS = Text("""\
    make

compiles @objects, with `@gcc`, or with any other compiler for
the device: see the Makefile. Link them and `@name.o` with the startup code and the linker script
of the board. `main` is the self-check, which compares the results on the device with those when the
model was compiled; call it once, and replace it by your own program:

    static _Alignas(@{upper}_ARENA_ALIGN) unsigned char arena[@{upper}_ARENA_BYTES];
    @{prefix}_io io = {@members};
@extents    if (@{prefix}_run(&io, arena@given) != @{upper}_OK) { /* the header lists the codes */ }

It uses no files and no threads. @memory_functions
""")


def firmware_files(code: BundleCode) -> dict[str, str]:
    """The files that only a bundle for firmware has, and its Makefile."""
    weights = f"extern const unsigned char {code.name}_weights[];\n"
    prefix = code.entries[0].prefix
    names = {"name": code.name, "upper": prefix.upper(), "prefix": prefix}
    files = {
        "main.c": _PROGRAM.substitute(
            **names, weights="" if code.embedded else weights, given=_given(code)
        ),
        "Makefile": _MAKEFILE.substitute(
            **names,
            objects=_objects(code),
            zig=zig_flags(code.target),
            gcc=gcc_name(code.target),
            machine=gcc_flags(code.target),
            weights_rule="" if code.embedded else _WEIGHTS_RULE.substitute(**names),
        ),
    }
    if not code.embedded:
        files["weights.S"] = _WEIGHTS.substitute(**names, align=code.alignment)
    return files


def firmware_steps(code: BundleCode, members: str) -> str:
    """How to use it, for README.md."""
    needs = "It needs `memcpy`, `memmove` and `memset` (without `--freestanding`)."
    entry = code.entries[0]
    extents = ", ".join(f".{member} = {dim.high}" for dim, member in members_of(entry).items())
    return STEPS.substitute(
        name=code.name,
        upper=code.name.upper(),
        prefix=entry.prefix,
        objects=" and ".join(f"`{name}`" for name in _objects(code).split()),
        gcc=gcc_name(code.target),
        members=members,
        extents=f"    {entry.prefix}_extents extents = {{{extents}}};\n" * bool(extents),
        given=_given(code) + ", &extents" * bool(extents),
        memory_functions="It needs nothing else." if code.freestanding else needs,
    )


def _given(code: BundleCode) -> str:
    return "" if code.embedded else f", {code.name}_weights"


def _objects(code: BundleCode) -> str:
    return "main.o" if code.embedded else "main.o weights.o"
