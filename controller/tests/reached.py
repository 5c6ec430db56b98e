# SPDX-License-Identifier: Apache-2.0
"""Tells which lines of files the inputs of a fuzzing program reach, its seeds and those that its runs kept.

``python -m sdngcc.controller.tests.reached MODULE FOLDER FILE...`` gives MODULE's take() each file of FOLDER and writes
a JSON object to standard output: for each FILE the lines that have code, and those of them that were never reached.
"""

import contextlib
import importlib
import json
import logging
import pathlib
import sys

import coverage


class _Whole:
    """Stands in for atheris' instrumentation, which would be in coverage's way."""

    @staticmethod
    def instrument_imports(**_):
        return contextlib.nullcontext()


def main(module, folder, files):
    """Return the lines of each file, and those not reached, by file."""
    import atheris

    logging.disable(logging.CRITICAL)
    atheris.instrument_imports = _Whole.instrument_imports
    told = coverage.Coverage(data_file=None, config_file=False, include=files, messages=False)
    told.start()
    try:
        program = importlib.import_module(module)
        for path in sorted(pathlib.Path(folder).iterdir()):
            program.take(path.read_bytes())
    finally:
        told.stop()
    found = {}
    for file in files:
        _, lines, _, missed, _ = told.analysis2(file)
        found[file] = {"lines": lines, "missed": missed}
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3:])))
