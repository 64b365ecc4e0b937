"""With a library in src/simba/lib, which scripts/wheel puts there, the wheel is for this kind of machine, and for every Python 3."""

import pathlib

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class WithLibrary(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class ForEveryPython(bdist_wheel):
    def get_tag(self) -> "tuple[str, str, str]":
        return "py3", "none", super().get_tag()[2]


if any((pathlib.Path(__file__).parent / "src" / "simba").glob("lib/*.so*")):
    setup(distclass=WithLibrary, cmdclass={"bdist_wheel": ForEveryPython})
else:
    setup()
