"""The figures of a report: what they show, as numbers in shares of a drawing."""
