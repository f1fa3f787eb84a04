"""An independent check of a planned program: it sees the text, and nothing else.

Of a program in which it finds nothing, this holds:

1. Every buffer of an arena lies inside it, at a multiple of its element size.
2. No two buffers that are live at the same time have a byte in common.
3. Buffers are allocated once, freed once, and used only in between; locals only in their stack.
4. Every view lies inside its buffer.
5. Every element that is read has been written before, or is an input, a constant or state. What
   served as scratch, is still being fetched, or lay in a view that was freed, has not. What a
   predicate left out counts as written: nobody needs it.
6. Constants are never written, and inputs only if they are donated.
7. An instruction, or a stack, writes no memory that it uses under another name, unless both are
   the very same elements in the same order.
8. At the end every output is written, whole.

A program for ranges is checked as it is in a few runs: with the largest extents, with the smallest,
and with others between. Its buffers have their addresses for the largest.

It shares no code with printer, parser, verifier or planner: it imports nothing but NumPy.
"""

from afterglow.memory.checker.rules import Finding, check_plan

__all__ = ["Finding", "check_plan"]
