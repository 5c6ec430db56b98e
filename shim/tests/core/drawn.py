# SPDX-License-Identifier: Apache-2.0
"""What Hypothesis draws for laws."""

from __future__ import annotations

from typing import Any, Dict

from hypothesis import strategies as st

from sdngcc.shim import core as binding


@st.composite
def knob_values(draw: Any, law_name: str) -> Dict[str, int]:
    """Any values that the law's table of knobs allows, by name; often the defaults."""
    ffi, lib = binding.load()
    law = lib.shim_law_find(law_name.encode())
    return {ffi.string(law.knobs[i].name).decode():
            draw(st.one_of(st.just(law.knobs[i].value), st.integers(law.knobs[i].min, law.knobs[i].max)))
            for i in range(law.n_knobs)}
