"""Cases of afterglow.ops.recurrent."""

from __future__ import annotations

import numpy as np

from afterglow.ops.lstm_gradient import LSTMGradient
from afterglow.ops.quantized_lstm import QuantizedLSTM
from afterglow.ops.recurrent import GRU, LSTM, RNN, Activation, LSTMKeepingGates
from afterglow.testing.cases.case import bf16, case, f16, f32, f64, i8, i32

_LENGTHS = {4: np.array([3, 1], np.int32)}
_SCALES = np.linspace(0.002, 0.006, 16, dtype=np.float32)

CASES = [
    case(RNN(), f32(3, 2, 5), f32(4, 5), f32(4, 4)),
    case(RNN(), f32(3, 2, 5), f32(4, 5), f32(4, 4), f32(4), i32(2), f32(2, 4), given=_LENGTHS),
    *(
        case(RNN((activation,), (0.3,), (0.6,), clip=1.0), f32(3, 2, 5), f32(4, 5), f32(4, 4))
        for activation in Activation
    ),
    case(RNN(reverse=True), f64(0, 2, 5), f64(4, 5), f64(4, 4)),
    case(GRU(), f32(3, 2, 5), f32(12, 5), f32(12, 4)),
    case(GRU(), f32(3, 2, 5), f32(12, 5), f32(12, 4), f32(12), f32(4), None, f32(2, 4)),
    case(
        GRU(reverse=True, linear_before_reset=True),
        *(f32(3, 2, 5), f32(12, 5), f32(12, 4), f32(12), f32(4), i32(2)),
        given={5: np.array([3, 1], np.int32)},
    ),
    case(GRU(), f16(3, 1, 5), f16(6, 5), f16(6, 2)),
    case(LSTM(), f32(3, 2, 5), f32(16, 5), f32(16, 4)),
    case(
        LSTM(reverse=True, input_forget=True, clip=0.8),
        *(f32(3, 2, 5), f32(16, 5), f32(16, 4), f32(16), i32(2), f32(2, 4), f32(2, 4), f32(12)),
        given=_LENGTHS,
    ),
    case(
        LSTM(),
        *(f32(3, 2, 5), f32(16, 5), f32(16, 4), f32(16), None, f32(2, 4), f32(2, 4), f32(12)),
    ),
    case(LSTM(), f32(3, 2, 5), f16(16, 5), bf16(16, 4), f32(16)),
    case(LSTM(), f32(2, 0, 3), f32(8, 3), f32(8, 2)),
    case(LSTMKeepingGates(), f32(3, 2, 5), f32(16, 5), f32(16, 4)),
    case(
        LSTMKeepingGates(reverse=True),
        *(f32(3, 2, 5), f32(16, 5), f32(16, 4), f32(16), None, f32(2, 4), f32(2, 4)),
    ),
    case(QuantizedLSTM(), f32(3, 2, 16), i8(16, 4), f32(16), given={2: _SCALES}),
    case(
        QuantizedLSTM(reverse=True, clip=0.8, recurrence_zero_point=-5),
        *(f32(3, 2, 16), i8(16, 4), f32(16), i32(2), f32(2, 4), f32(2, 4)),
        given={2: _SCALES, 3: np.array([3, 1], np.int32)},
    ),
    case(LSTMGradient(), f32(3, 2, 4), f32(3, 2, 16), f32(3, 2, 4), f32(16, 4)),
    case(
        LSTMGradient(reverse=True),
        *(f32(2, 9, 3), f32(2, 9, 12), f32(2, 9, 3), f32(12, 3), f32(9, 3), f32(9, 3)),
    ),
]
