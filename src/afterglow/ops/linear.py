"""Matrix products and convolutions, channels last."""
