"""A round of a billion parameters fits a small machine."""

import subprocess
import sys

from tests.planes import require_native

ROUND = """
import contextlib, io, resource
from fediac.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["simulate", "--algorithm=switchml", "--dim=1e9", "--clients=20"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_a_billion_parameters_stay_under_two_gibibytes() -> None:
    require_native()
    run = subprocess.run(
        [sys.executable, "-c", ROUND], check=True, capture_output=True, text=True
    )
    peak_bytes = int(run.stdout) * 1024
    assert 2**20 < peak_bytes < 2 * 2**30
