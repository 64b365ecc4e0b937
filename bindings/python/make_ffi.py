"""make_ffi.py FOLDER: put the package into FOLDER/simba, together with what is made out of simba.h: what cffi must know of the
library, and the version. Whoever uses the package needs neither a compiler nor the header."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cffi

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parent.parent / "include" / "simba.h"


def declarations(header: pathlib.Path) -> str:
    """The header as cffi takes it: without what it includes, which cffi knows, and without attributes."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stdbool.h", "stddef.h", "stdint.h"):
            (pathlib.Path(empty) / name).touch()
        return subprocess.run(
            ["cc", "-E", "-P", "-nostdinc", "-I", empty, "-D__attribute__(x)=", str(header)],
            check=True, capture_output=True, text=True,
        ).stdout


def main() -> None:
    package = pathlib.Path(sys.argv[1]) / "simba"
    shutil.copytree(HERE / "src" / "simba", package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    ffi = cffi.FFI()
    ffi.cdef(declarations(HEADER))
    ffi.set_source("simba._ffi", None)
    ffi.emit_python_code(str(package / "_ffi.py"))
    numbers = re.findall(r"^#define SIMBA_VERSION_[A-Z]+ (\d+)$", HEADER.read_text(), re.MULTILINE)
    (package / "_version.py").write_text(f'VERSION = "{".".join(numbers)}"\n')


if __name__ == "__main__":
    main()
