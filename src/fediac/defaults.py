"""Defaults that more than one layer uses."""

COMPUTE_S = 0.1
"""Simulated seconds that a client trains in a round: FEMNIST's model (Sec. V-A2)."""

REGISTER_BYTES = 1 << 20
"""Bytes of a switch's registers."""

RESNET18_DIM = 11_173_962
"""Entries of the paper's model for CIFAR-10."""

RESNET18_S = 2.0
"""Simulated seconds that a client trains it in a round (Sec. V-A2)."""
