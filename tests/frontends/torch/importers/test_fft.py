"""Fourier transforms of PyTorch, and what is done with complex numbers around them."""

import pytest

torch = pytest.importorskip("torch")

import afterglow as ag  # noqa: E402
from tests.frontends.torch.agreement import assert_agree, exported, randn  # noqa: E402

fft = torch.fft


def test_transforms_of_real_numbers_and_back():
    def transform(x, weight, wave):
        half = fft.rfft2(x, norm="ortho")
        mixed = half * torch.view_as_complex(weight)
        frames = torch.stft(wave, 8, 4, window=wave[:8], return_complex=True)
        return (
            torch.view_as_real(half),
            fft.irfft2(mixed, s=(4, 6), norm="ortho"),
            fft.fft(x, dim=1).real,
            fft.fftn(x, dim=(0, 2)).imag,
            fft.ifft(torch.complex(x, 2 * x), norm="forward").abs(),
            fft.irfft(fft.rfft(x, n=7), n=7),
            fft.ifft(fft.fft(x), n=9).real,
            fft.rfft(x)[..., 1:3].imag,
            frames.abs(),
            torch.view_as_real(frames * 2),
            torch.view_as_real(torch.complex(x, x[0, 0])),
        )

    assert_agree(transform, randn(2, 4, 6), randn(4, 4, 2), randn(20))


@pytest.mark.slow  # an export takes most of a second
def test_what_has_no_meaning_for_complex_numbers_is_refused():
    program = exported(lambda x: (torch.view_as_real(fft.fft(x).exp()), fft.fft(x)), randn(4))
    with pytest.raises(ag.AfterglowError) as error:
        ag.compile(program)
    assert "complex numbers are not supported by this op" in str(error.value)
    assert "output 'output.1' is complex, which is not supported" in str(error.value)


class Angles(torch.nn.Module):
    """Unit numbers for each position, as rotary embeddings have them."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.1]))
        self.register_buffer("turns", torch.polar(torch.ones(8, 2), angles))


def test_complex_weights_turn_pairs_of_numbers():
    def turned(angles, x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        turns = angles.turns[: x.shape[1]].view(1, x.shape[1], 1, 2)
        return torch.view_as_real(pairs * turns).flatten(3)

    assert_agree(turned, randn(2, 5, 3, 4), modules=(Angles(),))


def test_complex_inputs_are_refused():
    program = exported(lambda x: (x * x).real, torch.complex(randn(3), randn(3)))
    with pytest.raises(ag.UnsupportedError, match="input 'inputs_0' is complex, which is not"):
        ag.compile(program)
