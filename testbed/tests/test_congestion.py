# SPDX-License-Identifier: Apache-2.0
"""The algebra of D2TCP and L2DCT against the papers' formulas in floating point."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SOURCE = Path(__file__).resolve().parents[1] / "congestion" / "algebra.c"
ONE, EXPONENT_ONE = 2**30, 1024
U32 = st.integers(0, 2**32 - 1)
FRACTIONS = st.integers(0, ONE)
EXPONENTS = st.integers(128, 2560)


@pytest.fixture(scope="module")
def algebra(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The algebra as a library that ends the process on undefined behaviour."""
    path = tmp_path_factory.mktemp("congestion") / "algebra.so"
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined",
                    "-fsanitize-undefined-trap-on-error", "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True)
    library = ctypes.CDLL(str(path))
    for name in ("estimate", "power", "cut", "urgency", "weight", "patience"):
        getattr(library, f"cc_{name}").restype = ctypes.c_uint32
    library.cc_weight.argtypes = [ctypes.c_uint64]
    return library


@given(alpha=FRACTIONS, marked=U32, more=U32)
def test_alpha_is_a_moving_mean_of_the_marked_part(algebra: Any, alpha: int, marked: int, more: int) -> None:
    delivered = min(marked + more, 2**32 - 1)
    found = algebra.cc_estimate(alpha, marked, delivered)
    part = marked / delivered if delivered else 0
    assert 0 <= found <= ONE
    assert found / ONE == pytest.approx(alpha / ONE * 15 / 16 + part / 16, abs=4 / ONE)


@given(alpha=FRACTIONS, exponent=EXPONENTS)
def test_powers_are_those_of_floating_point(algebra: Any, alpha: int, exponent: int) -> None:
    # Repeated roots of rounded-down fractions: an error of 1 in 2^30 below the root is one of 2^-15 beside it.
    assert algebra.cc_power(alpha, exponent) / ONE == pytest.approx((alpha / ONE)**(exponent / EXPONENT_ONE), abs=1e-4)


@given(window=U32, p=FRACTIONS)
def test_a_cut_takes_half_of_p(algebra: Any, window: int, p: int) -> None:
    assert algebra.cc_cut(window, p) == max(window - window * p // 2**31, 2)


@given(left=U32, rtt_8us=U32, window=U32, mss=st.integers(1, 65535), until_us=st.integers(-2**31, 2**31 - 1))
def test_urgency_is_the_time_needed_over_the_time_left(algebra: Any, left: int, rtt_8us: int, window: int, mss: int,
                                                       until_us: int) -> None:
    found = algebra.cc_urgency(left, rtt_8us, window, mss, until_us) / EXPONENT_ONE
    if until_us <= 0 or not window:
        assert found == 0.5
    else:
        needed_us = left / (0.75 * window * mss) * rtt_8us / 8
        assert found == pytest.approx(min(max(needed_us / until_us, 0.5), 2), abs=2 / EXPONENT_ONE + 1 / until_us)


@pytest.mark.parametrize("sent, weight", [(0, 2.5), (200_000, 2.5), (600_000, 1.3125), (1_000_000, 0.125),
                                          (2**63, 0.125)])
def test_a_flow_that_sent_more_weighs_less(algebra: Any, sent: int, weight: float) -> None:
    assert algebra.cc_weight(sent) / EXPONENT_ONE == pytest.approx(weight, abs=1 / EXPONENT_ONE)


@given(window=U32, weight=EXPONENTS)
def test_the_window_grows_by_the_weight_each_round_trip(algebra: Any, window: int, weight: int) -> None:
    assert algebra.cc_patience(window, weight) == min(window * 2560 // weight, 2**32 - 1)
