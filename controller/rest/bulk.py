# SPDX-License-Identifier: Apache-2.0
"""Changes of policy of many machines by one request.

What is wrong with the request itself, a name included, refuses all of it before anything is begun.  After that each
bridge stands for itself, as each is stored by a transaction of its own database: its changes are stored all or none,
whatever becomes of the others', and the answer tells machine by machine.
"""

import logging
from typing import Literal, NamedTuple, Optional

import falcon

from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.rest import bulk_models, lookup, models
from sdngcc.controller.rest.changes import Asker, BridgeChange, Wanted, read_model, record_refusal
from sdngcc.controller.rest.reporter import Reporter
from sdngcc.controller.rest.resource import RestContext, refuse

BODY_MAX_BYTES = 131_072
_KEYS = frozenset(models.PolicyChange.model_fields)

LOG = logging.getLogger(__name__)


class _Outcome(NamedTuple):
    """What came of a bridge's changes."""

    status: int
    result: Literal["stored", "refused", "unknown"]
    error: Optional[str] = None


class Bulk:
    """The changes of one request."""

    def __init__(self, context: RestContext, reporter: Reporter, asker: Asker) -> None:
        self._context = context
        self._reporter = reporter
        self._asker = asker

    def run(self, request: falcon.Request, body: bytes) -> bulk_models.BulkAnswer:
        """Carry out a request; raises its refusal, in which case nothing of it was begun."""
        entries = read_model(request, body, bulk_models.BulkChange).changes
        vms = self._find(entries)
        bridges: dict[int, list[Wanted]] = {}
        for entry, vm in zip(entries, vms):
            changes = entry.model_dump(exclude_unset=True, include=set(_KEYS))
            bridges.setdefault(vm.place[0], []).append(Wanted(vm, changes))
        outcomes: dict[int, _Outcome] = {}

        def change(dpid: int) -> None:
            outcomes[dpid] = self._change(bridges[dpid])

        self._context.run_all([lambda dpid=dpid: change(dpid) for dpid in bridges])  # type: ignore[misc]
        results = [self._show(entry, vm, outcomes[vm.place[0]]) for entry, vm in zip(entries, vms)]
        counts = [sum(one.result == result for one in results) for result in ("stored", "refused", "unknown")]
        return bulk_models.BulkAnswer(results=results, stored=counts[0], refused=counts[1], unknown=counts[2])

    def _find(self, entries: list[bulk_models.BulkEntry]) -> list[VmRecord]:
        """Return the machine of each entry; raises the refusal of a name that means none, or one named before."""
        finder, numbers = lookup.Finder(self._context), dict[tuple[int, int], int]()
        vms: list[VmRecord] = []
        try:
            for number, entry in enumerate(entries):
                vm = finder.find(entry.vm, f"changes[{number}].vm")
                first = numbers.setdefault(vm.place, number)
                if first != number:
                    raise refuse(
                        409,
                        f"changes[{first}] and changes[{number}] are of the same machine, {vm.id}; nothing was begun",
                        field=f"changes[{number}].vm",
                        allowed="each machine once",
                    )
                vms.append(vm)
        except falcon.HTTPStatus as refusal:
            record_refusal(self._context, self._reporter, vms, self._asker, refusal)
            raise
        return vms

    def _change(self, wanted: list[Wanted]) -> _Outcome:
        """Store the changes of one bridge."""
        try:
            BridgeChange(self._context, self._reporter, wanted, self._asker).store()
        except falcon.HTTPStatus as refusal:
            error = models.Refusal.model_validate_json(refusal.text or "").error
            status = int(str(refusal.status)[:3])
            return _Outcome(status, "unknown" if status == 504 else "refused", error)
        except Exception:  # a fault with one bridge must not hide what came of the others
            self._context.engine.counters["internal_errors"] += 1
            LOG.exception("internal error in a change of policy; the controller goes on")
            return _Outcome(500, "unknown", "internal error; the controller's log has it")
        return _Outcome(200, "stored")

    def _show(self, entry: bulk_models.BulkEntry, vm: VmRecord, outcome: _Outcome) -> bulk_models.BulkResult:
        stored = None if outcome.result == "unknown" else self._context.policy.read(vm.place[0], vm.name)
        return bulk_models.BulkResult(
            vm=entry.vm,
            id=vm.id,
            place=vm.bridge_id,
            **outcome._asdict(),
            stored=None if stored is None else models.StoredPolicy.model_validate(stored),
        )
