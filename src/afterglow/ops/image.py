"""Resampling of images, channels last."""
