"""Models of the protocol, searched by SPIN; ``python -m models`` runs them all."""
