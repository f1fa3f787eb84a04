"""A front end of Afterglow for sketches: networks as a few lines of text."""
