# SPDX-License-Identifier: Apache-2.0
"""Names and policy in a real ovsdb-server with Open vSwitch's schema."""

import pathlib
import resource
import shutil
import signal
import subprocess
import time

import pytest

from sdngcc.controller.databases import client, health
from sdngcc.controller.databases.client import OutcomeUnknown, PolicyError
from sdngcc.controller.databases.ovsdb import Policy
from sdngcc.controller.network.paths import Tunnel
from sdngcc.controller.wire.packets import mapped
from sdngcc.testbed.programs import data

pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated")
SCHEMA = data("openvswitch/vswitch.ovsschema")
needs_ovsdb = pytest.mark.skipif(
    not (shutil.which("ovsdb-server") and SCHEMA.exists()), reason="Open vSwitch is not installed"
)


class Database:
    def __init__(self, folder):
        self.remote = f"unix:{folder}/db.sock"
        subprocess.run(["ovsdb-tool", "create", f"{folder}/db", SCHEMA], check=True)
        self._socket = folder / "db.sock"
        self._file = folder / "db"
        self._command = ["ovsdb-server", f"--remote=p{self.remote}", f"--unixctl={folder}/ctl", "-vconsole:off",
                         f"{folder}/db"]  # fmt: skip
        self._start()
        self.vsctl("init")
        self.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "other_config:a=b", "datapath_id=00000000000000a1")
        self.vsctl("add-port", "br0", "tap0", "--", "set", "interface", "tap0", "external_ids:iface-id=neutron-0")
        self.vsctl("add-port", "br0", "tap1", "--", "set", "interface", "tap1", "other_config:shim-role=vm",
                   "other_config:shim-min-rate=3000000")  # fmt: skip
        self.vsctl("add-port", "br0", "up0", "--", "set", "interface", "up0", "other_config:shim-role=uplink",
                   "other_config:shim-capacity=10000000")  # fmt: skip

    def _start(self):
        # Python ignores SIGXFSZ; so does the server, then, as if its disk were full rather than its limit reached.
        self.process = subprocess.Popen(self._command, restore_signals=False)
        for _ in range(100):
            if self._socket.exists():
                break
            time.sleep(0.05)

    def restart(self):
        self.process.kill()
        self.process.wait(10)
        self._socket.unlink(missing_ok=True)
        self._start()
        self.vsctl("set", "bridge", "br0", "datapath_id=00000000000000a1")  # not kept: ovs-vswitchd writes it

    def stop(self):
        self.resume()
        self.process.terminate()
        self.process.wait(10)

    def hang(self):
        self.process.send_signal(signal.SIGSTOP)

    def fill_disk(self):
        """Let its file become no larger than it is, until make_room()."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (self._file.stat().st_size, resource.RLIM_INFINITY))

    def make_room(self):
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    def bound_memory(self):
        """Let it have no more memory than it has."""
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[0])
        bytes_now = pages * resource.getpagesize()
        resource.prlimit(self.process.pid, resource.RLIMIT_AS, (bytes_now, resource.RLIM_INFINITY))

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def vsctl(self, *words):
        command = ["ovs-vsctl", "--no-wait", f"--db={self.remote}", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout


@pytest.fixture
def database(tmp_path):
    found = Database(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def policy(database):
    client = Policy([database.remote], time.sleep)
    for _ in range(100):
        client.run()
        if client.read(0xA1, "up0") is not None:
            break
        time.sleep(0.02)
    return client


@needs_ovsdb
def test_names(policy):
    assert policy.interfaces() == {(0xA1, "tap0"): "neutron-0"}


@needs_ovsdb
def test_policy_is_stored_where_ovs_vsctl_sees_it(database, policy):
    policy.write(0xA1, {"tap0": {"weight": 3, "max": 8_000_000}})
    stored = database.vsctl("get", "interface", "tap0", "other_config").strip()
    assert stored == '{shim-max-rate="8000000", shim-weight="3"}'
    policy.write(0xA1, {"tap0": {"max": None, "weight": 4}})
    assert policy.read(0xA1, "tap0") == {"weight": 4}
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == '{shim-weight="4"}'


@needs_ovsdb
def test_the_tenant_is_that_of_the_column_that_counts(database, policy):
    place = (0xA1, "tap0")
    for command, wanted in (
        (("set", "port", "tap0", "other_config:shim-tenant=port"), "port"),
        (("set", "interface", "tap0", "external_ids:shim-tenant=cloud"), "cloud"),
        (("set", "interface", "tap0", "other_config:shim-tenant=operator"), "operator"),
        (("remove", "interface", "tap0", "other_config", "shim-tenant"), "cloud"),
        (("remove", "interface", "tap0", "external_ids", "shim-tenant"), "port"),
        (("remove", "port", "tap0", "other_config", "shim-tenant"), None),
    ):
        database.vsctl(*command)
        for _ in range(500):
            policy.run()
            if policy.tenants().get(place) == wanted:
                break
            time.sleep(0.01)
        assert policy.tenants() == ({place: wanted} if wanted else {})


@needs_ovsdb
def test_what_others_set_is_seen(database, policy):
    database.vsctl("set", "interface", "tap0", "other_config:shim-weight=7")
    for _ in range(100):
        policy.run()
        if policy.read(0xA1, "tap0") == {"weight": 7}:
            break
        time.sleep(0.02)
    assert policy.read(0xA1, "tap0") == {"weight": 7}


@needs_ovsdb
def test_guarantees_of_the_others_and_the_uplinks_capacity(policy):
    assert policy.guarantees(0xA1, {"tap0"}) == (3_000_000, 10_000_000)
    assert policy.guarantees(0xA1, {"tap1"}) == (0, 10_000_000)


@needs_ovsdb
def test_of_two_that_grant_the_same_capacity_at_once_the_later_sees_the_others(database, policy):
    other = Policy([database.remote], time.sleep)
    seen = []

    def check():
        granted, capacity = policy.guarantees(0xA1, {"tap0"})
        seen.append(granted)
        if len(seen) == 1:
            other.write(0xA1, {"tap1": {"min": 6_000_000}})  # between what is read here and what is stored
        if granted + 6_000_000 > capacity:
            raise PermissionError

    while other.read(0xA1, "up0") is None:
        other.run()
    with pytest.raises(PermissionError):
        policy.write(0xA1, {"tap0": {"min": 6_000_000}}, check)
    assert seen == [3_000_000, 6_000_000]
    assert policy.read(0xA1, "tap0") == {}
    policy.write(0xA1, {"tap0": {"min": 4_000_000}})
    assert policy.read(0xA1, "tap0") == {"min": 4_000_000}


@needs_ovsdb
def test_unknown_port(policy):
    assert policy.read(0xA1, "tap9") is None
    with pytest.raises(PolicyError, match="no OVSDB remote has port tap9 of switch 00000000000000a1"):
        policy.write(0xA1, {"tap9": {"weight": 1}})


def run_until(policy, condition):
    """Run the clients until a condition holds; fail after a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, [one.in_words() for one in policy.health()]
        policy.run()
        time.sleep(0.01)


