"""Bundles for GPUs: machine code and constants, and a launcher in C that needs the driver alone."""

from afterglow.backends.cuda.bundle.bundler import bundle_for_cuda

__all__ = ["bundle_for_cuda"]
