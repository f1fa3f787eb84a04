"""The networks of `networks.py` in PyTorch, with the same weights; writes `pytorch.json`.

Run it where PyTorch is installed: `python -m tests.training.pytorch`. No test imports it.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import torch
from torch import Tensor, nn

from tests.training.networks import NETWORKS, REFERENCE, STEPS, Network

torch.set_num_threads(1)


class CausalBlock(nn.TransformerEncoderLayer):
    """A block in which no token sees a later one."""

    def forward(self, x: Tensor) -> Tensor:
        """With a causal mask."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return super().forward(x, src_mask=mask, is_causal=True)


class LastState(nn.LSTM):
    """The state of the last step alone."""

    def forward(self, x: Tensor) -> Tensor:
        """Without outputs and cells."""
        return super().forward(x)[1][0][-1]


LAYERS = {
    "mlp": lambda: (nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 5)),
    "cnn": lambda: (
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 5),
    ),
    "transformer": lambda: (
        nn.Embedding(11, 16),
        CausalBlock(16, 4, 32, 0.0, "gelu", norm_first=True, batch_first=True),
        nn.LayerNorm(16),
        nn.Linear(16, 11),
        nn.Flatten(0, 1),
    ),
    "lstm": lambda: (LastState(6, 12, batch_first=True), nn.Linear(12, 5)),
}


def learn(name: str, network: Network) -> dict[str, object]:
    """The outputs for the first batch in evaluation mode, and the losses of all steps."""
    net = nn.Sequential(*LAYERS[name]())
    weights = {key: torch.tensor(c.data) for key, c in network.module().constants.items()}
    state = net.state_dict()
    net.load_state_dict({key: weights.get(key, value) for key, value in state.items()})
    assert {key for key in state if not key.endswith("num_batches_tracked")} <= weights.keys()
    optimizer = getattr(torch.optim, type(network.optimizer).__name__)(
        net.parameters(), **asdict(network.optimizer)
    )
    net.eval()
    with torch.no_grad():
        outputs = net(torch.tensor(network.batch(0)[0]))
    net.train()
    losses = []
    for step in range(STEPS):
        x, labels = map(torch.tensor, network.batch(step))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 9))
    statistics = {
        key: [round(v, 7) for v in value.tolist()]
        for key, value in net.state_dict().items()
        if "running" in key
    }
    shown = [[round(v, 7) for v in row] for row in outputs.tolist()]
    return {"outputs": shown, "losses": losses, "statistics": statistics}


if __name__ == "__main__":
    found = {name: learn(name, network) for name, network in NETWORKS.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in found.items()]
    REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
