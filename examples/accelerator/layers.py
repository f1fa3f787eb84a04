"""Print the cycles of each layer of a model on the accelerator, without running it."""

from __future__ import annotations

import sys

from ember_backend.assembly import assemble
from ember_backend.backend import DEVICE, FACTORY
from ember_chip.clock import measure, one_by_one

import afterglow as ag
from afterglow.testing import install


def main(path: str) -> None:
    install(FACTORY, DEVICE)
    listing = ag.compile(path, backend="ember").ir("ember")
    names = {}
    for line in listing.splitlines():
        if line.startswith("mark "):
            step, _, comment = line.removeprefix("mark step=").partition(" ; ")
            names[int(step)] = comment
    program = assemble(listing)
    whole, sections = measure(program)
    print(f"{'cycles':>13} {'array':>6} {'DMA':>6}  step")
    for section in sections[1:]:
        busy = section.dma / section.cycles if section.cycles else 0.0
        name = names[section.mark]
        print(f"{section.cycles:13,} {section.utilisation:6.0%} {busy:6.0%}  {name}")
    waiting = measure(one_by_one(program))[0].cycles
    print(f"{whole.cycles:13,} {whole.utilisation:6.0%}  all")
    saved = 1 - whole.cycles / waiting
    print(f"{waiting:13,}  if each transfer is awaited: overlapping saves {saved:.0%}")


if __name__ == "__main__":
    main(sys.argv[1])
