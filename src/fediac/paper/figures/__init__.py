"""The paper's figures, drawn from stored runs: curves, bars, and their numbers."""
