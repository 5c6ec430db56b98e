# SPDX-License-Identifier: Apache-2.0
"""The laboratory build and the product: what one has beside the other, and that refusals know all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Set, Tuple

import pytest

from sdngcc.shim import core as binding

Name = Tuple[str, str]


@pytest.fixture(scope="module", name="product")
def _product() -> Any:
    """The product's core."""
    ffi, lib = binding.load(f"{binding.DEFAULT_CFLAGS} {binding.PRODUCT}")
    return SimpleNamespace(ffi=ffi, lib=lib)


def names(core: Any) -> Set[Name]:
    """Return all laws, with an empty word, and all knobs with their laws."""
    found: Set[Name] = set()
    i = 0
    while (law := core.lib.shim_law_at(i)) != core.ffi.NULL:
        name = core.ffi.string(law.name).decode()
        found |= {(name, ""), *((name, core.ffi.string(law.knobs[k].name).decode()) for k in range(law.n_knobs))}
        i += 1
    return found


def test_refusals_know_what_the_product_lacks(core: Any, product: Any) -> None:
    """The list by which the product refuses has what the laboratory build has beside, and nothing else."""
    lacking = names(core) - names(product)
    assert names(product) < names(core) and ("elasticswitch", "") in lacking and ("seawall", "class") in lacking
    for build in (core, product):
        for law, knob in sorted(names(core)):
            told = build.lib.shim_laboratory_only(law.encode(), knob.encode() if knob else build.ffi.NULL)
            whole = (law, "") in lacking
            assert told == ((law, knob) in lacking and (not knob or not whole)), (law, knob)
        assert not build.lib.shim_laboratory_only(b"fair", build.ffi.NULL)


def test_what_both_have_is_the_same(core: Any, product: Any) -> None:
    """Knobs that both builds have are in the same order, with the same values."""
    for name in {law for law, knob in names(product) if not knob}:
        both = [[(one.lib, one.lib.shim_law_find(name.encode()))] for one in (core, product)]
        (_, wide), (_, narrow) = both[0][0], both[1][0]
        assert narrow.n_knobs <= wide.n_knobs and narrow.period_ns == wide.period_ns
        for k in range(narrow.n_knobs):
            one, other = wide.knobs[k], narrow.knobs[k]
            assert core.ffi.string(one.name) == product.ffi.string(other.name)
            assert (one.value, one.min, one.max) == (other.value, other.min, other.max)


def test_packages_are_the_product() -> None:
    """Nothing that makes packages or modules by hand names the laboratory build."""
    root = binding.SOURCE_DIR.parents[1]
    named = [path for path in (root / "packaging").rglob("*") if path.is_file() and b"LABORATORY" in path.read_bytes()]
    assert not named and "LABORATORY" not in (root / "shim" / "Kbuild").read_text(encoding="utf-8")
