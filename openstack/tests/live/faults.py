# SPDX-License-Identifier: Apache-2.0
"""Makes functions of the extensions raise, in whatever process of Neutron loads them.

A .pth file of Python's site imports this module; FAULTS names what is to raise, a line each: MODULE to fail when it is
imported, MODULE:FUNCTION or MODULE:CLASS.METHOD to fail when it is called.
"""

import importlib.abc
import importlib.machinery
import pathlib
import sys

FAULTS = pathlib.Path("/etc/sdngcc-faults")


def fail(*args, **kwargs):
    """Raise what nobody expects."""
    raise RuntimeError("injected by a test")


class Loader(importlib.abc.Loader):
    """Loads a module and breaks it."""

    def __init__(self, loader, names):
        self.loader, self.names = loader, names

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        if "" in self.names:
            fail()
        self.loader.exec_module(module)
        for name in self.names:
            *path, last = name.split(".")
            holder = module
            for step in path:
                holder = getattr(holder, step)
            setattr(holder, last, fail)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to break."""

    def find_spec(self, fullname, path, target=None):
        names = [name for module, _, name in faults() if module == fullname]
        if not names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = Loader(spec.loader, names)
        return spec


def faults():
    """Return what is to fail."""
    lines = FAULTS.read_text().split() if FAULTS.exists() else []
    return [line.partition(":") for line in lines]


def install():
    """Break the modules that are loaded from now on."""
    if faults():
        sys.meta_path.insert(0, Finder())
