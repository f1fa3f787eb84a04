"""Object files to link, from LLVM's text: each shows something that a linker must get right."""

from __future__ import annotations

import ctypes

from afterglow.backends.cpu import Target, compile_module
from tests.backends.cpu.running import HOST

AARCH64 = Target.of("aarch64")
NUMBER = ctypes.c_int64


def build(text: str, target: Target = HOST) -> bytes:
    return compile_module(f'target triple = "{target.triple}"\n{text}', target)


def constant(name: str, number: int) -> str:
    """A function that returns a number from a table, through a local function `inner`."""
    return f"""
        @table = internal constant [4 x i64] [i64 0, i64 1, i64 {number}, i64 3], align 64
        define internal i64 @inner(i64 %i) noinline nounwind {{
          %p = getelementptr i64, ptr @table, i64 %i
          %v = load i64, ptr %p
          ret i64 %v
        }}
        define i64 @{name}() nounwind {{
          %v = call i64 @inner(i64 2)
          ret i64 %v
        }}
    """


CALLER = """
    declare i64 @first()
    declare i64 @second()
    define i64 @both() nounwind {
      %a = call i64 @first()
      %b = call i64 @second()
      %s = mul i64 %a, 1000
      %r = add i64 %s, %b
      ret i64 %r
    }
"""

COUNTER = """
    @step = internal global i64 3
    @total = internal global [64 x i64] zeroinitializer, align 64
    @limit = global i64 100
    define i64 @count() nounwind {
      %a = load i64, ptr @total
      %s = load i64, ptr @step
      %b = add i64 %a, %s
      store i64 %b, ptr @total
      %l = load i64, ptr @limit
      %c = icmp sgt i64 %b, %l
      %r = select i1 %c, i64 %l, i64 %b
      ret i64 %r
    }
"""

TABLE_OF_FUNCTIONS = """
    @choices = internal constant [3 x ptr] [ptr @one, ptr @outside, ptr @choose]
    declare i64 @outside()
    define hidden i64 @one() nounwind { ret i64 1 }
    define i64 @choose(i64 %i) nounwind {
      %p = getelementptr ptr, ptr @choices, i64 %i
      %f = load ptr, ptr %p
      %r = call i64 %f()
      ret i64 %r
    }
"""

SWITCH = """
    define i64 @switch(i64 %x) nounwind {
      switch i64 %x, label %other [
        i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %e ]
    a: %va = call i64 @f(i64 7) ret i64 %va
    b: ret i64 11
    c: %vc = call i64 @f(i64 13) ret i64 %vc
    d: ret i64 17
    e: %ve = call i64 @f(i64 19) ret i64 %ve
    other: ret i64 -1
    }
    define internal i64 @f(i64 %x) noinline nounwind { ret i64 %x }
"""

IMPORTER = """
    declare i64 @outside()
    define i64 @call() nounwind {
      %a = call i64 @outside()
      %r = add i64 %a, 1
      ret i64 %r
    }
    define ptr @address() nounwind { ret ptr @outside }
    declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
    define void @copy(ptr %to, ptr %from, i64 %n) nounwind {
      call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
      ret void
    }
"""
