"""Bundles: compiled models as files that programs in C link, or that any language loads."""

from afterglow.bundles.export import write_bundle
from afterglow.bundles.fields import identifier
from afterglow.bundles.shared import c_compiler

__all__ = ["c_compiler", "identifier", "write_bundle"]
