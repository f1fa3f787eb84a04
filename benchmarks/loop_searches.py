"""Searches over sequences as people write them: beams, transducers, collapsed frames.

What they find grows in some iterations only, or until a condition says that it is enough.
"""

# no `from __future__ import annotations`: the scripting compiler reads types when it runs
import torch
from torch import Tensor, nn

from benchmarks.loop_modules import GruCell


class Beams(nn.Module):
    """The likeliest sequences of tokens, which are reordered in each step."""

    def __init__(self, width: int = 64, words: int = 100, beams: int = 4, steps: int = 25) -> None:
        super().__init__()
        self.beams, self.steps, self.words = beams, steps, words
        self.embed, self.cell = nn.Embedding(words, width), GruCell(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The sequences, and how likely they are."""
        h = h.expand(self.beams, -1)
        tokens = torch.full([self.beams, 1], 1, dtype=torch.long)
        scores = torch.zeros([self.beams])
        step = 0
        going = True
        while going and step < self.steps:
            h = self.cell(self.embed(tokens[:, -1]), h)
            likely = torch.log_softmax(self.out(h), 1) + scores.unsqueeze(1)
            scores, where = torch.topk(likely.reshape(-1), self.beams)
            beam = torch.div(where, self.words, rounding_mode="floor")
            token = where - beam * self.words
            tokens = torch.cat([tokens[beam], token.unsqueeze(1)], 1)
            h = h[beam]
            going = bool((token[0] != 2).all())
            step += 1
        return tokens, scores


class Collapsed(nn.Module):
    """The best symbol of each frame, without blanks and repetitions."""

    def forward(self, logits: Tensor) -> Tensor:
        """The symbols."""
        best = logits.argmax(1)
        found = best[:0]
        before = torch.zeros([1], dtype=torch.long)
        for number in range(best.size(0)):
            symbol = best[number : number + 1]
            if bool((symbol != before).all()) and bool((symbol != 0).all()):
                found = torch.cat([found, symbol])
            before = symbol
        return found


class FrameByFrame(nn.Module):
    """A transducer with one loop: a symbol is appended, or the next frame is read."""

    def __init__(self, width: int = 48, words: int = 8) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(words, width), nn.LSTMCell(width, width)
        self.join, self.out = nn.Linear(2 * width, width), nn.Linear(width, words)

    def forward(self, frames: Tensor) -> Tensor:
        """The symbols, 200 of them at most."""
        h, c = torch.zeros([1, 48]), torch.zeros([1, 48])
        last = torch.zeros([1], dtype=torch.long)
        found = frames[:0, 0].long()
        number = 0
        while number < frames.size(0):
            h_next, c_next = self.cell(self.embed(last), (h, c))
            frame = frames[number : number + 1]
            symbol = self.out(torch.tanh(self.join(torch.cat([frame, h_next], 1)))).argmax(1)
            if int(symbol) > 1:
                h, c, last = h_next, c_next, symbol
                found = torch.cat([found, symbol])
            else:
                number += 1
            if found.size(0) > 200:
                number = frames.size(0)
        return found


class Batched(nn.Module):
    """Tokens of some sequences until all have ended, or as many as an input says."""

    def __init__(self, width: int = 64, words: int = 60) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(words, width), nn.LSTMCell(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, h: Tensor, most: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens, how likely each is, and the length of each sequence."""
        batch = h.size(0)
        c = torch.zeros_like(h)
        token = torch.full([batch], 1, dtype=torch.long)
        tokens, scores = token.unsqueeze(1), torch.zeros([batch, 0])
        lengths = torch.zeros([batch], dtype=torch.long)
        done = torch.zeros([batch], dtype=torch.bool)
        step = 0
        while step < int(most):
            h, c = self.cell(self.embed(token), (h, c))
            score, token = torch.log_softmax(self.out(h), 1).max(1)
            token = torch.where(done, torch.zeros_like(token), token)
            tokens = torch.cat([tokens, token.unsqueeze(1)], 1)
            scores = torch.cat([scores, score.unsqueeze(1)], 1)
            lengths = lengths + (~done).long()
            done = done | (token == 2)
            step += 1
            if bool(done.all()):
                step = int(most)
        return tokens, scores, lengths


class Unbounded(nn.Module):
    """Tokens until their total is large: nothing bounds how many there are."""

    def __init__(self, width: int = 64, words: int = 40) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(words, width), GruCell(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, h: Tensor) -> Tensor:
        """The tokens."""
        token = torch.full([1], 1, dtype=torch.long)
        tokens, total = token, torch.zeros([1])
        while bool(total < 30.0):
            h = self.cell(self.embed(token), h)
            token = self.out(h).argmax(1)
            total = total + 1.0 + h.mean()
            tokens = torch.cat([tokens, token])
        return tokens
