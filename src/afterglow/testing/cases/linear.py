"""Cases of afterglow.ops.linear and afterglow.ops.einsum."""

from __future__ import annotations

import numpy as np

from afterglow.ops.einsum import Einsum
from afterglow.ops.linear import Det, MatMul
from afterglow.testing.cases.case import bf16, c64, case, f16, f32, f64, i8, i32, i64, u8

_LARGE = np.array([[2**40 + 1, 3], [-5, 2**41]], np.int64)

CASES = [
    case(MatMul(), f32(2, 3), f32(3, 4)),
    case(MatMul(transpose_lhs=True), f32(3, 2), f32(3, 4)),
    case(MatMul(transpose_rhs=True), f64(5, 2, 3), f64(4, 3)),
    case(MatMul(transpose_lhs=True, transpose_rhs=True), f32(3, 2), f32(4, 3)),
    case(MatMul(), f32(5, 1, 2, 3), f32(6, 3, 4)),
    case(MatMul(), f32(1, 0), f32(0, 4)),
    case(MatMul(), f32(0, 3), f32(3, 4)),
    case(MatMul(), f16(2, 3), f16(3, 2)),
    case(MatMul(), bf16(2, 3), bf16(3, 2)),
    case(MatMul(), f32(2, 3), bf16(3, 2)),
    case(MatMul(transpose_rhs=True), f32(5, 1, 3), f16(4, 3)),
    case(MatMul(), c64(2, 3), c64(3, 2)),
    case(MatMul(), i32(4, 7), i32(7, 3), low=-255, high=255),
    case(MatMul(), u8(4, 70), u8(70, 3), low=0, high=255),
    case(MatMul(), i8(4, 70), i8(70, 3), low=-128, high=127),
    case(MatMul(), i64(2, 2), i64(2, 2), given={0: _LARGE, 1: _LARGE.T.copy()}),
    case(Einsum("ij,jk->ik"), f32(2, 3), f32(3, 4)),
    case(Einsum("bij, bkj -> bki"), f32(5, 2, 3), f32(5, 4, 3)),
    case(Einsum("ij"), f32(2, 3)),
    case(Einsum("ji"), f32(2, 3)),
    case(Einsum("ij->"), f32(2, 3)),
    case(Einsum("ij->i"), i32(2, 3)),
    case(Einsum("...ii->...i"), f32(2, 3, 3)),
    case(Einsum("iijii,j->j"), f32(3, 3, 2, 3, 3), f32(2)),
    case(Einsum("ii,i"), f32(1, 1), f32(4)),
    case(Einsum("ii"), f32(0, 0)),
    case(Einsum("i,j->ij"), f32(2), f32(3)),
    case(Einsum(",i->i"), f32(), f32(3)),
    case(Einsum("bhwc,hkc->bhwk"), f32(2, 3, 4, 5), f32(3, 6, 5)),
    case(Einsum("...ij,...jk->...ik"), f32(5, 1, 2, 3), f32(4, 3, 2)),
    case(Einsum("...i,i"), f32(2, 3, 4), f32(4)),
    case(Einsum("ab,bc,cd->ad"), f32(2, 3), f32(3, 4), f32(4, 5)),
    case(Einsum("ab,ac,ad->bcd"), f32(2, 3), f32(2, 4), f32(2, 5)),
    case(Einsum("ab,cd->ab"), f32(2, 3), f32(4, 5)),
    case(Einsum("ab,bc->ac"), f32(2, 0), f32(0, 3)),
    case(Det(), f32(2, 2)),
    case(Det(), f32(0, 1, 1)),
    case(Det(), f64(2, 3, 3)),
    case(Det(), f32(2, 5, 5)),
    case(Det(), f32(0, 0)),
]
