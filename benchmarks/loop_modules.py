"""Decoders and recurrent nets as people write them: loops in scripted PyTorch modules.

`torch.jit.script` keeps loops and branches, and the exporter writes them as ONNX's `Loop` and `If`.
"""

# no `from __future__ import annotations`: the scripting compiler reads types when it runs
import io
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class GruCell(nn.Module):
    """A step of a gated recurrent unit; the exporter has none of its own."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(width, 3 * hidden), nn.Linear(hidden, 3 * hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """The next state."""
        reset, update, new = self.x(x).chunk(3, 1)
        reset_h, update_h, new_h = self.h(h).chunk(3, 1)
        gate = torch.sigmoid(update + update_h)
        candidate = torch.tanh(new + torch.sigmoid(reset + reset_h) * new_h)
        return candidate + gate * (h - candidate)


class LstmDecoder(nn.Module):
    """A cell that writes tokens until all sequences ended, with attention over the inputs.

    Token 1 begins a sequence, here and below, and token 2 ends it.
    """

    def __init__(self, width: int = 64, words: int = 100, steps: int = 30) -> None:
        super().__init__()
        self.steps = steps
        self.embed = nn.Embedding(words, width)
        self.cell = nn.LSTMCell(2 * width, width)
        self.query = nn.Linear(width, width)
        self.out = nn.Linear(2 * width, words)

    def forward(self, memory: Tensor) -> Tensor:
        """The tokens of each sequence."""
        batch = memory.size(0)
        token = torch.full([batch], 1, dtype=torch.long)
        h = memory.mean(1)
        c = torch.zeros_like(h)
        tokens = token.unsqueeze(1)
        done = torch.zeros([batch], dtype=torch.bool)
        step = 0
        while step < self.steps and not bool(done.all()):
            scores = torch.matmul(memory, self.query(h).unsqueeze(2)).squeeze(2)
            context = torch.matmul(torch.softmax(scores, 1).unsqueeze(1), memory).squeeze(1)
            h, c = self.cell(torch.cat([self.embed(token), context], 1), (h, c))
            token = self.out(torch.cat([h, context], 1)).argmax(1)
            tokens = torch.cat([tokens, token.unsqueeze(1)], 1)
            done = torch.logical_or(done, token == 2)
            step += 1
        return tokens


class GruSteps(nn.Module):
    """A cell over time steps whose results are appended to a list and stacked."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.cell = GruCell(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """A result for each time step."""
        h = torch.zeros_like(x[:, 0])
        found: list[Tensor] = []
        for step in range(x.size(1)):
            h = self.cell(x[:, step], h)
            found.append(self.out(h))
        return torch.stack(found, 1)


class BranchingSteps(nn.Module):
    """A recurrent net that updates its state only where the input is large enough."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.cell = GruCell(width, width)
        self.small = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The state after all time steps."""
        h = torch.zeros_like(x[:, 0])
        for step in range(x.size(1)):
            part = x[:, step]
            h = self.cell(part, h) if bool(part.mean() > 0) else torch.tanh(self.small(h))
        return h


class Attention(nn.Module):
    """Attention with several heads, as exporters see it: no fused op."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v, self.o = nn.Linear(width, width), nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """[batch, rows, width] as [batch, heads, rows, width / heads]."""
        return x.reshape(x.size(0), -1, self.heads, self.width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values."""
        return self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """The values that queries find."""
        scores = torch.matmul(q, k.transpose(2, 3)) * ((self.width // self.heads) ** -0.5)
        found = torch.matmul(torch.softmax(scores + mask, -1), v)
        return self.o(found.transpose(1, 2).reshape(q.size(0), -1, self.width))


class Layer(nn.Module):
    """A layer of a decoder without an encoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def fed(self, x: Tensor) -> Tensor:
        """What comes behind attention."""
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """All positions at once."""
        q, k, v = self.attention(self.first(x))
        return self.fed(x + self.attention.attend(q, k, v, mask))

    def step(self, x: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next position, with the keys and values of those before."""
        q, key, value = self.attention(self.first(x))
        k, v = torch.cat([k, key], 2), torch.cat([v, value], 2)
        return self.fed(x + self.attention.attend(q, k, v, torch.zeros([1, 1]))), k, v


class Recomputing(nn.Module):
    """A transformer that computes all positions anew for each token, under a causal mask."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, words: int = 100) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(256, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.out = nn.Linear(width, words)

    def forward(self, tokens: Tensor, steps: Tensor) -> Tensor:
        """The given tokens and so many that follow."""
        for _ in range(int(steps)):
            length = tokens.size(1)
            x = self.embed(tokens) + self.place(torch.arange(length))
            mask = torch.full([length, length], float("-inf")).triu(1)
            for layer in self.layers:
                x = layer(x, mask)
            token = self.out(x[:, -1]).argmax(1)
            tokens = torch.cat([tokens, token.unsqueeze(1)], 1)
        return tokens


class Cached(nn.Module):
    """A transformer of two layers that keeps keys and values, until it wrote the last token."""

    def __init__(self, width: int = 64, heads: int = 4, words: int = 100, steps: int = 40) -> None:
        super().__init__()
        self.steps = steps
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(256, width)
        self.one, self.two = Layer(width, heads), Layer(width, heads)
        self.out = nn.Linear(width, words)

    def forward(self, token: Tensor) -> Tensor:
        """The given token of each sequence and those that follow."""
        tokens = token
        k1 = self.one.attention.split(self.embed(token)[:, :0])
        v1, k2, v2 = k1, k1, k1
        step = 0
        going = True
        while going and step < self.steps:
            x = self.embed(token) + self.place(torch.full([1], step, dtype=torch.long))
            x, k1, v1 = self.one.step(x, k1, v1)
            x, k2, v2 = self.two.step(x, k2, v2)
            token = self.out(x[:, -1]).argmax(1).unsqueeze(1)
            tokens = torch.cat([tokens, token], 1)
            going = not bool((token == 2).all())
            step += 1
        return tokens


class Sampled(nn.Module):
    """A cell that picks one of the likeliest tokens by given random numbers."""

    def __init__(self, width: int = 64, words: int = 100) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(words, width), GruCell(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, h: Tensor, noise: Tensor) -> Tensor:
        """As many tokens as there are random numbers."""
        token = torch.full([h.size(0)], 1, dtype=torch.long)
        tokens: list[Tensor] = []
        for step in range(noise.size(0)):
            h = self.cell(self.embed(token), h)
            best, where = torch.topk(self.out(h), 10, 1)
            total = torch.cumsum(torch.softmax(best, 1), 1)
            pick = (total < noise[step]).long().sum(1, keepdim=True).clamp(0, 9)
            token = where.gather(1, pick).squeeze(1)
            tokens.append(token)
        return torch.stack(tokens, 1)


class Converging(nn.Module):
    """A fixed point: a layer again and again until it changes little."""

    def __init__(self, width: int = 64, steps: int = 200) -> None:
        super().__init__()
        self.steps = steps
        self.step = nn.Linear(width, width)
        with torch.no_grad():
            self.step.weight.mul_(0.4)

    def forward(self, x: Tensor) -> Tensor:
        """Where it comes to rest."""
        z = torch.zeros_like(x)
        change = 1.0
        count = 0
        while change > 1e-4 and count < self.steps:
            after = torch.tanh(self.step(z) + x)
            change = float((after - z).abs().max())
            z = after
            count += 1
        return z


class Transducer(nn.Module):
    """Greedy decoding of a transducer: frames in an outer loop, symbols in an inner one."""

    def __init__(self, width: int = 48, words: int = 30) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(words, width), GruCell(width, width)
        self.join, self.out = nn.Linear(2 * width, width), nn.Linear(width, words)

    def forward(self, frames: Tensor) -> Tensor:
        """The symbols, without blanks."""
        found: list[Tensor] = []
        h = torch.zeros([1, 48])
        h = self.cell(self.embed(torch.full([1], 1, dtype=torch.long)), h)
        for number in range(frames.size(0)):
            frame = frames[number].unsqueeze(0)
            more = True
            count = 0
            while more and count < 3:
                joined = torch.tanh(self.join(torch.cat([frame, h], 1)))
                symbol = self.out(joined).argmax(1)
                more = int(symbol) != 0
                if more:
                    found.append(symbol)
                    h = self.cell(self.embed(symbol), h)
                count += 1
        if len(found) == 0:
            return torch.zeros([1], dtype=torch.long)
        return torch.cat(found, 0)


class Reversed(nn.Module):
    """Two directions: lists that are filled forward and backward, joined at the end."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.forth, self.back = nn.LSTMCell(width, width), nn.LSTMCell(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Both states of each time step."""
        zero = torch.zeros_like(x[0])
        h, c = zero, zero
        one: list[Tensor] = []
        for step in range(x.size(0)):
            h, c = self.forth(x[step], (h, c))
            one.append(h)
        h, c = zero, zero
        other: list[Tensor] = []
        for step in range(x.size(0)):
            h, c = self.back(x[x.size(0) - 1 - step], (h, c))
            other.insert(0, h)
        return torch.cat([torch.stack(one), torch.stack(other)], 2)


def exported(
    make: Callable[[], nn.Module],
    inputs: Sequence[Tensor],
    dynamic: dict[str, dict[int, str]] | None = None,
) -> bytes:
    """A scripted module as an ONNX file, with weights that are always the same."""
    torch.manual_seed(0)
    module = make().eval()
    file = io.BytesIO()
    torch.onnx.export(
        torch.jit.script(module),
        tuple(inputs),
        file,
        dynamo=False,
        opset_version=17,
        input_names=[f"input{number}" for number in range(len(inputs))],
        output_names=["output"],
        dynamic_axes=dynamic,
    )
    return file.getvalue()
