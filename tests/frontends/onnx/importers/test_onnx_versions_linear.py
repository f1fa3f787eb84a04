"""Matrix products where versions of ONNX differ."""

from __future__ import annotations

import numpy as np

from afterglow.testing.cases.case import f16, f32, f64, i8, i32, i64, u8
from tests.frontends.onnx.one_node import Form, check, each_form, form, giving, scalar

A, B = f32(2, 3), f32(3, 4)


@each_form(
    giving(lambda a, b, c: a @ b + c, form("Gemm", (1, 6), A, B, f32(2, 4))),
    giving(lambda a, b, c: a @ b + c, form("Gemm", 6, A, B, f32(4), broadcast=1)),
    giving(lambda a, b, c: a @ b + c, form("Gemm", 6, A, B, f32(1), broadcast=1)),
    form("Gemm", (7, 9, 11, 13), A, B, f32(2, 4)),
    form("Gemm", (7, 11), A, B, f32(4)),
    form("Gemm", 9, A, B, f32(2, 1)),
    form("Gemm", 11, A, B, f32()),
    form("Gemm", (11, 13), A, B),
    form("Gemm", 13, f32(3, 2), f32(4, 3), f32(4), transA=1, transB=1, alpha=0.5, beta=2.0),
    form("Gemm", 13, A, f32(4, 3), f32(1, 4), transB=1),
    form("Gemm", 13, A, B, f32(4), beta=0.0),
    form("Gemm", 13, A, B, f32(4), alpha=0.0),
    form("Gemm", 13, f64(2, 3), f64(3, 4), f64(4)),
    form("Gemm", 13, f16(2, 3), f16(3, 4), f16(4)),
    giving(
        lambda a, b, c: 2 * (a @ b) + 3 * c,
        form("Gemm", (9, 13), i32(2, 3), i32(3, 4), i32(4), alpha=2.0, beta=3.0),
    ),
    form("Gemm", 13, f32(0, 3), B, f32(4)),
    form("Gemm", 13, f32(2, 0), f32(0, 4), f32(4)),
)
def test_gemm(form: Form) -> None:
    check(form)


@each_form(
    form("MatMul", (1, 9, 13), A, B),
    form("MatMul", 13, f32(3), f32(3)),
    form("MatMul", 13, f32(3), B),
    form("MatMul", 13, A, f32(3)),
    form("MatMul", 13, f32(5, 1, 2, 3), f32(4, 3, 2)),
    form("MatMul", 13, f32(4, 3), f32(2, 3, 5)),
    form("MatMul", 13, f32(3), f32(2, 3, 4)),
    form("MatMul", 9, i64(2, 3), i64(3, 4)),
    form("MatMul", 13, f32(2, 0), f32(0, 3)),
)
def test_vectors_and_batches(form: Form) -> None:
    check(form)


@each_form(
    form("MatMulInteger", 10, u8(2, 3), u8(3, 4), high=255),
    form("MatMulInteger", 10, u8(2, 3), i8(3, 4), scalar(12, np.uint8), low=-128, high=127),
    form(
        *("MatMulInteger", 10, u8(2, 3), u8(3, 4)),
        *(scalar(12, np.uint8), np.array([1, 2, 3, 4], np.uint8)),
        high=255,
    ),
)
def test_products_of_integers(form: Form) -> None:
    check(form)


@each_form(
    form("Einsum", 12, A, B, equation="ij,jk->ik"),
    form("Einsum", 12, A, B, equation="ij,jk"),
    form("Einsum", 12, f32(3, 3), equation="ii->i"),
    form("Einsum", 12, f32(3, 3), equation="ii"),
    form("Einsum", 12, f32(2, 3, 4), equation="b i j -> b j i"),
    form("Einsum", 12, f32(5, 2, 3), f32(5, 3, 4), equation="...ij,...jk->...ik"),
    form("Einsum", 12, f32(2, 3), f32(3), equation="...j,j"),
    form("Einsum", 12, f32(2), f32(3), equation="i,j->ij"),
    form("Einsum", 12, f32(2, 3, 4), equation="ijk->j"),
    form("Einsum", 12, f32(2, 3), f32(3, 4), f32(4, 5), equation="ij,jk,kl->il"),
    form("Einsum", 12, f32(2, 3, 4, 5), f32(2, 3, 6, 5), equation="bhid,bhjd->bhij"),
    form("Einsum", 12, i64(2, 3), i64(3), equation="ij,j->i"),
    form("Einsum", 12, f32(2, 3), f32(2, 3), equation="ij,ij->"),
    form("Einsum", 28, A, B, equation="ij,jk->ki"),
)
def test_einsum(form: Form) -> None:
    check(form)


@each_form(
    form("Det", (11, 22), f32(3, 3)),
    form("Det", 11, f32(2, 4, 3, 3)),
    form("Det", 11, f64(2, 1, 1)),
    form("Det", 11, np.array([[0, 1], [1, 0]], np.float32)),
    form("Det", 11, np.array([[1, 2], [2, 4]], np.float32)),
)
def test_determinants(form: Form) -> None:
    check(form)
