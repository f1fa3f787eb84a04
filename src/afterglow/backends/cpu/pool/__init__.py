"""The thread pool: runs a model's steps on several threads, with the same results as on one."""

from afterglow.backends.cpu.pool.module import RUN_ALONE, pool_module, write_run_alone
from afterglow.backends.cpu.pool.shared import Pool, link_pool, shared_pool
from afterglow.backends.cpu.pool.team import COUNTER_BYTES

__all__ = [
    "COUNTER_BYTES",
    "RUN_ALONE",
    "Pool",
    "link_pool",
    "pool_module",
    "shared_pool",
    "write_run_alone",
]
