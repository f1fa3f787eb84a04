"""Tests of afterglow.optim."""
