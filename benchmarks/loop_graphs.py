"""Loops as graphs written by hand, in ONNX's text form: what exporters write, in small.

Each text is a model whose weights are inputs with names `w…`; `weighted` makes constants of them.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

HEAD = '<ir_version: 8, opset_import: ["": 17]>'

GROWING_TOKENS = """
    main (int64[1, n] tokens, int64 steps, float[50, 32] w_embed, float[32, 50] w_out)
        => (int64[1, m] all)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] ends = {-1}, int64 last = {2},
         int64[1] big = {9223372036854775807}> {
        true = Constant <value = bool {1}> ()
        all = Loop (steps, true, tokens) <body = body
            (int64 i, bool on, int64[1, before] so_far) => (bool goes_on, int64[1, after] longer) {
            x = Gather (w_embed, so_far)
            mixed = ReduceMean <axes = [1], keepdims = 0> (x)
            h = Tanh (mixed)
            logits = MatMul (h, w_out)
            token = ArgMax <axis = 1, keepdims = 1> (logits)
            longer = Concat <axis = 1> (so_far, token)
            is_last = Equal (token, last)
            not_last = Not (is_last)
            goes_on = Squeeze (not_last)
        }>
    }
"""
"""A greedy decoder with a list of tokens, whose number of steps an input bounds."""

GROWING_CACHE = """
    main (float[1, 64] x, int64 steps, float[64, 64] w_q, float[64, 64] w_k, float[64, 64] w_v)
        => (float[1, 64] y, float[m, 64] keys)
        <int64[2] empty_shape = {0, 64}> {
        true = Constant <value = bool {1}> ()
        empty = ConstantOfShape (empty_shape)
        y, keys, values = Loop (steps, true, x, empty, empty) <body = body
            (int64 i, bool on, float[1, 64] h, float[a, 64] k, float[b, 64] v)
            => (bool goes_on, float[1, 64] next, float[c, 64] k_out, float[d, 64] v_out) {
            goes_on = Identity (on)
            q = MatMul (h, w_q)
            key = MatMul (h, w_k)
            value = MatMul (h, w_v)
            k_out = Concat <axis = 0> (k, key)
            v_out = Concat <axis = 0> (v, value)
            turned = Transpose <perm = [1, 0]> (k_out)
            scores = MatMul (q, turned)
            weights = Softmax <axis = 1> (scores)
            found = MatMul (weights, v_out)
            sum = Add (found, h)
            next = Tanh (sum)
        }>
    }
"""
"""Attention over keys and values that grow by a row; an input says how often."""

WHILE_ONLY = """
    main (float[16] x) => (float[16] y, int64 count) <float limit = {100.0}, int64 zero = {0}> {
        true = Constant <value = bool {1}> ()
        y, count = Loop (, true, x, zero) <body = body
            (int64 i, bool on, float[16] v, int64 c) => (bool goes_on, float[16] v_out, int64 c_out)
            <float grow = {1.05}, int64 one = {1}> {
            v_out = Mul (v, grow)
            c_out = Add (c, one)
            most = ReduceMax <keepdims = 0> (v_out)
            goes_on = Less (most, limit)
        }>
    }
"""
"""A loop that just its condition ends."""

STACKED_UNTIL = """
    main (float[1, 32] x, int64 steps, float[32, 32] w) => (float[m, 1, 32] rows)
        <float limit = {0.05}> {
        true = Constant <value = bool {1}> ()
        last, rows = Loop (steps, true, x) <body = body
            (int64 i, bool on, float[1, 32] v)
            => (bool goes_on, float[1, 32] v_out, float[1, 32] row) {
            p = MatMul (v, w)
            v_out = Tanh (p)
            row = Identity (v_out)
            size = Abs (v_out)
            most = ReduceMax <keepdims = 0> (size)
            goes_on = Greater (most, limit)
        }>
    }
