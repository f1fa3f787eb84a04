"""The thread pool: runs a model's steps on several threads, with the same results as on one."""

from afterglow.backends.cpu.threads.module import pool_module, write_run_alone

__all__ = ["pool_module", "write_run_alone"]
