"""The cost model: one place for every rate, and estimates that follow from counts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from afterglow.backends.cpu.micro import cost
from afterglow.backends.cpu.micro.cost import FLOPS_PER_BYTE, memory_bound

KERNELS = Path(cost.__file__).parent.parent / "kernels"
RATE = re.compile(r"(^|_)(COST|WORK|FLOPS|TIGHT|GAIN)(_|$)")


def test_kernels_have_no_rates_of_their_own() -> None:
    found = [
        f"{path.name}: {ast.unparse(node.targets[0])}"
        for path in sorted(KERNELS.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and RATE.search(ast.unparse(node.targets[0]))
    ]
    assert found == []


def test_every_rate_says_what_it_is_of() -> None:
    body = ast.parse(Path(cost.__file__).read_text()).body
    rates = [place for place, node in enumerate(body) if isinstance(node, ast.Assign)]
    assert len(rates) > 30
    for place in rates:
        said = body[place + 1]
        assert isinstance(said, ast.Expr), ast.unparse(body[place])
        assert isinstance(said.value, ast.Constant), ast.unparse(body[place])


def test_arithmetic_hides_memory_that_is_faster() -> None:
    assert memory_bound(1000.0, 10.0) == 1000.0
    assert memory_bound(1000.0, 1000.0) == FLOPS_PER_BYTE * 1000.0


def test_few_units_count_as_slower_but_little_of_it() -> None:
    few, some, many = (cost.unevenness(units) for units in (4, 16, 128))
    assert few > some > many > 1
    assert some <= 1.03


def test_a_wait_counts_for_little_of_what_many_threads_lose_by_it() -> None:
    lost = cost.BARRIER * 4 + cost.HAND_OVER * cost.CHUNKS_OF_THREAD
    assert cost.MANY_THREADS == 2**4
    assert cost.waiting(0) == 0
    assert cost.waiting(3) == 3 * cost.waiting(1)
    assert cost.waiting(1) == round(cost.UNEVEN * 16 * lost * cost.FLOPS_A_SECOND)
