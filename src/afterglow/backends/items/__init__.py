"""Kernels in which an item computes one result or a few, written once for all languages.

A backend whose device runs many items at once says how its language spells what `language.py`
asks for. It gets these kernels with the table of its anchors, and may have better ones of its own.
"""
