# SPDX-License-Identifier: Apache-2.0
"""64-bit arithmetic against Python's integers."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
u64 = st.one_of(st.integers(0, U64_MAX), st.integers(0, 64).map(lambda bit: 2**bit % 2**64),
                st.integers(1, 64).map(lambda bit: 2**bit - 1), st.integers(0, 1000))


@given(a=u64, b=u64, c=u64)
@example(a=U64_MAX, b=U64_MAX, c=U64_MAX)
@example(a=U64_MAX, b=U64_MAX, c=U64_MAX - 1)
@example(a=2**32, b=2**32, c=1)
@example(a=2**63, b=2, c=1)
def test_mul_div(core: Any, a: int, b: int, c: int) -> None:
    want = min(a * b // c, U64_MAX) if c else U64_MAX
    assert core.lib.shim_mul_div(a, b, c) == want


@given(a=st.integers(0, U32_MAX), b=u64)
@example(a=U32_MAX, b=1)
@example(a=1, b=U64_MAX)
@example(a=1, b=U32_MAX - 1)
def test_add_sat32(core: Any, a: int, b: int) -> None:
    assert core.lib.shim_add_sat32(a, b) == min(a + b, U32_MAX)


@given(value=u64, times=st.one_of(u64, st.integers(0, 64)))
@example(value=1, times=39)
@example(value=1, times=64)
def test_double_sat(core: Any, value: int, times: int) -> None:
    """What is too many doublings for the result to be a rate is beyond any rate."""
    have = core.lib.shim_double_sat(value, times)
    assert have == min(value * 2**min(times, 40), U64_MAX)
    assert have == 0 if not value else have >= min(value * 2**min(times, 1000), core.lib.SHIM_RATE_MAX)


@given(a=u64, b=u64)
@example(a=U64_MAX, b=1)
def test_add_sat(core: Any, a: int, b: int) -> None:
    assert core.lib.shim_add_sat(a, b) == min(a + b, U64_MAX)
