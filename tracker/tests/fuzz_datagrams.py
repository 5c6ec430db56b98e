# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the tracker's datagrams: the first byte tells which reader gets the rest, with a tag that is right or not.

With 4 added to it the rest is not the body, but what a JSON document is made from: fields as they are named, of any
type, beside others.

``python -m sdngcc.tracker.tests.fuzz_datagrams [-runs=N] [libFuzzer's options] CORPUS`` ends with status 0 when nothing
was refused but by name, and what was taken lies within its bounds, is read again as it is written, and leads to finite
weights.
"""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Type, Union

import atheris

with atheris.instrument_imports(include=["sdngcc.tracker"]):
    from sdngcc.tracker import datagrams
    from sdngcc.tracker.decision import OBJECTIVES, WEIGHT_MAX, Division, Factors, peer_weights, reference_weight

from sdngcc.controller.tests import fuzzing

KEY = b"secret of sixteen or more bytes"
DIVISIONS = {name: Division(weight, name) for weight, name in enumerate(OBJECTIVES, 1)}
# What an error may say at most: names are cut.
WORDS_MAX = 400


FIELDS = (("peer", "flows"), ("host", "sums"), ("host", "epoch", "sequence", "sums", "proof"),
          ("epoch", "sequence", "factors", "challenge"))
TEXTS = ("ds", "cs", "10.0.0.1", "fe80::1%eth0", "", "x" * 256, "\x1b[2J", "\ud800", "1e999")


def anything(provider: Any, depth: int = 0) -> Any:
    """Return a JSON value of any type, most often one that a field has."""
    kind = provider.ConsumeIntInRange(0, 7 if depth < 4 else 4)
    if kind == 0:
        return provider.ConsumeIntInRange(-(1 << 63), 1 << 64)
    if kind == 1:
        return provider.ConsumeFloat()
    if kind == 2:
        return provider.PickValueInList(list(TEXTS))
    if kind == 3:
        return provider.ConsumeUnicode(8)
    if kind == 4:
        return provider.PickValueInList([None, True, 0, 1])
    if kind == 5:
        return {provider.PickValueInList(list(TEXTS)): anything(provider, depth + 1)
                for _ in range(provider.ConsumeIntInRange(0, 4))}
    if kind == 6:
        return [anything(provider, depth + 1) for _ in range(provider.ConsumeIntInRange(0, 4))]
    return [[provider.ConsumeIntInRange(0, 1 << 53), provider.ConsumeIntInRange(-(1 << 53), 1 << 53)]] * 2


def document(kind: int, data: bytes) -> bytes:
    """Return a message of a kind, made from data: with some of its fields, and now and then one that it has not."""
    provider = atheris.FuzzedDataProvider(data)
    usual: Dict[str, Any] = {"peer": "10.0.0.1", "flows": [], "host": "h1", "epoch": 1, "sequence": 1, "sums": {},
                             "factors": {}, "proof": 0, "challenge": 0}
    made = {name: usual[name] if provider.ConsumeBool() else anything(provider) for name in FIELDS[kind]}
    if provider.ConsumeIntInRange(0, 7) == 7:
        made[provider.ConsumeUnicode(8)] = anything(provider)
    return json.dumps(made).encode()


def check_sums(message: datagrams.Sums) -> None:
    """Check what a host told, and the factors that follow from it and from a host that wants nothing."""
    assert len(message.sums) <= datagrams.DIVISIONS_MAX and 1 <= len(message.host) <= 255
    assert all(name.isprintable() for name in (message.host, *message.sums))
    assert all(math.isfinite(wanted) and wanted >= 0 for wanted in message.sums.values())
    factors = Factors(DIVISIONS)
    known = {name: wanted for name, wanted in message.sums.items() if name in DIVISIONS}
    factors.tell(message.host, known, 0.0)
    factors.tell("idle", {}, 0.0)
    for name, factor in factors.factors(0.0).items():
        assert math.isfinite(factor) and factor >= 0
        weight = peer_weights({"one": known.get(name, 0.0)}, factor, DIVISIONS[name], DIVISIONS)["one"]
        assert 1 <= weight <= WEIGHT_MAX


def check_registration(body: bytes) -> None:
    """Read what a workload says; raises Refused."""
    peer, flows = datagrams.read_registration(body)
    assert len(peer) <= 45 and len(flows) <= datagrams.FLOWS_MAX
    for objective in OBJECTIVES:
        assert 0 <= reference_weight(objective, flows) <= datagrams.NUMBER_MAX


def check(kind: int, body: bytes) -> None:
    """Read a datagram's body as one of five kinds; raises Refused."""
    if kind == 0:
        check_registration(body)
        return
    if kind == 1:
        datagrams.unpack(body, KEY, datagrams.Sums)
        raise AssertionError("taken with a tag that nobody made")
    model: Type[Union[datagrams.Sums, datagrams.Answer]] = datagrams.Sums if kind == 2 else datagrams.Answer
    message = datagrams.unpack(datagrams._tag(body, KEY) + body, KEY, model)
    assert datagrams.unpack(datagrams.pack(message, KEY), KEY, model) == message
    if isinstance(message, datagrams.Sums):
        check_sums(message)


def take(data: bytes) -> None:
    """Let a reader take an input; raises AssertionError for what it should not have done."""
    if not data:
        return
    kind, body = data[0] % 4, data[1:]
    if data[0] & 4:
        body = document(kind, body)
    with fuzzing.steps(len(body)):
        try:
            check(kind, body)
        except datagrams.Refused as error:
            assert str(error).isprintable() and 0 < len(str(error)) <= WORDS_MAX, ascii(str(error))


SEEDS = (
    b'\x00{"peer":"10.0.0.1","flows":[[1000,2000],[9007199254740992,-1]]}',
    b'\x00{"peer":"fe80::1","flows":[]}',
    b'\x02{"host":"h1","epoch":1,"sequence":2,"sums":{"ds":1e30,"cs":1e-300,"x":3}}',
    b'\x03{"epoch":1,"sequence":2,"factors":{"ds":0.5}}',
    b'\x02{"host":"h1","epoch":9223372036854775807,"sequence":2,"sums":{},"proof":7}',
    b'\x03{"epoch":1,"sequence":2,"factors":{},"challenge":9223372036854775807}',
    b'\x00{"peer":"10.0.0.1","flows":[],"\\u001b[2J":1}',
    b"\x01" + datagrams._tag(b"{}", b"another key") + b"{}",
    *(bytes([4 + kind]) + bytes(range(64)) for kind in range(4)),
)


if __name__ == "__main__":
    fuzzing.fuzz(take, SEEDS)
