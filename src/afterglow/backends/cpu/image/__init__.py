"""Machine code as one flat image: linked once, stored anywhere, loaded in microseconds.

>>> from afterglow.backends.cpu import Module, Target, compile_module
>>> from afterglow.backends.cpu.image import link
>>> module = Module(Target.of("x86-64"))
>>> with module.function("nothing"):
...     pass
>>> link([compile_module(module, module.target)], ["nothing"]).symbols
{'nothing': 0}
"""

from afterglow.backends.cpu.image.image import Image
from afterglow.backends.cpu.image.link import link
from afterglow.backends.cpu.image.load import FilePart, Loaded, load_image
from afterglow.backends.cpu.image.perf import write_perf_map

__all__ = ["FilePart", "Image", "Loaded", "link", "load_image", "write_perf_map"]
