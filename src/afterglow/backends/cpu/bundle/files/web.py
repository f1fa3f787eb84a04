"""Additional files of a bundle for WebAssembly: to link a module, and to check it."""

from __future__ import annotations

from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import BundleCode
from afterglow.backends.cpu.bundle.files.systems import zig_target

LINK_OPTIONS = ("-nostdlib", "-Wl,--no-entry", "-Wl,--export-dynamic")
"""Options of a C compiler to link a module without an entry point that exports all functions."""

_MAKEFILE = Text("""\
# Links @name.wasm. Without a clang that has WebAssembly:
#   make CC="python -m ziglang cc -target @zig"
ifeq ($(origin CC),default)
CC = clang --target=wasm32-unknown-unknown
endif

@name.wasm: @name.o
\t$(CC) @options -o $@@ @name.o

check: @name.wasm
\tnode check.mjs

clean:
\trm -f @name.wasm

.PHONY: check clean
""")

_CHECK = Text("""\
// Checks @name.wasm, and shows how to provide its memory: node check.mjs
import { readFileSync } from "node:fs";

const read = (name) => readFileSync(new URL(name, import.meta.url));
const about = JSON.parse(read("@name.json"));
const [entry] = about.entries;
const { instance } = await WebAssembly.instantiate(read("@name.wasm"));
const { memory } = instance.exports;

let top = memory.buffer.byteLength;
const take = (size) => {
  const address = top;
  top += Math.ceil(size / entry.arena_align) * entry.arena_align;
  return address;
};
const arena = take(entry.arena_bytes);
const weights = about.weights.embedded ? [] : [take(about.weights.bytes)];
const scratch = take(entry.self_check_bytes);
memory.grow(Math.ceil((top - memory.buffer.byteLength) / 65536));
for (const address of weights) {
  new Uint8Array(memory.buffer, address, about.weights.bytes).set(read(about.weights.file));
}

const status = instance.exports[`$${entry.prefix}_self_check`](arena, ...weights, scratch);
console.log(status === 0 ? "self-check passed" : `self-check failed with status $${status}`);
process.exitCode = status;
""")

STEPS = Text("""\
    make
    make check

links `@name.wasm`, with clang, or with any other compiler for WebAssembly: see the Makefile; and
runs the self-check in Node, which compares the results with those when the model was compiled.
`check.mjs` shows how to load a module and provide its memory: it has no imports, and a web page
loads it in the same way. `afterglow compile --shared` links it, too, with a description of itself.
""")


def web_files(code: BundleCode) -> dict[str, str]:
    """The files that only a bundle for WebAssembly has, and its Makefile."""
    return {
        "check.mjs": _CHECK.substitute(name=code.name).replace("$$", "$"),
        "Makefile": _MAKEFILE.substitute(
            name=code.name,
            zig=zig_target(code.target.triple),
            options=" ".join(LINK_OPTIONS),
        ),
    }


def web_steps(code: BundleCode) -> str:
    """How to use it, for README.md."""
    return STEPS.substitute(name=code.name)
