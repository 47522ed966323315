"""The Python door, and what the commands do around runs."""
