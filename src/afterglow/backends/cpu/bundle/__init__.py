"""Bundles: compiled programs as one object file that C programs link, and that needs nothing."""

from afterglow.backends.cpu.bundle.build import (
    BundleOptions,
    Planned,
    build_bundle,
    refuse_host_steps,
)
from afterglow.backends.cpu.bundle.code import BundleCode, BundleExtent, EntryCode
from afterglow.backends.cpu.bundle.describe import describe_object
from afterglow.backends.cpu.bundle.reference import reference_outputs, reference_target

__all__ = [
    "BundleCode",
    "BundleExtent",
    "BundleOptions",
    "EntryCode",
    "Planned",
    "build_bundle",
    "describe_object",
    "reference_outputs",
    "reference_target",
    "refuse_host_steps",
]
