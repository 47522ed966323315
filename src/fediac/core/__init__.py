"""Arrays in, arrays out, on NumPy and PyTorch: the readable reference."""
