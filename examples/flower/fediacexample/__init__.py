"""fediacexample: federated learning with FediAC inside Flower."""
