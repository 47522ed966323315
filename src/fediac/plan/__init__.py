"""Planning without training: theory, tuning, expected traffic, synthetic rounds."""
