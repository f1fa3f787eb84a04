"""Linking: machine code becomes one position-independent image, which is loaded in microseconds.

>>> from afterglow.backends.cpu import Module, Target, compile_module
>>> from afterglow.backends.cpu.link import link
>>> module = Module(Target.of("x86-64"))
>>> with module.function("nothing"):
...     pass
>>> link([compile_module(module, module.target)], ["nothing"]).symbols
{'nothing': 0}
"""

from afterglow.backends.cpu.link.link import link

__all__ = ["link"]
