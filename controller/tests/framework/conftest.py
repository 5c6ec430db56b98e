# SPDX-License-Identifier: Apache-2.0
"""Each test here that names a framework runs on all that are installed."""

import importlib.util

import pytest

from sdngcc.controller.framework.launcher import FRAMEWORKS


@pytest.fixture(params=sorted(FRAMEWORKS))
def framework(request):
    if not importlib.util.find_spec(FRAMEWORKS[request.param]):
        pytest.skip(f"{request.param} is not installed")
    return request.param