"""
"""Rows that are stacked until a condition ends the loop; an input bounds their number."""

NESTED = """
    main (float[n, 16] x, int64 inner, float[16, 16] w) => (float[1, 16] y) <int64[2] s = {1, 16}> {
        true = Constant <value = bool {1}> ()
        first = ConstantOfShape (s)
        shape = Shape (x)
        zero = Constant <value = int64 {0}> ()
        n = Gather (shape, zero)
        y = Loop (n, true, first) <body = outer
            (int64 i, bool on, float[1, 16] h) => (bool on_out, float[1, 16] h_out) {
            on_out = Identity (on)
            row = Gather <axis = 0> (x, i)
            axes = Constant <value = int64[1] {0}> ()
            part = Unsqueeze (row, axes)
            begun = Add (h, part)
            h_out = Loop (inner, true, begun) <body = inner_body
                (int64 j, bool on2, float[1, 16] v) => (bool on3, float[1, 16] v_out) {
                on3 = Identity (on2)
                p = MatMul (v, w)
                v_out = Tanh (p)
            }>
        }>
    }
"""
"""A loop in a loop; an input bounds the inner one."""

SEQUENCES = """
    main (float[n, 24] x, float[24, 24] w) => (float[m, 24] y) {
        true = Constant <value = bool {1}> ()
        none = SequenceEmpty <dtype = 1> ()
        shape = Shape (x)
        zero = Constant <value = int64 {0}> ()
        n = Gather (shape, zero)
        all = Loop (n, true, none) <body = body
            (int64 i, bool on, seq(float[1, 24]) s) => (bool on_out, seq(float[1, 24]) s_out) {
            on_out = Identity (on)
            row = Gather <axis = 0> (x, i)
            axes = Constant <value = int64[1] {0}> ()
            part = Unsqueeze (row, axes)
            p = MatMul (part, w)
            t = Tanh (p)
            s_out = SequenceInsert (s, t)
        }>
        y = ConcatFromSequence <axis = 0> (all)
    }
"""
"""Rows that a loop inserts into a sequence, joined behind it."""

SEQUENCE_IN_CONDITION = """
    main (float[n, 24] x, float[24, 24] w) => (float[m, 24] y) <float z = {0.0}> {
        true = Constant <value = bool {1}> ()
        none = SequenceEmpty <dtype = 1> ()
        shape = Shape (x)
        zero = Constant <value = int64 {0}> ()
        n = Gather (shape, zero)
        all = Loop (n, true, none) <body = body
            (int64 i, bool on, seq(float[1, 24]) s) => (bool on_out, seq(float[1, 24]) s_out) {
            on_out = Identity (on)
            row = Gather <axis = 0> (x, i)
            axes = Constant <value = int64[1] {0}> ()
            part = Unsqueeze (row, axes)
            p = MatMul (part, w)
            sum = ReduceSum <keepdims = 0> (p)
            kept = Greater (sum, z)
            s_out = If (kept) <then_branch = yes () => (seq(float[1, 24]) longer) {
                longer = SequenceInsert (s, p)
            }, else_branch = no () => (seq(float[1, 24]) same) {
                same = Identity (s)
            }>
        }>
        y = ConcatFromSequence <axis = 0> (all)
    }
"""
"""Rows that a loop keeps only where a condition holds."""

GROWING_IN_CONDITION = """
    main (float[n, 24] x, float[24, 24] w) => (float[m, 24] y)
        <float z = {0.0}, int64[2] s = {0, 24}> {
        true = Constant <value = bool {1}> ()
        none = ConstantOfShape (s)
        shape = Shape (x)
        zero = Constant <value = int64 {0}> ()
        n = Gather (shape, zero)
        y = Loop (n, true, none) <body = body
            (int64 i, bool on, float[a, 24] so_far) => (bool on_out, float[b, 24] longer) {
            on_out = Identity (on)
            row = Gather <axis = 0> (x, i)
            axes = Constant <value = int64[1] {0}> ()
            part = Unsqueeze (row, axes)
            p = MatMul (part, w)
            sum = ReduceSum <keepdims = 0> (p)
            kept = Greater (sum, z)
            longer = If (kept) <then_branch = yes () => (float[c, 24] more) {
                more = Concat <axis = 0> (so_far, p)
            }, else_branch = no () => (float[d, 24] same) {
                same = Identity (so_far)
            }>
        }>
    }
