"""What the paper's theory says of real rounds, measured and drawn."""
