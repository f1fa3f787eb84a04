"""Layers to build networks of: PyTorch's names, shapes and defaults.

A network becomes a module of the graph IR, whose constants are its weights.
"""

from afterglow.nn import init
from afterglow.nn.attention import MultiHeadAttention, TransformerBlock
from afterglow.nn.basic import (
    GELU,
    Dropout,
    Embedding,
    Flatten,
    LeakyReLU,
    Linear,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from afterglow.nn.containers import Residual, Sequential
from afterglow.nn.convolution import (
    AvgPool2d,
    Conv1d,
    Conv2d,
    ConvTranspose2d,
    GlobalAvgPool,
    MaxPool2d,
)
from afterglow.nn.layer import Input, Layer, module
from afterglow.nn.normalization import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from afterglow.nn.recurrent import GRU, LSTM
from afterglow.nn.scope import LayerError, Scope

__all__ = [
    "GELU",
    "GRU",
    "LSTM",
    "AvgPool2d",
    "BatchNorm",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAvgPool",
    "GroupNorm",
    "Input",
    "Layer",
    "LayerError",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "MultiHeadAttention",
    "RMSNorm",
    "ReLU",
    "Residual",
    "Scope",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "TransformerBlock",
    "init",
    "module",
]
