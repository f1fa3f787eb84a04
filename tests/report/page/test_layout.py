from __future__ import annotations

import random
from itertools import pairwise

import pytest

from afterglow.report.page.layout import BEND_WIDTH, GAP, layered_layout


def test_nothing_has_no_layout():
    layout = layered_layout([], [])
    assert (layout.xs, layout.ranks, layout.bends) == ([], [], [])


def test_a_chain_is_a_straight_line():
    layout = layered_layout([50, 70, 60], [(0, 1), (1, 2)])
    assert layout.ranks == [0, 1, 2]
    assert layout.xs == [35, 35, 35]


def test_branches_lie_side_by_side_below_what_they_read():
    layout = layered_layout([60] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert layout.ranks == [0, 1, 1, 2]
    assert abs(layout.xs[1] - layout.xs[2]) == 60 + GAP
    assert layout.xs[0] == layout.xs[3] == (layout.xs[1] + layout.xs[2]) / 2


def test_a_long_edge_passes_beside_the_nodes_that_it_skips():
    layout = layered_layout([60] * 3, [(0, 1), (1, 2), (0, 2)])
    assert layout.bends[:2] == [[], []]
    (bend,) = layout.bends[2]
    assert abs(bend - layout.xs[1]) >= (60 + BEND_WIDTH) / 2 + GAP - 1e-6


def test_what_nothing_leads_to_lies_just_above_its_reader():
    assert layered_layout([60] * 4, [(0, 1), (1, 3), (2, 3)]).ranks == [0, 1, 1, 2]


def test_edges_do_not_cross_if_they_need_not():
    edges = [(0, 5), (1, 4), (2, 3)]
    xs = layered_layout([60] * 6, edges).xs
    tops = sorted(range(3), key=xs.__getitem__)
    ends = dict(edges)
    assert sorted(range(3, 6), key=xs.__getitem__) == [ends[top] for top in tops]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_of_a_rank_never_overlap(seed):
    generator = random.Random(seed)
    widths = [generator.randint(40, 200) for _ in range(120)]
    edges = [(generator.randrange(node), node) for node in range(1, 120) for _ in range(2)]
    layout = layered_layout(widths, edges)
    assert min(x - width / 2 for x, width in zip(layout.xs, widths, strict=True)) >= -1e-6
    for rank in {*layout.ranks}:
        row = sorted((layout.xs[n], widths[n]) for n in range(120) if layout.ranks[n] == rank)
        for (x, width), (other, its) in pairwise(row):
            assert other - x >= (width + its) / 2 + GAP - 1e-6
    assert all(layout.ranks[start] < layout.ranks[end] for start, end in edges)


def test_a_graph_with_very_many_long_edges_is_laid_out_soon():
    count = 500
    edges = [(node, node + 1) for node in range(count - 1)]
    edges += [(node, count - 1) for node in range(0, count - 2, 2)]
    layout = layered_layout([80] * count, edges)
    assert sum(map(len, layout.bends)) <= 40 * count
    assert any(not bends for bends in layout.bends[count:])
