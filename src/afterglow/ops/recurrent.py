"""Recurrent layers: LSTM, GRU, plain RNN."""
