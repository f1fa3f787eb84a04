"""The names in artifacts for CUDA: of sections, and of the memories that kernels work on."""

from __future__ import annotations

SOURCE, CUBIN = "source", "cubin."
"""Sections: the text of all kernels, and how those of machine code begin, one for each kernel."""
ARENA, CONSTANTS, ALARMS, COUNTERS = "arena", "constants", "alarms", "counters"
"""Memories; `constants` is a section, too. Others are `input 0`, `output 0`, `state NAME`."""
HOST_PREFIX = "host."
"""How the names of sections begin that are of what the host runs."""
COUNTER_BYTES = 4
