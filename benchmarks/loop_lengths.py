"""Loops in which data tell how long values are: windows, queues, parts, what is left of a list."""

# no `from __future__ import annotations`: the scripting compiler reads types when it runs
import torch
from torch import Tensor, nn


class Sliding(nn.Module):
    """Attention over keys and values that grow until a window is full, and then move on."""

    def __init__(self, width: int = 32, window: int = 8) -> None:
        super().__init__()
        self.window = window
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """What each step finds in the window before it."""
        keys, values = x[:, :0], x[:, :0]
        found: list[Tensor] = []
        for step in range(x.size(1)):
            row = x[:, step : step + 1]
            keys, values = (
                torch.cat([keys, self.k(row)], 1),
                torch.cat([values, self.v(row)], 1),
            )
            if keys.size(1) > self.window:
                keys, values = keys[:, 1:], values[:, 1:]
            scores = torch.matmul(self.q(row), keys.transpose(1, 2))
            found.append(torch.matmul(torch.softmax(scores, -1), values))
        return torch.cat(found, 1)


class Suppressed(nn.Module):
    """Non-maximum suppression, as people write it: take the best box, drop those that overlap."""

    def forward(self, boxes: Tensor, scores: Tensor) -> Tensor:
        """The numbers of the boxes that are left."""
        order = torch.argsort(scores, descending=True)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        kept: list[Tensor] = []
        while order.numel() > 0:
            best, rest = order[0], order[1:]
            kept.append(best)
            low = torch.max(boxes[best, :2], boxes[rest, :2])
            high = torch.min(boxes[best, 2:], boxes[rest, 2:])
            common = (high - low).clamp(min=0).prod(1)
            order = rest[common / (areas[best] + areas[rest] - common) <= 0.3]
        return torch.stack(kept)


class Segments(nn.Module):
    """A mean over the first rows of each sequence, as many as its length says."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """A row for each sequence."""
        found: list[Tensor] = []
        for number in range(lengths.size(0)):
            part = x[number, : int(lengths[number])]
            found.append(torch.tanh(self.linear(part)).mean(0))
        return torch.stack(found)


class Queue(nn.Module):
    """Rows that are appended or taken from the front, as the data say."""

    def forward(self, x: Tensor) -> Tensor:
        """The rows that are left."""
        queue = x[0:1]
        for step in range(1, x.size(0)):
            row = x[step : step + 1]
            if bool(row.sum() > 0):
                queue = torch.cat([queue, row])
            elif queue.size(0) > 1:
                queue = queue[1:]
        return queue


class Merged(nn.Module):
    """Rows that are appended, or merged with the last one: it is replaced in one branch."""

    def forward(self, x: Tensor) -> Tensor:
        """The rows."""
        rows = x[0:1]
        for step in range(1, x.size(0)):
            row = x[step : step + 1]
            if bool(row.sum() > 0):
                rows = torch.cat([rows, row])
            else:
                rows = torch.cat([rows[:-1], torch.tanh(rows[-1:] + row)])
        return rows


class Masked(nn.Module):
    """A state of which a mask chooses the rows that are replaced."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The last state."""
        state = torch.zeros_like(x[0])
        for step in range(x.size(0)):
            new = torch.tanh(self.linear(state) + x[step])
            mask = new.sum(1) > 0
            state[mask] = new[mask]
        return state


class Shortened(nn.Module):
    """Rows of which the least one is left out until their mean is high."""

    def forward(self, x: Tensor) -> Tensor:
        """The rows that are left."""
        while x.size(0) > 1 and bool(x.mean() < 1.0):
            least = int(x.sum(1).argmin())
            x = torch.cat([x[:least], x[least + 1 :]])
        return x


class Active(nn.Module):
    """Rows that are computed anew until they are small; those that are not are fewer each time."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The rows as they were last."""
        active = torch.arange(x.size(0))
        for _ in range(20):
            if active.numel() == 0:
                break
            rows = torch.tanh(self.linear(x[active]) * 1.5)
            x = x.index_put((active,), rows)
            active = active[rows.abs().max(1)[0] > 0.5]
        return x
