"""Training steps of PyTorch, eager and compiled: the nets of `benchmarks.training_nets`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  its own name


class _Block(nn.Module):
    """Two convolutions and what goes past them."""

    def __init__(self, channels: int, results: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, results, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(results)
        self.conv2 = nn.Conv2d(results, results, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(results)
        self.past: nn.Module = nn.Identity()
        if stride != 1 or channels != results:
            skip = nn.Conv2d(channels, results, 1, stride, bias=False)
            self.past = nn.Sequential(skip, nn.BatchNorm2d(results))

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.past(x), inplace=True)


def _resnet18() -> nn.Module:
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers: list[nn.Module] = [*stem, nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for results, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_Block(channels, results, stride), _Block(results, results, 1)]
        channels = results
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class _TransformerBlock(nn.Module):
    """Causal attention and a feed-forward net, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Both, added to what came."""
        batch, count, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, count, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, count, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class _Transformer(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(1000, 256), nn.Embedding(128, 256)
        self.blocks = nn.Sequential(*(_TransformerBlock(256, 8) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """What the next token may be."""
        y = self.tokens(x) + self.places.weight
        return self.head(self.norm(self.blocks(y))).flatten(0, 1)


class _Lstm(nn.Module):
    """A recurrent classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """The class of what the sequence ends with."""
        return self.head(self.lstm(x)[0][:, -1])


def _mlp() -> nn.Module:
    hidden = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(512, 10))


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": _mlp,
    "resnet18": _resnet18,
    "transformer": _Transformer,
    "lstm": _Lstm,
}


def make_step(net: str, arrays: tuple, rule: str, *, compiled: bool) -> Callable[[], float]:
    """A function that does one step and gives the loss."""
    torch.manual_seed(0)
    model = NETS[net]().train()
    x, y = torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1]).flatten()
    kinds = {
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=1e-3),
    }
    optimizer = kinds[rule]()
    run = torch.compile(model) if compiled else model

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        return float(loss)

    return step
