# SPDX-License-Identifier: Apache-2.0
"""The record of changes of tenants' policy, and what became of those that were in doubt."""

import dataclasses
from typing import Literal, Optional

from sdngcc.controller.databases.client import Doubt
from sdngcc.controller.network.tenants import Policy
from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import now_text
from sdngcc.controller.rest.events import Broker
from sdngcc.controller.rest.resource import RestContext


@dataclasses.dataclass(frozen=True)
class PendingTenant:
    """A change of a tenant's policy that was sent, and whose outcome is not known yet."""

    before: Optional[Policy]
    who: str
    address: Optional[str]
    time: str  # of the record that says so
    doubt: Doubt


class TenantRecords:
    """Records changes of tenants' policy in the audit log, and tells who listens."""

    def __init__(self, context: RestContext, broker: Broker) -> None:
        self.pending: dict[str, PendingTenant] = {}  # by name
        self._context = context
        self._broker = broker

    def add(
        self,
        name: str,
        before: Optional[Policy],
        after: Optional[Policy],
        who: str,
        address: Optional[str],
        error: Optional[str] = None,
        result: Literal["stored", "refused", "unknown"] = "stored",
        settles: Optional[str] = None,
    ) -> models.AuditRecord:
        """Record a change, or what became of an attempt; return the record."""
        record = models.AuditRecord(
            time=now_text(),
            who=who,
            address=address,
            tenant=name,
            before=None if before is None else models.StoredPolicy(**before),
            after=None if after is None else models.StoredPolicy(**after),
            result=result,
            error=error,
            settles=settles,
        )
        self._context.audit.add(record)
        self._broker.publish("policy", record)
        return record

    def settle(self) -> None:
        """Record what became of the changes that were in doubt, where the database tells by now."""
        for name, change in list(self.pending.items()):
            stored = change.doubt.resolve()
            if stored is None:
                continue
            del self.pending[name]
            self.add(
                name,
                change.before,
                self._context.tenants.read().get(name),
                change.who,
                change.address,
                None if stored else "it was lost with the connection: not stored",
                "stored" if stored else "refused",
                change.time,
            )
