"""`Makefile`, `CMakeLists.txt` and `README.md` of a bundle, and the programs that they build."""

from __future__ import annotations

from afterglow.backends.bundling.fields import fields_of
from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.files.extents import members_of
from afterglow.backends.cpu.bundle.files.firmware import firmware_files, firmware_steps
from afterglow.backends.cpu.bundle.files.language import generates
from afterglow.backends.cpu.bundle.files.pool import POOL_C, POOL_H
from afterglow.backends.cpu.bundle.files.program import write_program
from afterglow.backends.cpu.bundle.files.systems import System, system_of, zig_flags
from afterglow.backends.cpu.bundle.files.web import web_files, web_steps
from afterglow.runtime.native.status import Status

_MAKEFILE = Text("""\
# Builds main, which runs @name on files. CC may be any C compiler for @triple,
# for example: make CC="python -m ziglang cc @zig"
CC ?= cc
CFLAGS ?= -O2 -Wall -Wextra

main: main.c pool.c pool.h @name.h @name.o
\t$(CC) $(CFLAGS) -std=c11 -o $@@ main.c pool.c @name.o -pthread

check: main
\t./main --self-check
@generate
clean:
\trm -f main generate

.PHONY: check clean
""")

_GENERATE = Text("""
# Prints a text: ./generate "Once upon a time"
generate: generate.c @{name}_text.c @{name}_text.h pool.c pool.h @name.h @name.o
\t$(CC) $(CFLAGS) -std=c99 -o $@@ generate.c @{name}_text.c pool.c @name.o -lm -pthread
""")

_CMAKE = Text("""\
# The target `@name` is the model: link it, and include "@name.h".
cmake_minimum_required(VERSION 3.13)
project(@name C)

add_library(@name INTERFACE)
target_include_directories(@name INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(@name INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/@name.o)
""")

_CMAKE_PROGRAM = Text("""
find_package(Threads REQUIRED)
add_executable(@{name}_main main.c pool.c)
set_target_properties(@{name}_main PROPERTIES OUTPUT_NAME main C_STANDARD 11)
target_link_libraries(@{name}_main PRIVATE @name Threads::Threads)
""")

_README = Text("""\
# @name

A neural network as machine code for @target, compiled by Afterglow @version.

| file | contents |
|---|---|
| `@name.o` | the code, @code bytes: link it |
| `@name.h` | how to call it, from C or C++ |
@weights_row| `@name.json` | machine-readable description |
@rows| `@name.sha256` | digests of all these files: `sha256sum -c @name.sha256` |

Inputs and outputs:

| | name | type |
|---|---|---|
@ports

@{bounds}Memory that the caller provides: an arena of @arena bytes@weights_note. A call takes
at most @stack bytes of stack.

@steps""")

_STEPS = Text("""\
    make
    ./main --self-check
    ./main @arguments

The self-check compares the results on this machine with those when the model was compiled.
""")

_TEXT_ROWS = Text("""\
| `@{name}_text.h`, `@{name}_text.c` | tokenizer, sampler and loop: text in, text out |
| `@name.vocabulary` | the tokens |
| `generate.c` | a program that prints text: `make generate` |
""")
_CMAKE_ROW = "| `CMakeLists.txt` | the model as a target to link |\n"
_ROWS = {
    System.HOSTED: (
        "| `main.c` | a program that runs it on files |\n"
        "| `pool.c`, `pool.h` | a thread pool for POSIX |\n"
        "| `Makefile`, `CMakeLists.txt` | build `main` |\n"
    ),
    System.FIRMWARE: (
        "| `main.c` | a self-check without an operating system |\n"
        "@weights_source| `Makefile` | compiles these |\n" + _CMAKE_ROW
    ),
    System.WEB: (
        "| `Makefile` | links a WebAssembly module |\n"
        "| `check.mjs` | a self-check of the module, for Node |\n" + _CMAKE_ROW
    ),
}
"""The files of a bundle that depend on what runs it."""
_WEIGHTS_SOURCE = "| `weights.S` | the weights, to be linked |\n"


def building_files(code: BundleCode) -> dict[str, str]:
    """The files that build a program with a bundle, or check it, as its target can."""
    files = {"CMakeLists.txt": write_cmake(code)}
    match system_of(code.target):
        case System.FIRMWARE:
            return {**firmware_files(code), **files}
        case System.WEB:
            return {**web_files(code), **files}
    return {
        "main.c": write_program(code, [status.meaning for status in Status]),
        "pool.c": POOL_C,
        "pool.h": POOL_H,
        "Makefile": write_makefile(code),
        **files,
    }


def write_makefile(code: BundleCode) -> str:
    """The text of the Makefile, where there is an operating system."""
    target = code.target
    generate = _GENERATE.substitute(name=code.name) if generates(code) else ""
    return _MAKEFILE.substitute(
        name=code.name, triple=target.triple, zig=zig_flags(target), generate=generate
    )


def write_cmake(code: BundleCode) -> str:
    """The text of CMakeLists.txt."""
    hosted = system_of(code.target) is System.HOSTED
    program = _CMAKE_PROGRAM.substitute(name=code.name) if hosted else ""
    return _CMAKE.substitute(name=code.name) + program


def _steps(code: BundleCode) -> str:
    """What to do with a bundle."""
    fields = fields_of(code.entries[0])
    match system_of(code.target):
        case System.FIRMWARE:
            return firmware_steps(code, ", ".join(f".{f.member} = {f.member}" for f in fields))
        case System.WEB:
            return web_steps(code)
    inputs = [f"{f.member}=FILE.npy" for f in fields if f.role == "input"]
    extents = [f"--extent {member}=N" for member in members_of(code.entries[0]).values()]
    return _STEPS.substitute(arguments=" ".join([*inputs, *extents]))


def _rows(code: BundleCode) -> str:
    source = "" if code.embedded else _WEIGHTS_SOURCE
    rows = _ROWS[system_of(code.target)].replace("@weights_source", source)
    return rows + (_TEXT_ROWS.substitute(name=code.name) if generates(code) else "")


def _bounds(code: BundleCode) -> str:
    """What extents a run may have; nothing if they are not its caller's choice."""
    members = members_of(code.entries[0])
    if not members:
        return ""
    listed = ", ".join(f"`{member}` is {dim.range_text}" for dim, member in members.items())
    return f"The caller of a run gives its extents: {listed}.\n\n"


def write_readme(code: BundleCode, version: str) -> str:
    """The text of README.md, for whoever gets the folder."""
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
        bounds=_bounds(code),
        arena=f"{max(e.layout.size for e in code.entries):,}",
        stack=f"{max(e.stack_bytes for e in code.entries):,}",
        rows=_rows(code),
        steps=_steps(code),
    )
