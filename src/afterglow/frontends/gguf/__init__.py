"""GGUF files: language models with their tokenizers, in many formats of blocks."""
