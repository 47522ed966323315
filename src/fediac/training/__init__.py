"""Local training: data, its partition among clients, models and local steps."""
