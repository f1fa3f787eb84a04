"""What training is told: losses, and optimizers, by which weights follow their gradients."""

from afterglow.optim import losses, optimizers
from afterglow.optim.losses import L1, MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss
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
    "L1",
    "MSE",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "Huber",
    "LearningRate",
    "Lion",
    "Loss",
    "Optimizer",
    "RMSProp",
    "losses",
    "optimizers",
    "rate_at",
]
