# SPDX-License-Identifier: Apache-2.0
"""What becomes of Neutron's policies on a compute node, with ML2/OVS as with ML2/OVN."""

from .cloud import FAST, SLOW

FASTER = {**FAST, "min_rate": "300000000", "weight": "3"}


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
