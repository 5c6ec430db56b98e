# SPDX-License-Identifier: Apache-2.0
"""What becomes of Neutron's policies on a compute node, with ML2/OVS as with ML2/OVN."""

from .cloud import FAST, SLOW, Trunk, run

FASTER = {**FAST, "min_rate": "300000000", "weight": "3"}


# What a trunk has: two of its ports have the fast policy; one has that and one the slow one; two and one have.
TWICE = {"min_rate": "400000000", "max_rate": "1000000000", "weight": "4"}
BOTH = {"min_rate": "200000000", "max_rate": "501000000", "weight": "2"}
ALL = {"min_rate": "400000000", "max_rate": "1001000000", "weight": "4"}


class Policies:
    """Tests of a cloud that subclasses run, whose module has the fixture ``cloud``."""

    def test_policies_change_and_go(self, cloud):
        own = cloud.policy("own", bandwidth_limit={"max_kbps": 10_000})
        port = cloud.port(cloud.net, "pb", qos_policy_id=own["id"])
        cloud.plug("tap-pb", port)
        cloud.until("tap-pb", max_rate="10000000")
        cloud.call("PUT", own["bandwidth_limit"], {"bandwidth_limit_rule": {"max_kbps": 20_000}})
        cloud.until("tap-pb", max_rate="20000000")
        cloud.change(port, qos_policy_id=cloud.fast["id"])
        cloud.until("tap-pb", **FAST)
        cloud.change(port, qos_policy_id=None)
        cloud.until("tap-pb")
        cloud.change_network(qos_policy_id=cloud.slow["id"])
        cloud.until("tap-pb", **SLOW)
        cloud.change_network(qos_policy_id=None)
        cloud.until("tap-pb")

    def test_a_guarantee_in_use_is_changed_by_another_policy_only(self, cloud):
        port = cloud.port(cloud.net, "pc", qos_policy_id=cloud.fast["id"])
        cloud.plug("tap-pc", port)
        cloud.until("tap-pc", **FAST)
        rule = {"minimum_bandwidth_rule": {"min_kbps": 300_000}}
        for refused in (cloud.refused("PUT", cloud.fast["minimum_bandwidth"], rule),
                        cloud.refused("DELETE", cloud.fast["minimum_bandwidth"])):
            assert refused[0] == 501
            assert "Cannot update QoS policies/rules backed by resources tracked in Placement" in refused[1]
        faster = cloud.policy("faster", bandwidth_limit={"max_kbps": 500_000}, minimum_bandwidth={"min_kbps": 300_000})
        cloud.change(port, qos_policy_id=faster["id"])
        cloud.until("tap-pc", **FASTER)
        # A network's policy is swapped in the same way.
        cloud.change(port, qos_policy_id=None)
        for policy, keys in ((cloud.fast, FAST), (faster, FASTER), (None, {})):
            cloud.change_network(qos_policy_id=policy and policy["id"])
            cloud.until("tap-pc", **keys)

    def test_keys_survive_a_restart_and_those_of_ports_deleted_meanwhile_go(self, cloud):
        kept, gone = (cloud.port(cloud.net, name, qos_policy_id=cloud.fast["id"]) for name in ("pd1", "pd2"))
        cloud.plug("tap-pd1", kept)
        cloud.plug("tap-pd2", gone)
        cloud.until("tap-pd1", **FAST)
        cloud.until("tap-pd2", **FAST)
        cloud.stop_agent()
        cloud.call("DELETE", f"/v2.0/ports/{gone['id']}")
        assert cloud.shim("tap-pd2")
        cloud.start()
        cloud.until("tap-pd2")
        cloud.until("tap-pd1", **FAST)

    def test_keys_that_somebody_changes_come_back(self, cloud):
        port = cloud.port(cloud.net, "pg", qos_policy_id=cloud.fast["id"])
        cloud.plug("tap-pg", port)
        cloud.until("tap-pg", **FAST)
        cloud.until_wired(port)
        run("ovs-vsctl", "remove", "Interface", "tap-pg", "external_ids", "shim-max-rate", "--",
            "set", "Interface", "tap-pg", "external_ids:shim-min-rate=1")
        cloud.until("tap-pg", **FAST)

    def test_a_trunk_is_limited_at_its_parents_interface(self, cloud):
        trunk = Trunk(cloud, "pe")
        first, second = (trunk.port(name, qos_policy_id=policy["id"])
                         for name, policy in (("pe1", cloud.fast), ("pe2", cloud.slow)))
        trunk.make(first, qos_policy_id=cloud.fast["id"])
        cloud.until(trunk.tap, **TWICE)
        trunk.until_addresses(first)
        for port in (trunk.parent, first):
            cloud.until_wired(port)
        trunk.add(second)
        cloud.until(trunk.tap, **ALL)
        trunk.until_addresses(first, second)
        trunk.remove(first)
        cloud.until(trunk.tap, **BOTH)
        trunk.until_addresses(second)
        cloud.change(second, qos_policy_id=cloud.fast["id"])
        cloud.until(trunk.tap, **TWICE)
        # Neither subports nor what leads to them is told anything.
        keyed = run("ovs-vsctl", "--bare", "--columns=name,external_ids", "find", "Interface", "type=patch")
        assert "shim-" not in keyed
        trunk.leave()

    def test_a_trunks_keys_survive_a_restart_and_follow_what_changed_meanwhile(self, cloud):
        trunk = Trunk(cloud, "pf")
        first, second, third = (trunk.port(name, qos_policy_id=policy["id"]) for name, policy in (
            ("pf1", cloud.fast), ("pf2", cloud.slow), ("pf3", cloud.slow)))
        trunk.make(first, second, qos_policy_id=cloud.fast["id"])
        cloud.until(trunk.tap, **ALL)
        cloud.start()
        cloud.until_wired(first)
        cloud.until(trunk.tap, **ALL)
        trunk.until_addresses(first, second)
        cloud.stop_agent()
        trunk.remove(first)
        trunk.add(third)
        cloud.change(trunk.parent, qos_policy_id=cloud.slow["id"])
        assert cloud.shim(trunk.tap) == {key.replace("_", "-"): value for key, value in ALL.items()}
        cloud.start()
        cloud.until(trunk.tap, max_rate="3000000")
        trunk.until_addresses(second, third)
        trunk.leave()
