"""Bundles: compiled models as files that programs in C link, or that any language loads."""

from afterglow.runtime.bundle.export import Bundle, write_bundle
from afterglow.runtime.bundle.fields import identifier
from afterglow.runtime.bundle.library import load_library
from afterglow.runtime.bundle.shared import SUFFIXES, c_compiler

__all__ = ["SUFFIXES", "Bundle", "c_compiler", "identifier", "load_library", "write_bundle"]
