"""Without training: theory, tuning, expected traffic, rounds on made-up updates."""
