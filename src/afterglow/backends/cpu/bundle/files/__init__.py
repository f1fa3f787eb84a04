"""Bundles: compiled models as files that programs in C link, or that any language loads."""

from afterglow.backends.bundling.fields import identifier
from afterglow.backends.cpu.bundle.files.export import write_bundle
from afterglow.backends.cpu.bundle.files.shared import c_compiler

__all__ = ["c_compiler", "identifier", "write_bundle"]
