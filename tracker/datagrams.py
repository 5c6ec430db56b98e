# SPDX-License-Identifier: Apache-2.0
"""What tracker, agents and workloads say to each other: JSON in a datagram, tagged between hosts.

Whatever arrives is bounded before it is looked at: the tag is checked first, then length, depth (pydantic's parser ends
at 200), names, counts, and every number's range, so that no sum over all hosts and flows leaves the finite numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from typing import Annotated, Any, Dict, List, Tuple, Type, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sdngcc.tracker.decision import Flow

# Hexadecimal digits of a datagram's tag: 128 bits.
TAG_DIGITS = 32
# Longest datagram.
DATAGRAM_BYTES = 65_507
# Largest sum of W', or factor; the largest that a workload can bring about is some 1e20.
NUMBER_MAX = 1e30
# Most flows of one registration, and divisions of one message.
FLOWS_MAX, DIVISIONS_MAX = 4096, 1024



def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a name of printable characters is wanted")
    return name


# Names stand in logs and errors.
Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_printable)]
Number = Annotated[float, Field(ge=0, le=NUMBER_MAX)]
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Numbers = Annotated[Dict[Name, Number], Field(max_length=DIVISIONS_MAX)]


class Refused(ValueError):
    """A datagram is not what it should be; it changes nothing."""


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid", frozen=True)


class Sums(_Message):
    """A host to the trackers: its sum of W' for each division."""

    host: Name
    epoch: Count
    sequence: Count
    sums: Numbers
    proof: Count = 0
    """The challenge of a tracker that doubted the epoch; 0: none was heard."""


class Answer(_Message):
    """A tracker to a host: lambda_d of each division; epoch and sequence are the host's own.

    With a challenge nothing was taken: the host is to send it back with what it tells next.
    """

    epoch: Count
    sequence: Count
    factors: Numbers
    challenge: Count = 0


class Registration(_Message):
    """A workload to its host's agent: what it has to send to an address, [bytes, us to the deadline] a flow."""

    peer: Annotated[str, Field(max_length=45)]
    flows: Annotated[
        List[Tuple[Annotated[int, Field(ge=0, le=1 << 53)], Annotated[int, Field(ge=-(1 << 53), le=1 << 53)]]],
        Field(max_length=FLOWS_MAX),
    ]


Kind = TypeVar("Kind", bound=_Message)


def _tag(body: bytes, key: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).hexdigest()[:TAG_DIGITS].encode()


def pack(message: BaseModel, key: bytes) -> bytes:
    """Return the datagram of a message."""
    body = message.model_dump_json(exclude_defaults=True).encode()
    return _tag(body, key) + body


def unpack(data: bytes, key: bytes, kind: Type[Kind]) -> Kind:
    """Return the message of a datagram; raises Refused when its tag or its form is wrong."""
    tag, body = data[:TAG_DIGITS], data[TAG_DIGITS:]
    if not hmac.compare_digest(tag, _tag(body, key)):
        raise Refused("the tag is wrong: another key, or not from us")
    return _read(body, kind)


def _read(body: bytes, kind: Type[Kind]) -> Kind:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise Refused(in_words(error, kind)) from None


def in_words(error: ValidationError, of: Type[BaseModel]) -> str:
    """Return the first fault of a message, without what it held: of its keys those only that ``of`` has.

    What stands in such a field has names of hosts and divisions, which only those with the key send: of these what can
    be printed.
    """
    fault: Dict[str, Any] = dict(error.errors(include_input=False, include_url=False)[0])
    place = ".".join(
        str(part)[:40] if number or part in of.model_fields else "?" for number, part in enumerate(fault["loc"])
    )
    return f"{''.join(one if one.isprintable() else '?' for one in place) or 'message'}: {fault['msg']}"


def read_registration(data: bytes) -> Tuple[str, List[Flow]]:
    """Return the address and the flows that a workload registered; raises Refused."""
    message = _read(data, Registration)
    try:
        peer = ipaddress.ip_address(message.peer)
    except ValueError:
        raise Refused("peer: no IP address") from None
    if getattr(peer, "scope_id", None) is not None:
        raise Refused("peer: an address with a scope")
    return str(peer), [Flow(left, deadline_us / 1e6) for left, deadline_us in message.flows]
