# SPDX-License-Identifier: Apache-2.0
"""Whether the controller can do its work, and if not, why."""

from typing import Iterable, Literal, NamedTuple

from sdngcc.controller.databases.health import Health
from sdngcc.controller.rest.resource import RestContext, dpid_text

CAUSE = Literal["switches", "links", "databases", "lease", "drain", "marks", "sources", "shims"]

_NAMED_MAX = 5


class Hindrance(NamedTuple):
    """What keeps the controller from its work: of which kind it is, and in words that name what is concerned."""

    cause: CAUSE
    text: str


def databases(context: RestContext) -> list[Health]:
    """Return the state of each hypervisor's database, the cluster's, that of tenants' policy, and the cloud's."""
    cluster = [context.cluster.health] if context.cluster else []
    clouds = [one.health for one in context.clouds]
    return [*context.policy.health(), *cluster, *context.tenants.health(), *clouds]


def hindrances(context: RestContext) -> list[Hindrance]:
    """Return what keeps the controller from doing its work; none: it is ready."""
    engine, found = context.engine, []
    if not engine.switches:
        found.append(Hindrance("switches", "no switch is connected"))
    settling = [dpid_text(dpid) for dpid, switch in sorted(engine.switches.items()) if not switch.settled]
    if settling:
        found.append(Hindrance("links", f"links are still being looked for at {_some(settling)}"))
    away: dict[tuple[str, str], list[str]] = {}
    for one in databases(context):
        if one.awaited and one.state != "connected":
            away.setdefault((one.kind, one.state), []).append(one.remote)
    for (kind, state), remotes in sorted(away.items()):
        found.append(Hindrance("databases", f"{kind} database {state}: {_some(remotes)}"))
    if context.drain is not None and context.drain.draining:
        found.append(Hindrance("drain", "this controller is drained, as somebody asked for"))
    if context.cluster and not context.cluster.is_live():
        found.append(Hindrance("lease", "this controller holds no lease of the cluster, so it acts for no switch"))
    if not context.cluster or context.cluster.is_live():  # whoever acts for no switch is told nothing of its effect
        found += [Hindrance(one.cause, one.text) for one in engine.effect.faults if one.whole]
    return found


def warnings(context: RestContext) -> list[Hindrance]:
    """Return what keeps the controller from a part of its work; it is ready all the same."""
    found = [Hindrance(one.cause, one.text) for one in context.engine.effect.faults if not one.whole]
    for one in databases(context):
        if one.fault is not None:
            found.append(Hindrance("databases", f"{one.kind} database {one.remote}: {one.fault}"))
    return found


def _some(names: Iterable[str]) -> str:
    """Return the first names, and how many there are beside them."""
    named = list(names)
    more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    return ", ".join(named[:_NAMED_MAX]) + more
