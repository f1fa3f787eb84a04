"""Optimizers: how weights follow their gradients."""

from afterglow.optim.optimizers import (
    SGD,
    Adagrad,
    Adam,
    AdamW,
    LearningRate,
    Lion,
    Optimizer,
    RMSProp,
    rate_at,
)

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "LearningRate",
    "Lion",
    "Optimizer",
    "RMSProp",
    "rate_at",
]
