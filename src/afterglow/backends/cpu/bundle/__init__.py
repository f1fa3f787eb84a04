"""Bundles: compiled programs as one object file that C programs link, and that needs nothing."""

from afterglow.backends.cpu.bundle.build import BundleOptions, Planned, build_bundle
from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode, Extent
from afterglow.backends.cpu.bundle.describe import describe_object

__all__ = [
    "BundleCode",
    "BundleOptions",
    "EntryCode",
    "Extent",
    "Planned",
    "build_bundle",
    "describe_object",
]
