"""What training is told: losses, optimizers, schedules of their rate, and clipping of gradients."""

from afterglow.optim import losses, optimizers, schedules
from afterglow.optim.clip import clip_by_global_norm, clip_by_value
from afterglow.optim.losses import CTC, L1, MSE, BinaryCrossEntropy, CrossEntropy, Huber, Loss
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
from afterglow.optim.schedules import (
    Constant,
    Cosine,
    Exponential,
    LinearWarmup,
    OneCycle,
    Piecewise,
    Polynomial,
    Schedule,
    StepDecay,
)

__all__ = [
    "CTC",
    "L1",
    "MSE",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "BinaryCrossEntropy",
    "Constant",
    "Cosine",
    "CrossEntropy",
    "Exponential",
    "Huber",
    "LearningRate",
    "LinearWarmup",
    "Lion",
    "Loss",
    "OneCycle",
    "Optimizer",
    "Piecewise",
    "Polynomial",
    "RMSProp",
    "Schedule",
    "StepDecay",
    "clip_by_global_norm",
    "clip_by_value",
    "losses",
    "optimizers",
    "rate_at",
    "schedules",
]
