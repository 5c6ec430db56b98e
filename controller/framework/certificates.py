# SPDX-License-Identifier: Apache-2.0
"""Who a certificate speaks of: the names that its authority signed.

A certificate's name is its common name, else the first of its alternative names.  The number that ovs-pki appends to
each common name (" id:" and a UUID) is no part of it, so a certificate that takes another one's place has its name.
"""

import re
from typing import Any, Mapping, Optional

_NAME = re.compile(r"[!-~](?:[ -~]{0,254}[!-~])?")
_NUMBER = re.compile(r" id:[0-9a-f-]{8,36}$")
_ALTERNATIVES = ("DNS", "URI", "IP Address")


class Identity(tuple[str, ...]):
    """The names of a certificate, of which there is one at least; the first one is what it is called by."""

    @property
    def name(self) -> str:
        """Return what the certificate is called by."""
        return self[0]


def identity(certificate: Optional[Mapping[str, Any]]) -> Optional[Identity]:
    """Return the names of a certificate as SSLSocket.getpeercert() shows it; None when it has none that can be used.

    A name has up to 256 printable ASCII characters.
    """
    if not certificate:
        return None
    names = [text for rdn in certificate.get("subject", ()) for key, text in rdn if key == "commonName"]
    names += [text for key, text in certificate.get("subjectAltName", ()) if key in _ALTERNATIVES]
    usable = [_NUMBER.sub("", text) for text in names if _NAME.fullmatch(text)]
    return Identity(dict.fromkeys(usable)) if usable else None