"""
"""The same with a tensor that grows in some iterations only."""

SHRINKING = """
    main (float[n, 8] x) => (float[1, 8] y)
        <int64[1] zero = {0}, int64 first = {0}, int64[1] one = {1}, int64 one_ = {1},
         int64[1] minus = {-1}> {
        true = Constant <value = bool {1}> ()
        shape = Shape (x)
        n = Gather (shape, first)
        trips = Sub (n, one_)
        y = Loop (trips, true, x) <body = body
            (int64 i, bool on, float[a, 8] v) => (bool on_out, float[b, 8] v_out)
            <float half = {0.5}> {
            on_out = Identity (on)
            head = Slice (v, zero, minus, zero)
            big = Constant <value = int64[1] {9223372036854775807}> ()
            tail = Slice (v, one, big, zero)
            sum = Add (head, tail)
            v_out = Mul (sum, half)
        }>
    }
"""
"""A value that becomes shorter by a row each time."""

DOUBLING = """
    main (float[n, 8] x, int64 steps) => (float[m, 8] y) {
        true = Constant <value = bool {1}> ()
        y = Loop (steps, true, x) <body = body
            (int64 i, bool on, float[a, 8] v) => (bool on_out, float[b, 8] v_out) {
            on_out = Identity (on)
            t = Tanh (v)
            v_out = Concat <axis = 0> (v, t)
        }>
    }
"""
"""A value that becomes twice as long each time."""

SCANS = """
    main (float[n, 16] x, float[16, 16] w, float[16, 16] w_r) => (float[n, 16] y, float[16] last)
        <int64[1] s = {16}> {
        zero = ConstantOfShape (s)
        last, count, y = Scan <num_scan_inputs = 2, scan_input_directions = [0, 1],
            scan_output_directions = [1], body = body
            (float[16] h, float[16] c, float[16] a, float[16] b)
            => (float[16] h_out, float[16] c_out, float[16] row) {
            p = MatMul (h, w)
            q = MatMul (c, w_r)
            s1 = Add (p, a)
            s2 = Add (q, b)
            h_out = Tanh (s1)
            c_out = Sigmoid (s2)
            row = Mul (h_out, c_out)
        }> (zero, zero, x, x)
    }
"""
"""Two states over two values that are scanned in different directions."""

LOOP_IN_BRANCH = """
    main (float[1, 16] x, bool which, int64 steps, float[16, 16] w) => (float[m, 16] y) {
        true = Constant <value = bool {1}> ()
        y = If (which) <then_branch = yes () => (float[p, 16] a) {
            a = Loop (steps, true, x) <body = body
                (int64 i, bool on, float[b, 16] v) => (bool on_out, float[c, 16] v_out)
                <int64[1] start = {-1}, int64[1] axes = {0}> {
                on_out = Identity (on)
                big = Constant <value = int64[1] {9223372036854775807}> ()
                row = Slice (v, start, big, axes)
                p = MatMul (row, w)
                t = Tanh (p)
                v_out = Concat <axis = 0> (v, t)
            }>
        }, else_branch = no () => (float[q, 16] d) {
            d = Neg (x)
        }>
    }
"""
"""A growing loop in one branch of an If."""

BRANCH_IN_LOOP = """
    main (float[b, 32] x, int64 steps, float[32, 32] w_a, float[32, 32] w_b) => (float[b, 32] y)
        <float z = {0.0}> {
        true = Constant <value = bool {1}> ()
        y = Loop (steps, true, x) <body = body
            (int64 i, bool on, float[b, 32] h) => (bool on_out, float[b, 32] h_out) {
            on_out = Identity (on)
            sum = ReduceSum <keepdims = 0> (h)
            is_positive = Greater (sum, z)
            h_out = If (is_positive) <then_branch = yes () => (float[b, 32] u) {
                p = MatMul (h, w_a)
                n = Neg (p)
                u = Tanh (n)
            }, else_branch = no () => (float[b, 32] v) {
                q = MatMul (h, w_b)
                v = Sigmoid (q)
            }>
        }>
    }
"""
"""A branch in a loop, both of the same type, for any batch."""


def weighted(text: str, seed: int = 0) -> bytes:
    """A model with constants in the places of inputs whose names begin with w."""
    proto = onnx.parser.parse_model(HEAD + text)
    draw = np.random.default_rng(seed)
    for info in [*proto.graph.input]:
        if info.name.startswith("w") and info.name != "which":
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            data = (draw.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
            proto.graph.initializer.append(numpy_helper.from_array(data, info.name))
            proto.graph.input.remove(info)
    return bytes(proto.SerializeToString())
