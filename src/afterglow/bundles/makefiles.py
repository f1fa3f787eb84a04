"""`Makefile`, `CMakeLists.txt` and `README.md` of a bundle."""

from __future__ import annotations

from afterglow.backends.cpu.bundle import BundleCode
from afterglow.bundles.fields import fields_of
from afterglow.bundles.template import Text

_MAKEFILE = Text("""\
# Builds main, which runs @name on files. CC may be any C compiler for @triple,
# for example: make CC="python -m ziglang cc -target @zig"
CC ?= cc
CFLAGS ?= -O2 -Wall -Wextra

main: main.c pool.c pool.h @name.h @name.o
\t$(CC) $(CFLAGS) -std=c11 -o $@@ main.c pool.c @name.o -pthread

check: main
\t./main --self-check

clean:
\trm -f main

.PHONY: check clean
""")

_CMAKE = Text("""\
# The target `@name` is the model: link it, and include "@name.h".
cmake_minimum_required(VERSION 3.13)
project(@name C)

find_package(Threads REQUIRED)

add_library(@name INTERFACE)
target_include_directories(@name INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(@name INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/@name.o)

add_executable(@{name}_main main.c pool.c)
set_target_properties(@{name}_main PROPERTIES OUTPUT_NAME main C_STANDARD 11)
target_link_libraries(@{name}_main PRIVATE @name Threads::Threads)
""")

_README = Text("""\
# @name

A neural network as machine code for @target, compiled by Afterglow @version.

| file | what it is |
|---|---|
| `@name.o` | the code, @code bytes: link it |
| `@name.h` | how to call it, from C or C++ |
@weights_row| `@name.json` | everything about it, for programs |
| `main.c` | a program that runs it on files |
| `pool.c`, `pool.h` | a pool of POSIX threads, for those who want several |
| `Makefile`, `CMakeLists.txt` | build `main` |

It takes and gives:

| | name | type |
|---|---|---|
@ports

Memory that the caller provides: an arena of @arena bytes@weights_note. A call takes
at most @stack bytes of stack.

    make
    ./main --self-check
    ./main @arguments

A self-check compares what the code computes here with what it computed where it was made.
""")


_ZIG_NAMES = {
    "thumbv7em": "thumb",
    "thumbv8m.main": "thumb",
    "armv7a": "arm",
    "arm64": "aarch64",
    "darwin": "macos",
    "macosx": "macos",
    "none": "freestanding",
    "elf": "freestanding",
}


def zig_target(triple: str) -> str:
    """How zig calls a machine: x86_64-linux-gnu."""
    architecture, *rest = triple.split("-")
    words = [word for word in rest if word not in ("unknown", "pc", "apple")] or ["none"]
    words[0] = words[0].rstrip("0123456789.")
    return "-".join(_ZIG_NAMES.get(word, word) for word in (architecture, *words))


def write_makefile(code: BundleCode) -> str:
    """The text of the Makefile."""
    triple = code.target.triple
    return _MAKEFILE.substitute(name=code.name, triple=triple, zig=zig_target(triple))


def write_cmake(code: BundleCode) -> str:
    """The text of CMakeLists.txt."""
    return _CMAKE.substitute(name=code.name)


def write_readme(code: BundleCode, version: str) -> str:
    """The text of README.md, for whoever gets the folder."""
    entry = code.entries[0]
    fields = fields_of(entry)
    size = f"{code.weights.nbytes:,}"
    row = f"| `{code.name}.weights` | the weights, {size} bytes: map or read them |\n"
    several = len(code.entries) > 1
    ports = [
        f"| {f.role}{f' of `{e.prefix}`' * several} | `{f.member}` | `{f.shape}` |"
        for e in code.entries
        for f in fields_of(e)
    ]
    return _README.substitute(
        name=code.name,
        target=code.target,
        version=version,
        code=f"{code.code_bytes:,}",
        weights_row="" if code.embedded else row,
        weights_note="" if code.embedded else f", and the weights, {size} bytes",
        ports="\n".join(ports),
        arena=f"{max(e.layout.size for e in code.entries):,}",
        stack=f"{max(e.stack_bytes for e in code.entries):,}",
        arguments=" ".join(f"{f.member}=FILE.npy" for f in fields if f.role == "input"),
    )
