"""Ember: a simulated accelerator. ISA.md says what it is; nothing here knows Afterglow."""
