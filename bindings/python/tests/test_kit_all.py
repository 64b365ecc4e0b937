"""Every case of the conformance kit runs through the binding, or there is a reason why not."""

import os
import pathlib
import re
import subprocess

import pytest

FAULTS = "the store must fail on command, which the kit does beneath the client and not through an interface for programs"
ELSEWHERE = {
    "take-over-refused": FAULTS, "eager-rival": FAULTS, "expired-alone": FAULTS, "back-early": FAULTS, "outage-silent": FAULTS,
    "outage-refused": FAULTS, "waiter-outage": FAULTS, "stop-while-cut": FAULTS, "acquire-reply-lost": FAULTS,
    "renew-reply-lost": FAULTS, "renew-fails": FAULTS, "release-reply-lost": FAULTS, "nth-request-fails": FAULTS,
    "stop-during-acquire": FAULTS, "stop-after-lost-acquire": FAULTS, "waiter-gives-nothing-back": FAULTS,
    "stop-during-renew": FAULTS, "stop-after-lost-renew": FAULTS, "stale-grant": FAULTS, "expired-at-once": FAULTS,
    "answer-too-late": FAULTS, "sleeping-waiter": FAULTS, "release-before-reply": FAULTS, "waiter-leaves-at-release": FAULTS,
    "pushes-dropped": FAULTS, "pushes-doubled": FAULTS, "observer-pushes-dropped": FAULTS, "locker-lost": FAULTS,
    "locker-unreachable": FAULTS, "locker-try-reply-lost": FAULTS, "note-reply-lost": FAULTS,
    "observer-every-change": "one store has it, and the binding adds nothing to it",
    "nothing-inherited": "the binding opens no descriptor",
    "events-and-fields": "the binding hands lines of the log on, and not their fields",
}


def test_every_case_of_the_kit_is_here() -> None:
    library = os.environ.get("SIMBA_LIBRARY")  # without it, the package has a library of its own
    command = pathlib.Path(library).with_name("simba") if library else None
    if command is None or not command.exists():
        pytest.skip("the command is not beside the library")
    listed = subprocess.run([str(command), "tck", "--list"], check=True, capture_output=True, text=True).stdout.split()
    here = set()
    for file in pathlib.Path(__file__).parent.glob("test_kit_*.py"):
        here |= {name.replace("_", "-") for name in re.findall(r"^def test_(\w+)\(", file.read_text(), re.MULTILINE)}
    here.discard("every-case-of-the-kit-is-here")
    assert sorted(here | set(ELSEWHERE)) == sorted(listed) and not here & set(ELSEWHERE)
