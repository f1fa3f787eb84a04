"""Machine code at run time: code and constants are mapped, checked and called, and nothing else.

Nothing here compiles, and nothing here imports what does: a process that only runs models has only
this in memory.
"""
