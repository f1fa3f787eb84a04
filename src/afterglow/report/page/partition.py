"""A model on several devices, as a page draws it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from afterglow.partition.picture import steps_of
from afterglow.partition.plan import PartitionPlan


def partition_data(plan: PartitionPlan) -> dict[str, Any]:
    """The devices, what each computes and why, what crosses, and when in a run that happens."""
    starts = {id(step.what): step.start for step in steps_of(plan)}
    return {
        "objective": plan.objective,
        "seconds": plan.seconds,
        "devices": [asdict(device) for device in plan.devices],
        "tasks": [{**asdict(task), "start": starts[id(task)]} for task in plan.tasks],
        "transfers": [{**asdict(each), "start": starts[id(each)]} for each in plan.transfers],
    }
