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
        )

    assert_agree(transform, randn(2, 4, 6), randn(4, 4, 2), randn(20))


@pytest.mark.slow  # an export takes most of a second
def test_what_has_no_meaning_for_complex_numbers_is_refused():
    program = exported(lambda x: (torch.view_as_real(fft.fft(x).exp()), fft.fft(x)), randn(4))
    with pytest.raises(ag.AfterglowError) as error:
        ag.compile(program)
    assert "complex numbers are not supported by this op" in str(error.value)
    assert "output 'output.1' is complex, which is not supported" in str(error.value)
