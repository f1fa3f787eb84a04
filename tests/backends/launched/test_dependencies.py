"""Commands wait for those whose memory they use, and for no others."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from afterglow.backends.launched.dependencies import Command, Span, dependencies, is_chain


def command(reads=(), writes=()):
    return Command([Span("arena", *s) for s in reads], [Span("arena", *s) for s in writes])


def test_a_command_waits_for_who_wrote_what_it_reads():
    made = [command(writes=[(0, 8)]), command(writes=[(8, 8)]), command(reads=[(8, 4)])]
    assert dependencies(made) == [(), (), (1,)]


def test_a_command_waits_for_who_reads_what_it_writes():
    made = [command(reads=[(0, 8)]), command(reads=[(0, 8)]), command(writes=[(4, 8)])]
    assert dependencies(made) == [(), (), (0, 1)]


def test_what_is_waited_for_anyhow_is_left_out():
    steps = [command(writes=[(0, 8)])]
    steps += [command(reads=[(0, 8)], writes=[(0, 8)]) for _ in range(2)]
    assert dependencies(steps) == [(), (0,), (1,)]
    assert is_chain(dependencies(steps))


def test_two_branches_wait_for_the_same_and_are_no_chain():
    fork = [command(writes=[(0, 8)])]
    fork += [command(reads=[(0, 8)], writes=[(8 * i, 8)]) for i in (1, 2)]
    fork += [command(reads=[(8, 16)])]
    assert dependencies(fork) == [(), (0,), (0,), (1, 2)]
    assert not is_chain(dependencies(fork))


def test_columns_of_the_same_rows_are_apart():
    left, right = (0, 44, 16, 12), (12, 36, 16, 4)
    steps = [command(writes=[left]), command(writes=[right]), command(reads=[(0, 48)])]
    assert dependencies(steps) == [(), (), (0, 1)]
    assert Span("arena", *left).meets(Span("arena", 8, 36, 16, 8))


SPANS = st.builds(
    lambda start, period, width, rows: (
        Span("arena", start, (rows - 1) * period + min(width, period), period, min(width, period))
        if width < period
        else Span("arena", start, rows * period)
    ),
    *(st.integers(0, 20), st.sampled_from([4, 6]), st.integers(1, 6), st.integers(1, 3)),
)
COMMANDS = st.lists(
    st.builds(Command, st.lists(SPANS, max_size=2), st.lists(SPANS, max_size=2)), max_size=7
)


def bytes_of(span):
    used = np.arange(span.size)
    return {*(span.start + (used[used % span.period < span.width] if span.period else used))}


@settings(max_examples=40)
@given(COMMANDS)
def test_all_that_share_bytes_are_in_order_and_only_they_wait(commands):
    waits = dependencies(commands)
    before = [set() for _ in commands]
    for number, each in enumerate(waits):
        before[number] = {*each, *(other for one in each for other in before[one])}
    reads = [set().union(*map(bytes_of, c.reads)) for c in commands]
    writes = [set().union(*map(bytes_of, c.writes)) for c in commands]
    for late in range(len(commands)):
        clashes = {
            early
            for early in range(late)
            if writes[early] & (reads[late] | writes[late]) or reads[early] & writes[late]
        }
        assert clashes <= before[late]
        for early in waits[late]:  # of two periods nobody counts: they may only seem to meet
            spans = [*commands[early].reads, *commands[early].writes]
            spans += [*commands[late].reads, *commands[late].writes]
            assert early in clashes or len({span.period for span in spans}) > 1
