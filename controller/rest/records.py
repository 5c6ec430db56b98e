# SPDX-License-Identifier: Apache-2.0
"""Records of changes of policy, and changes that were sent whose outcome is not known yet."""

import dataclasses
from typing import Callable, Iterator, Literal, Mapping, NamedTuple, Optional, TypeVar

from sdngcc.controller.databases.client import Doubt
from sdngcc.controller.databases.stored import Value
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import AuditLog, now_text

Stored = Optional[Mapping[str, Optional[Value]]]
Result = Literal["stored", "refused", "unknown"]
Key = TypeVar("Key")


class Subject(NamedTuple):
    """Whose policy it is: a machine's, by its id and place, or a tenant's."""

    vm: Optional[str] = None
    place: Optional[str] = None
    tenant: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Sent:
    """A change that was sent, and whose outcome is not known yet."""

    before: Stored
    who: str
    address: Optional[str]
    time: str  # of the record that says so
    doubt: Doubt


@dataclasses.dataclass(frozen=True)
class SentToMachine(Sent):
    """The same of a machine's policy."""

    vm: VmRecord


Change = TypeVar("Change", bound=Sent)


class Records:
    """Writes records to the audit log, and tells who listens by ``publish``, which takes an event's kind first."""

    def __init__(self, audit: AuditLog, publish: Callable[[str, models.AuditRecord], None]) -> None:
        self._audit = audit
        self._publish = publish

    def add(
        self,
        subject: Subject,
        before: Stored,
        after: Stored,
        who: str,
        address: Optional[str],
        error: Optional[str] = None,
        result: Result = "stored",
        settles: Optional[str] = None,
    ) -> models.AuditRecord:
        """Record a change, or what became of an attempt; return the record."""
        record = models.AuditRecord(
            time=now_text(),
            who=who,
            address=address,
            vm=subject.vm,
            place=subject.place,
            tenant=subject.tenant,
            before=None if before is None else models.StoredPolicy(**before),
            after=None if after is None else models.StoredPolicy(**after),
            result=result,
            error=error,
            settles=settles,
        )
        self._audit.add(record)
        self._publish("policy", record)
        return record

    def settle(self, subject: Subject, change: Sent, after: Stored, stored: bool) -> None:
        """Record what became of a change whose outcome is known by now."""
        error = None if stored else "it was lost with the connection: not stored"
        result: Result = "stored" if stored else "refused"
        self.add(subject, change.before, after, change.who, change.address, error, result, change.time)


def settled(pending: dict[Key, Change]) -> Iterator[tuple[Key, Change, bool]]:
    """Take out the changes whose outcome is known by now; yield each with its key, and whether it was stored."""
    for key, change in list(pending.items()):
        stored = change.doubt.resolve()
        if stored is not None:
            del pending[key]
            yield key, change, stored
