"""Folders as the library transformers writes them: config.json, safetensors, a tokenizer."""
