"""The thread pool: runs a model's steps on several threads, with the same results as on one."""

from afterglow.backends.cpu.pool.module import pool_module, write_run_alone
from afterglow.backends.cpu.pool.shared import link_pool, pool_image, shared_pool

__all__ = ["link_pool", "pool_image", "pool_module", "shared_pool", "write_run_alone"]
