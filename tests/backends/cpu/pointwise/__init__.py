"""Tests of the element-wise expressions."""
