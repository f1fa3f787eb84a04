"""The process that runs one engine on one model, controlled over a pipe.

It may run under a different Python interpreter: it needs NumPy and the engine, and imports
Afterglow only if that is the engine.
"""
