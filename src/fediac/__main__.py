"""``python -m fediac``: the command line, for a package that is not installed."""

from fediac.cli import main

if __name__ == "__main__":
    main()
