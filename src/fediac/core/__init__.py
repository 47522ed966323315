"""Arrays in, arrays out, on NumPy and PyTorch alike: the readable truth."""
