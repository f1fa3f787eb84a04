"""The independent checker: it finds what is wrong, and nothing else."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import afterglow.memory.checker
from afterglow.memory.checker import Finding, check_plan

HEAD = """
program @main arena 64 {
  input %x : f32[4]
  output %y : f32[4]
  const @w : f32[4]
  state @s : f32[4]
"""


def findings(body: str, head: str = HEAD) -> list[str]:
    return [finding.text for finding in check_plan(head + inspect.cleandoc(body) + "\n}\n")]


def broken(body: str, *texts: str) -> None:
    """Exactly these findings; the output is written at the end unless the body does it."""
    end = "" if "out %y" in body else "\nexp out %y, in %x"
    assert findings(inspect.cleandoc(body) + end) == list(texts)


def good(body: str) -> None:
    broken(body)


def test_it_shares_no_code_with_what_it_checks() -> None:
    folder = Path(afterglow.memory.checker.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("afterglow"):
                assert (node.module or "").startswith("afterglow.memory.checker")
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("afterglow") for alias in node.names)


def test_findings_say_where() -> None:
    text = HEAD + "exp out %y, in %x\ndealloc %a\n}\n"
    finding = Finding(8, "%a is freed, but it is not live")
    assert check_plan(text) == [finding]
    assert str(finding) == "line 8: %a is freed, but it is not live"


class TestGood:
    def test_a_chain(self) -> None:
        good("""
            %a = alloc f32[4] at 0                     ; 16 B
            exp out %a, in %x
            relu inout %a, in %a
            %b = alloc f32[4] at 16
            mul out %b, in %a, in @w {attribute = "} ; { \\" %z"} if %x
            dealloc %a
            %c = alloc f32[4] at 0
            add out %c, in %b, none, in @s
            dealloc %b
            copy out %y, in %c
            copy out @s, in %c
            dealloc %c
        """)

    def test_names_and_types_may_be_odd(self) -> None:
        assert not findings(
            """
            output %"odd; name" : i8[2, 2; axis 0, scales (0.5, 1.0), offsets (0, 0)] ; 4 B
            const @a:b/c.d-1 : i8[2, 2; scale 0.05, offset -3]
            const @empty : str[0, 3]
            relu out %"odd; name", in @a:b/c.d-1
            """,
            'program @"a program" arena 0 {\n',
        )

    def test_windows_are_written_one_by_one(self) -> None:
        good("""
            %a = alloc f32[2, 4] at 0
            %left = view %a[0:2, 0:2] : f32[2, 2]
            exp out %left, in %x
            %odd = view %a[0:2, 3:4] : f32[2, 1]
            exp out %odd, in %left
            %even = view %a {start = 6, strides = (-4, 1)} : f32[2, 1]
            exp out %even, in %odd
            copy out %y, in %a
            dealloc %a
        """)

    def test_a_stack_works_in_place(self) -> None:
        good("""
            %a = alloc f32[4] at 0
            exp out %a, in %x
            %b = view %a : f32[2, 2]
            stack {
              %t = local f32[4]
              exp out %t, in %a
              add out %b, in %t, in %a
            }
            copy out %y, in %b
            dealloc %a
        """)

    def test_a_narrower_result_takes_over_its_operand(self) -> None:
        good("""
            %a = alloc f32[4] at 0
            exp out %a, in %x
            %n = view %a {start = 0, strides = (1,)} : f16[4]
            cast out %n, in %a {dtype = f16}
            cast out %y, in %n {dtype = f32}
            dealloc %a
        """)

    def test_dense_windows_cover_a_buffer_in_any_order(self) -> None:
        good("""
            %a = alloc f32[3, 4] at 0
            %p = view %a[2:3, 0:4] : f32[1, 4]
            exp out %p, in %x
            %q = view %a[0:1, 0:4] : f32[1, 4]
            exp out %q, in %x
            %r = view %a[1:2, 0:4] : f32[1, 4]
            exp out %r, in %x
            exp out %y, in %a
            dealloc %a
        """)

    def test_several_memories_and_transfers(self) -> None:
        assert not findings(
            """
            input %x : f32[4]
            output %y : f32[4]
            %a = alloc f32[4] in fast at 0
            prefetch out %a, in %x
            %b = alloc f32[4] in slow at 0
            exp out %b, in %x
            wait %a
            add out %y, in %a, in %b
            dealloc %a
            dealloc %b
            """,
            "program @main arena fast 16 arena slow 16 {\n",
        )


class TestAddresses:
    def test_live_buffers_overlap(self) -> None:
        broken(
            "%a = alloc f32[4] at 0\n%b = alloc f32[4] at 12\ndealloc %a\ndealloc %b",
            "%b at 12 overlaps %a, which is live at 0",
        )

    def test_outside_the_arena(self) -> None:
        broken(
            "%a = alloc f32[4] at 52\ndealloc %a",
            "%a takes bytes 52 to 68 of an arena of 64",
        )

    def test_not_planned(self) -> None:
        broken("%a = alloc f32[4]\ndealloc %a", "%a has no address")

    def test_another_arena(self) -> None:
        broken(
            "%a = alloc f32[4] in fast at 0\ndealloc %a", "%a lies in an arena that is not declared"
        )

    def test_not_aligned(self) -> None:
        broken("%a = alloc f64[1] at 4\ndealloc %a", "%a at 4 is not aligned to its elements")


class TestLifetimes:
    def test_use_after_the_end(self) -> None:
        start = "%a = alloc f32[4] at 0\nexp out %a, in %x\n%v = view %a : f32[2, 2]\ndealloc %a\n"
        broken(start + "exp out %y, in %a", "%a is used after it was freed")
        broken(start + "exp out %y, in %v", "%v is used after it was freed")

    def test_use_before_the_beginning(self) -> None:
        broken(
            "exp out %a, in %x\n%a = alloc f32[4] at 0\ndealloc %a",
            "%a is not declared",
        )

    def test_freed_twice(self) -> None:
        broken(
            "%a = alloc f32[4] at 0\ndealloc %a\ndealloc %a",
            "%a is freed, but it is not live",
        )

    def test_never_freed(self) -> None:
        broken("%a = alloc f32[4] at 0", "%a is never freed")

    def test_allocated_twice(self) -> None:
        broken(
            "%a = alloc f32[4] at 0\n%a = alloc f32[4] at 32\ndealloc %a",
            "%a is declared twice",
        )

    def test_inputs_are_not_freed(self) -> None:
        broken("exp out %y, in %x\ndealloc %x", "%x is freed, but it is not live")


class TestViews:
    def test_out_of_bounds(self) -> None:
        broken(
            "%v = view %x {start = 2, strides = (1,)} : f32[3]",
            "%v takes bytes 8 to 20 of %x, which has 16",
        )
        broken(
            "%v = view %x {start = 2, strides = (-3,)} : f32[2]",
            "%v takes bytes -4 to 12 of %x, which has 16",
        )
        broken("%v = view %x : f64[4]", "%v takes bytes 0 to 32 of %x, which has 16")

    def test_a_window_that_wraps_around(self) -> None:
        broken(
            "%a = alloc f32[2, 2] at 0\n%v = view %a[0:1, 1:3] : f32[1, 2]\ndealloc %a",
            "what %v takes of %a does not have its shape",
        )

    def test_a_window_of_another_shape(self) -> None:
        wrong = "what %v takes of %x does not have its shape"
        broken("%v = view %x[0:3] : f32[2]", wrong)
        broken("%v = view %x[0:2] : f32[2, 1]", wrong)
        broken("%v = view %x {start = 0, strides = (1, 1)} : f32[2]", wrong)

    def test_of_nothing(self) -> None:
        broken("%v = view %z : f32[4]", "%z is not declared")


class TestContent:
    def test_read_before_written(self) -> None:
        broken(
            "%a = alloc f32[4] at 0\nexp out %y, in %a\ndealloc %a",
            "%a is read before it is written",
        )
        broken(
            "%a = alloc f32[4] at 0\nexp inout %a, in %a\ndealloc %a",
            "%a is read before it is written",
        )

    def test_read_before_all_is_written(self) -> None:
        broken(
            """
            %a = alloc f32[4] at 0
            %v = view %a[0:3] : f32[3]
            exp out %v, in %x
            exp out %y, in %a
            dealloc %a
            """,
            "%a is read before it is written: element 3 of %a is not",
        )

    def test_strided_elements_are_told_apart(self) -> None:
        broken(
            """
            %a = alloc f32[2, 4] at 0
            %even = view %a[0:2, 0:3:2] : f32[2, 2]
            exp out %even, in %x
            %odd = view %a[1:2, 1:4:2] : f32[1, 2]
            exp out %odd, in %even
            %last = view %a[1:2, 0:4] : f32[1, 4]
            exp out %y, in %last
            exp out %y, in %a
            dealloc %a
            """,
            "%a is read before it is written: element 1 of %a is not",
        )

    def test_a_predicate_must_be_written_and_its_results_are(self) -> None:
        broken(
            """
            %p = alloc bool[] at 0
            %a = alloc f32[4] at 16
            exp out %a, in %x if %p
            exp out %y, in %a
            dealloc %a
            dealloc %p
            """,
            "%p is read before it is written",
        )

    def test_scratch_is_left_in_disorder(self) -> None:
        broken(
            """
            %a = alloc f32[4] at 0
            exp out %a, in %x
            topk out %y, in %x, scratch %a {k = 4}
            exp out %y, in %a
            dealloc %a
            """,
            "%a is read before it is written",
        )

    def test_narrow_views_are_seen_in_bytes(self) -> None:
        broken(
            """
            %a = alloc f32[2] at 0
            %half = view %a {start = 0, strides = (1,)} : f16[3]
            exp out %half, in %x
            exp out %y, in %a
            dealloc %a
            """,
            "%a is read before it is written: element 1 of %a is not",
        )

    def test_constants_and_inputs_are_not_written(self) -> None:
        broken("exp out @w, in %x", "@w is written, but it is const memory")
        broken("exp out %x, in @w", "%x is written, but it is input memory")
        broken(
            "%v = view %x[0:2] : f32[2]\nexp out %y, in %x, scratch %v",
            "%v is written, but it is input memory",
            "%v is written while %x, which shares memory with it, is used",
        )

    def test_outputs_are_written(self) -> None:
        assert findings("") == ["output %y is not written"]
        part = "%v = view %y[0:3] : f32[3]\nexp out %v, in %x"
        assert findings(part) == ["output %y is not written: element 3 of %y is not"]


class TestTogether:
    def test_a_result_that_overlaps_an_operand(self) -> None:
        broken(
            """
            %v = view @s[0:3] : f32[3]
            %u = view @s[1:4] : f32[3]
            exp out %v, in %u
            """,
            "%v is written while %u, which shares memory with it, is used",
        )

    def test_a_result_in_another_order(self) -> None:
        broken(
            """
            %v = view @s : f32[2, 2]
            %u = view @s {start = 0, strides = (1, 2)} : f32[2, 2]
            exp out %v, in %u
            """,
            "%v is written while %u, which shares memory with it, is used",
        )

    def test_a_wider_result_does_not_take_over_its_operand(self) -> None:
        broken(
            """
            %n = view @s {start = 0, strides = (1,)} : f16[4]
            cast out @s, in %n
            """,
            "@s is written while %n, which shares memory with it, is used",
        )

    def test_two_results_in_one_place(self) -> None:
        broken(
            "split out @s, out @s, in %x",
            "@s is written while @s, which shares memory with it, is used",
        )

    def test_the_members_of_a_stack_run_at_once(self) -> None:
        broken(
            """
            %v = view @s[0:2] : f32[2]
            %u = view @s[1:3] : f32[2]
            stack {
              %t = local f32[2]
              exp out %t, in %v
              exp out %u, in %t
            }
            """,
            "%u is written while %v, which shares memory with it, is used",
        )


class TestStacks:
    def test_locals_are_written_before_they_are_read(self) -> None:
        broken(
            "stack {\n%t = local f32[4]\nexp out %y, in %t\n}", "%t is read before it is written"
        )

    def test_locals_stay_inside(self) -> None:
        broken(
            "stack {\n%t = local f32[4]\nexp out %t, in %x\n}\nexp out %y, in %t",
            "%t is used outside its stack",
        )
        broken("%t = local f32[4]", "%t is local, but not in a stack")

    def test_locals_need_no_memory(self) -> None:
        broken(
            "stack {\n%t = local f32[4] at 0\nexp out %t, in %x\n}",
            "%t is local, but has an address",
        )

    def test_no_stack_in_a_stack(self) -> None:
        broken("stack {\nstack {\n}", "a stack cannot hold a stack")


class TestTransfers:
    START = "%a = alloc f32[4] at 0\nprefetch out %a, in @s\n"
    END = "\nwait %a\ndealloc %a"

    def test_what_is_being_fetched_is_not_there(self) -> None:
        broken(
            self.START + "exp out %y, in %a" + self.END,
            "%a is read before it is written",
            "%a is used while a transfer needs it",
        )

    def test_what_is_being_read_is_not_changed(self) -> None:
        broken(
            self.START + "exp out @s, in %x" + self.END,
            "@s is used while a transfer needs it",
        )

    def test_freed_too_early(self) -> None:
        broken(self.START + "dealloc %a\nwait %a", "%a is freed while a transfer needs it")

    def test_begun_and_waited_for_once(self) -> None:
        broken(
            "%a = alloc f32[4] at 0\nwait %a\ndealloc %a",
            "%a is waited for, but no transfer goes there",
        )
        assert findings("prefetch out %y, in %x") == [
            "nobody waits for the transfer that began in line 7",
            "output %y is not written",
        ]


class TestText:
    @pytest.mark.parametrize(
        "line", ["%a = alloc q7[4] at 0", "exp outside %y", "exp out %y in %x", "hello"]
    )
    def test_lines_that_make_no_sense(self, line: str) -> None:
        assert findings("exp out %y, in %x\n" + line) == [f"this line is not understood: {line}"]

    def test_the_end(self) -> None:
        text = HEAD + "exp out %y, in %x\n"
        assert check_plan(text) == [Finding(7, "the program has no end")]
        assert check_plan(text + "}\n}\n") == [
            Finding(9, "this stands after the end of the program")
        ]


RANGED = """
program @main arena 128 {
  dim h : 4..8 by 4
  dim "odd name" : 1..2
  dim s : 1..4
  input %x : f32[s, h]
  output %y : f32[s, "odd name"*h + 1]
  %a = alloc f32[s, h] at 0
  exp out %a, in %x {shape = (s, 4)}
  %whole = view %y : f32[s*("odd name"*h + 1)]
  fill out %whole {shape = (1,), value = 0.0, dtype = f32}
  %left = view %y[0:s, 0:h] : f32[s, h]
  copy out %left, in %a
  %row = view %a {start = h*(s // 2), strides = (h, 1)} : f32[1, min(5, h)]
  %last = view %y {start = "odd name"*h, strides = ("odd name"*h + 1, 1)} : f32[1, 1]
  relu out %last, in %row
  dealloc %a
}
"""


def test_a_plan_for_ranges_is_checked_with_numbers() -> None:
    assert check_plan(RANGED) == []


def test_what_is_wrong_with_a_plan_only_at_small_extents_is_found() -> None:
    text = RANGED.replace("start = h*(s // 2)", "start = 2*h - h")
    assert check_plan(text) == [
        Finding(
            14, "with h = 4, odd name = 1, s = 1: %row takes bytes 16 to 32 of %a, which has 16"
        )
    ]
    text = RANGED.replace("at 0", "at 64")
    assert [finding.line for finding in check_plan(text)] == [8]
    assert "with h = 8, odd name = 2, s = 4: " in check_plan(text)[0].text


def test_an_expression_that_makes_no_sense_is_not_understood() -> None:
    for bad in ("[s, t]", "[s, h**2]", "[s, h // (s - s)]", "[s, max(h)]", "[s, (h]"):
        findings = check_plan(RANGED.replace("%x : f32[s, h]", f"%x : f32{bad}"))
        assert "this line is not understood" in findings[0].text
