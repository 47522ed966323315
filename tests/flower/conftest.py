"""These tests need Flower, whose older typer and rich have an environment of their own.

``make test`` runs them there; elsewhere they are not collected.
"""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("flwr") else ["test_*.py"]
