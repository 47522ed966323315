"""``python -m fediac``: the command line of a package that is not installed."""

from fediac.cli import main

if __name__ == "__main__":
    main()
