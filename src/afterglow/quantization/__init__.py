"""Profile-guided quantization: what runs observe, and the integers chosen from it."""
