"""Tests of index notation."""
