"""The fixtures. With $SIMBA_TAP the results are printed as TAP, as those of all other tests are."""

import os
import sys
from typing import Any

from support import client, judged, mutex, other, url  # noqa: F401 # for all tests

number = 0


def pytest_runtest_logreport(report: Any) -> None:
    global number
    if not os.environ.get("SIMBA_TAP") or not (report.when == "call" or report.skipped or report.failed):
        return
    number += 1
    name = report.nodeid.split("::")[-1]
    if report.skipped:
        print(f"ok {number} - {name} # SKIP {report.longrepr[2]}", flush=True)
    else:
        print(report.longreprtext, file=sys.stderr)
        print(f"{'not ' if report.failed else ''}ok {number} - {name}", flush=True)


def pytest_sessionfinish(session: Any) -> None:
    if os.environ.get("SIMBA_TAP"):
        print(f"1..{number}", flush=True)
