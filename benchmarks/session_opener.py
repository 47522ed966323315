"""Opens sessions at a switch: a line with a number of clients in, the session's out.

A session is closed when the next one is opened.

    python -m benchmarks.session_opener HOST:PORT
"""

import os
import sys
from contextlib import ExitStack

import fediac


def main() -> None:
    elsewhere, last = fediac.RemoteSwitch(sys.argv[1], patience_s=30.0), ExitStack()
    for line in sys.stdin:
        last.close()
        opened = last.enter_context(elsewhere.open(int(line)))
        os.write(1, f"{opened.opening.session}\n".encode())


if __name__ == "__main__":
    main()
