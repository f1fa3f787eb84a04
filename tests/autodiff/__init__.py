"""Tests of afterglow.autodiff."""
