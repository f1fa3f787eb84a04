"""What importers of PyTorch's ops refuse, each with the node and a reason."""

import pytest

torch = pytest.importorskip("torch")

import afterglow as ag  # noqa: E402
from tests.frontends.torch.agreement import exported, randn  # noqa: E402

F = torch.nn.functional


def test_what_only_training_has_is_refused():
    def calls(image, chance, mean):
        return (
            F.fractional_max_pool2d(image, 2, 3, _random_samples=chance),
            F.instance_norm(image, mean, mean, use_input_stats=True),
            F.scaled_dot_product_attention(image, image, image, dropout_p=0.5),
        )

    program = exported(calls, randn(1, 2, 6, 6), randn(1, 2, 2).abs(), randn(2).abs())
    with pytest.raises(ag.AfterglowError) as error:
        ag.compile(program)
    text = str(error.value)
    assert "pooling by random windows is not supported; use adaptive_max_pool2d" in text
    assert "running statistics that change are not supported" in text
    assert "node 'scaled_dot_product_attention'" in text
    assert "dropout of 0.5 in attention is not supported; export the model in inference" in text
