"""LLVM: the typed emitter, math functions and routines written in it, compiling and loading."""