def state(policy):
    return [one.state for one in policy.health()]


@pytest.fixture
def hasty(monkeypatch):
    """Make what is waited for end soon, with the same order of the waits."""
    monkeypatch.setattr(client, "PROBE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(client, "COMMIT_TIMEOUT_S", 0.4)
    monkeypatch.setattr(health, "HUNG_NS", 300_000_000)
    monkeypatch.setattr(health, "PROBE_NS", 100_000_000)
    monkeypatch.setattr(health, "UNREACHABLE_NS", 200_000_000)


@needs_ovsdb
def test_database_that_is_gone(database, policy, hasty, caplog):
    caplog.set_level("INFO")
    database.process.terminate()
    database.process.wait(10)
    with pytest.raises(PolicyError, match="nothing was sent"):
        policy.write(0xA1, {"tap0": {"weight": 9}})
    run_until(policy, lambda: state(policy) == ["unreachable"])
    with pytest.raises(PolicyError, match="unreachable.*nothing was sent"):
        policy.write(0xA1, {"tap0": {"weight": 9}})
    database.restart()
    run_until(policy, lambda: state(policy) == ["connected"])
    said = [record.message for record in caplog.records if database.remote in record.message]
    assert [text.split(": ")[1].split()[0] for text in said[-2:]] == ["unreachable", "connected"], said
    assert sum("unreachable:" in text for text in said) == 1


@needs_ovsdb
def test_a_database_whose_disk_is_full_refuses_changes_and_tells_all_else(database, policy):
    database.fill_disk()
    for _ in range(2):
        with pytest.raises(PolicyError, match="nothing was stored|I/O error|refused"):
            policy.write(0xA1, {"tap0": {"weight": 9}})
    assert state(policy) == ["connected"] and policy.read(0xA1, "tap0") == {}
    assert policy.guarantees(0xA1, {"tap0"}) == (3_000_000, 10_000_000)
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == "{}"
    database.make_room()
    policy.write(0xA1, {"tap0": {"weight": 4}})
    database.restart()
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == '{shim-weight="4"}'


@needs_ovsdb
def test_a_database_out_of_memory_is_gone_and_as_it_was_when_it_is_back(database, policy, hasty):
    policy.write(0xA1, {"tap0": {"weight": 4}})
    database.bound_memory()
    for number in range(200):
        name = f"other_config:n{number}={'x' * 100_000}"
        command = ["ovs-vsctl", "--no-wait", "--timeout=5", f"--db={database.remote}", "set", "bridge", "br0", name]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            break
    assert database.process.wait(10)  # it ends rather than going on with a part
    run_until(policy, lambda: state(policy) == ["unreachable"])
    with pytest.raises(PolicyError, match="nothing was sent"):
        policy.write(0xA1, {"tap0": {"weight": 9}})
    assert policy.read(0xA1, "tap0") == {"weight": 4}  # what was known stays in force
    database.restart()
    run_until(policy, lambda: state(policy) == ["connected"])
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == '{shim-weight="4"}'


@needs_ovsdb
def test_what_a_hung_database_was_refused_never_happens(database, policy, hasty, monkeypatch):
    database.hang()
    with pytest.raises(PolicyError, match="nothing was sent"):
        policy.write(0xA1, {"tap0": {"weight": 9}})
    run_until(policy, lambda: state(policy) == ["hung"])
    with pytest.raises(PolicyError, match="hung"):
        policy.write(0xA1, {"tap0": {"weight": 9}})
    database.resume()
    run_until(policy, lambda: state(policy) == ["connected"])
    monkeypatch.undo()  # a busy machine may take its time
    policy.write(0xA1, {"tap0": {"max": 8_000_000}})
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == '{shim-max-rate="8000000"}'


@needs_ovsdb
@pytest.mark.parametrize("stored", [True, False])
def test_a_change_without_answer_is_in_doubt_until_the_database_tells(database, policy, hasty, monkeypatch, stored):
    monkeypatch.setattr(client, "PROBE_TIMEOUT_S", 60)  # the database hangs after the echo, however long that took
    with pytest.raises(OutcomeUnknown, match="unknown") as caught:
        policy.write(0xA1, {"tap0": {"weight": 9}}, database.hang)
    doubt = caught.value.doubt
    run_until(policy, lambda: state(policy) == ["hung"])
    assert doubt.resolve() is None
    if not stored:  # what was in its buffers dies with it
        database.process.kill()
        database.restart()
    database.resume()
    run_until(policy, lambda: doubt.resolve() is not None)
    assert doubt.resolve() is stored
    said = database.vsctl("get", "interface", "tap0", "other_config").strip()
    assert said == ('{shim-weight="9"}' if stored else "{}")


@needs_ovsdb
def test_a_hung_database_delays_no_other(tmp_path, database, monkeypatch):
    monkeypatch.setattr(client, "PROBE_TIMEOUT_S", 1)
    (tmp_path / "other").mkdir()
    other = Database(tmp_path / "other")
    other.vsctl("set", "bridge", "br0", "datapath_id=00000000000000a2")
    written = []

    def sleep(seconds):
        time.sleep(seconds)
        if hung and not written:
            written.append(None)
            policy.write(0xA2, {"tap0": {"weight": 3}})
            written.append(policy.read(0xA2, "tap0"))

    hung = False
    try:
        policy = Policy([database.remote, other.remote], sleep)
        run_until(policy, lambda: state(policy) == ["connected", "connected"])
        database.hang()
        hung = True
        with pytest.raises(PolicyError, match="nothing was sent"):
            policy.write(0xA1, {"tap0": {"weight": 9}})
        assert written == [None, {"weight": 3}]
    finally:
        other.stop()


def test_no_remote():
    policy = Policy([], time.sleep)
    policy.run()
    assert policy.interfaces() == {} and policy.read(1, "tap0") is None


@needs_ovsdb
def test_tunnels_ends_are_read_and_those_set_by_flows_left_out(database, policy):
    for name, options in (
        ("vx1", ["options:local_ip=10.9.0.1", "options:remote_ip=10.9.0.2"]),
        ("vx2", ["options:remote_ip=fd00::2"]),
        ("vx3", ["options:remote_ip=flow"]),
    ):
        database.vsctl("add-port", "br0", name, "--", "set", "interface", name, "type=vxlan", *options)
    for _ in range(250):
        policy.run()
        if policy.read(0xA1, "vx3") is not None:
            break
        time.sleep(0.02)
    assert policy.tunnels() == {
        (0xA1, "vx1"): Tunnel(mapped(bytes((10, 9, 0, 1))), mapped(bytes((10, 9, 0, 2)))),
        (0xA1, "vx2"): Tunnel(None, bytes.fromhex("fd00" + "00" * 13 + "02")),
    }


@needs_ovsdb
def test_other_columns_are_read_as_ovs_vswitchd_reads_them(database, policy):
    database.vsctl(
        "set", "interface", "tap0", "external_ids:shim-weight=5", "external_ids:shim-min-rate=4000000",
        "status:shim-error=complaint", "--", "set", "port", "tap0", "other_config:shim-weight=6",
        "other_config:shim-law=eyeq", "--", "set", "open_vswitch", ".", "other_config:shim-law=scc",
    )  # fmt: skip
    run_until(policy, lambda: policy.read(0xA1, "tap0") == {"weight": 5, "min": 4_000_000, "law": "eyeq"})
    assert policy.guarantees(0xA1, {"tap1"}) == (4_000_000, 10_000_000)
    explained = policy.explain(0xA1, "tap0")
    assert explained.complaint == "complaint"
    assert explained.settings["weight"] == (5, "Interface:external_ids")
    assert explained.settings["law"] == ("eyeq", "Port:other_config")
    assert policy.explain(0xA1, "tap1").settings["law"] == ("scc", "Open_vSwitch:other_config")
    policy.write(0xA1, {"tap0": {"weight": 9, "law": "vcc"}})
    assert policy.explain(0xA1, "tap0").settings["weight"] == (9, "Interface:other_config")
    policy.write(0xA1, {"tap0": dict.fromkeys(("weight", "min", "max", "law"))})
    assert policy.read(0xA1, "tap0") == {"weight": 5, "min": 4_000_000, "law": "eyeq"}
    assert database.vsctl("get", "interface", "tap0", "other_config").strip() == "{}"
    assert policy.explain(0xA1, "tap9") is None


@needs_ovsdb
def test_several_ports_of_a_bridge_are_changed_together_or_not_at_all(database, policy):
    def check():
        assert policy.guarantees(0xA1, {"tap0", "tap1"}) == (0, 10_000_000)

    policy.write(0xA1, {"tap0": {"min": 5_000_000}, "tap1": {"min": None, "weight": 3}}, check)
    assert policy.read(0xA1, "tap0") == {"min": 5_000_000} and policy.read(0xA1, "tap1") == {"weight": 3}
    with pytest.raises(PolicyError, match="no OVSDB remote has port tap9"):
        policy.write(0xA1, {"tap0": {"weight": 8}, "tap9": {"weight": 8}})
    assert policy.read(0xA1, "tap0") == {"min": 5_000_000}
    assert "shim-weight" not in database.vsctl("get", "interface", "tap0", "other_config")


@needs_ovsdb
def test_what_a_node_says_is_wrong_with_its_shim_is_its_databases_fault(database, policy, caplog):
    assert policy.health()[0].fault is None
    database.vsctl("set", "Open_vSwitch", ".", "external_ids:sdngcc-error=\"no module\\n\x1b[2J\"")
    run_until(policy, lambda: policy.health()[0].fault)
    assert policy.health()[0].fault == "no module??[2J"
    assert [one.message for one in caplog.records if "no module" in one.message] == [
        f"hypervisor database {policy.health()[0].remote}: no module??[2J"]
    database.vsctl("set", "Open_vSwitch", ".", "external_ids:sdngcc-error=" + "x" * 1000)
    run_until(policy, lambda: policy.health()[0].fault == "x" * 512)
    database.vsctl("remove", "Open_vSwitch", ".", "external_ids", "sdngcc-error", "--", "set", "Interface", "tap0",
                   "status:shim-error=\"nothing is limited here\"")
    run_until(policy, lambda: "nothing is limited here" in (policy.health()[0].fault or ""))
    assert policy.health()[0].fault.startswith("ovs-vswitchd complains about 1 interfaces (shim-error), tap0: ")
    assert policy.health()[0].state == "connected"
    database.vsctl("remove", "Interface", "tap0", "status", "shim-error")
    run_until(policy, lambda: policy.health()[0].fault is None)
