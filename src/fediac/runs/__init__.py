"""One training run, from its settings to what is stored of it."""
