"""Tokenizers: texts to tokens and back."""
