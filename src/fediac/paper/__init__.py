"""``fediac paper``: the paper's tables and figures from runs anyone can repeat."""
