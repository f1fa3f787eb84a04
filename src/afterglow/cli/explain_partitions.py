"""`afterglow explain --partitions`: show where the tasks of a model are computed, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from afterglow.cli.destination import DOT, PICTURE, file_for
from afterglow.cli.progress import StageClock
from afterglow.cli.request import Request
from afterglow.cli.session import Session
from afterglow.driver.batch_split import BatchShare
from afterglow.driver.partitioning import Partitioned
from afterglow.memory.picture import bytes_text
from afterglow.partition.picture import plan_dot, plan_svg
from afterglow.partition.plan import DeviceUse, PartitionPlan
from afterglow.support.durations import duration
from afterglow.support.errors import UsageError
from afterglow.support.tables import table


def explain_partitions(session: Session, request: Request, draw: str | None, force: bool) -> int:
    """Print, and draw if there is a file for it, the plan of a model on several devices."""
    if not request.options.devices:
        raise UsageError(
            f"a model on {request.options.backend!r} alone has no partitions",
            help="give several devices: --backend opencl,cpu",
        )
    config = request.options.placing
    if config is not None and config.split_batch:
        return _explain_batch(session, request, draw)
    place = file_for(draw, (PICTURE, DOT), request.path, option="--draw", force=force)
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        plan = Partitioned(request.options).plan(request.load(request.source()))
        if draw is not None:
            clock("draw")
            place.write_text(plan_dot(plan) if place.kind is DOT else plan_svg(plan))
    picture = None if draw is None else str(place.path)
    session.answer(
        {"model": request.path, **asdict(plan), "picture": picture},
        lambda: _show(session, plan, picture),
    )
    return 0


def _explain_batch(session: Session, request: Request, draw: str | None) -> int:
    """Print how many items of a batch each device computes."""
    if draw is not None:
        raise UsageError("a batch that is split has no partitions to draw", help="leave out --draw")
    with StageClock(session.err) as clock:
        request = request.watched(clock)
        shares = Partitioned(request.options).shares(request.load(request.source()))
    session.answer(
        {"model": request.path, "shares": [asdict(share) for share in shares]},
        lambda: session.show(_share_table(shares)),
    )
    return 0


def _share_table(shares: Sequence[BatchShare]) -> Table:
    rows = table("device", "items", "time", right=("items", "time"))
    for share in shares:
        rows.add_row(share.device, str(share.items), duration(share.seconds))
    return rows


def _show(session: Session, plan: PartitionPlan, picture: str | None) -> None:
    sent = bytes_text(sum(transfer.nbytes for transfer in plan.transfers))
    session.say(f"{plan.objective}: {duration(plan.seconds)} a run expected", "bold")
    session.show(_device_table(plan))
    session.say("tasks in the order of the model", "bold")
    session.show(_task_table(plan))
    session.say(f"values that cross: {sent}", "bold")
    session.show(_transfer_table(plan))
    if picture is not None:
        session.say(f"partitions drawn in {picture}")


def _device_table(plan: PartitionPlan) -> Table:
    numbers = ("tasks", "busy", "memory", "alone")
    rows = table("device", *numbers, right=numbers)
    for device in plan.devices:
        if device.computes:
            busy, alone = duration(device.seconds), _alone(device)
            rows.add_row(device.name, str(device.tasks), busy, _memory(device), alone)
    return rows


def _memory(device: DeviceUse) -> str:
    limit = "" if device.memory is None else f" of {bytes_text(device.memory)}"
    return bytes_text(device.nbytes) + limit


def _alone(device: DeviceUse) -> str:
    return "cannot" if device.alone is None else duration(device.alone)


def _task_table(plan: PartitionPlan) -> Table:
    rows = table("task", "nodes", "device", "time", "why", right=("nodes", "time"))
    for task in plan.tasks:
        nodes, time = str(len(task.nodes)), duration(task.seconds)
        rows.add_row(task.name, nodes, task.device, time, task.reason)
    return rows


def _transfer_table(plan: PartitionPlan) -> Table:
    rows = table("value", "from", "to", "size", "time", right=("size", "time"))
    for each in plan.transfers:
        size, time = bytes_text(each.nbytes), duration(each.seconds)
        rows.add_row(each.value, each.source, each.to, size, time)
    return rows
