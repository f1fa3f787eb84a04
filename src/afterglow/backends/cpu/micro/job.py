"""The work of one kernel, as all code generators see it."""

from afterglow.backends.job import Job

__all__ = ["Job"]
