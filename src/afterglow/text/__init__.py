"""Text generation with language models: see docs/text.md."""

from afterglow.text.decoder import Decoder
from afterglow.text.generation import Generation, Piece, TokenLogprob
from afterglow.text.generator import Generator
from afterglow.text.tokens import Tokenizer

__all__ = ["Decoder", "Generation", "Generator", "Piece", "TokenLogprob", "Tokenizer"]
