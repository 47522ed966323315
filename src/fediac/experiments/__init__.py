"""What the command line runs: one function for each subcommand."""
