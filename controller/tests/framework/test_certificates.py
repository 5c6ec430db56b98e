# SPDX-License-Identifier: Apache-2.0
"""Names of certificates, and the file that says what they may do."""

import pytest

from sdngcc.controller.framework.allowlist import AllowFile, read
from sdngcc.controller.framework.certificates import Identity, identity
from sdngcc.controller.settings import SettingsError


def subject(*names):
    return tuple((("commonName", name),) for name in names)


@pytest.mark.parametrize(
    "certificate, names",
    [
        ({"subject": ((("organizationName", "x"),), *subject("compute-1"))}, ["compute-1"]),
        ({"subject": subject("sw id:6a0b2c1e-0000-4000-8000-000000000001")}, ["sw"]),
        (
            {"subject": subject("a"), "subjectAltName": (("DNS", "a.example"), ("DNS", "a"), ("email", "x@y"))},
            ["a", "a.example"],
        ),
        ({"subjectAltName": (("URI", "spiffe://cloud/node/7"),)}, ["spiffe://cloud/node/7"]),
        ({"subject": subject("a\nb", "c d", "", " e", "f" * 257)}, ["c d"]),
        ({"subject": ()}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_certificates_names(certificate, names):
    found = identity(certificate)
    assert found == (None if names is None else Identity(names))
    assert found is None or found.name == names[0]


@pytest.mark.parametrize(
    "text, what",
    [
        ("a\n", 'line 1: "a" has no datapath id'),
        ("\n# x\na 1 nowhere\n", 'line 3: "nowhere" is no datapath id'),
        ("a 12345678901234567\n", "is no datapath id"),
        ("ä any\n", "'ascii' codec"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, text, what):
    file = tmp_path / "admitted"
    file.write_text(text, "utf-8")
    with pytest.raises(SettingsError, match=what) as caught:
        read(file)
    assert str(caught.value).startswith(f"admit_file {file}")


def test_a_file_is_read_again_when_it_changed_and_only_then(tmp_path):
    file = tmp_path / "admitted"
    file.write_text("a 1\n")
    allowed = AllowFile(file)
    assert not allowed.follow() and allowed.version == 1
    file.write_text("a 1\nb 2\n")
    assert allowed.follow() and allowed.version == 2 and allowed.refuses(Identity(["b"])) is None
    file.unlink()
    assert not allowed.follow() and "No such file" in allowed.fault
    assert allowed.refuses(Identity(["b"])) is None
    assert not allowed.follow()
    file.write_text("a 1\n")
    assert allowed.follow() and allowed.fault is None and allowed.refuses(Identity(["b"])) is not None


def test_a_file_that_is_not_there_keeps_the_controller_from_starting(tmp_path):
    with pytest.raises(SettingsError, match="No such file"):
        AllowFile(tmp_path / "nothing")
