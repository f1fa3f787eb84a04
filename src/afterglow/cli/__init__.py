"""The `afterglow` command: one verb a job, and the exit status is the verdict."""
