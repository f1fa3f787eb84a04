"""A process that runs one engine on one model, and is told over a pipe when to do what.

It may run under another Python than Afterglow's: it needs NumPy and the engine, and imports nothing
of Afterglow unless that is the engine.
"""
