"""The report on a model as one page: what it shows, and the page itself."""
