"""The Python interface, and what the commands do around runs."""
