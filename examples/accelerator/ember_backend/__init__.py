"""A backend of Afterglow for the chip Ember: see README.md."""
