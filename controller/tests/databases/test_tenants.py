# SPDX-License-Identifier: Apache-2.0
"""Where the policy of tenants is kept: a file, and a real ovsdb-server with the cluster's schema."""

import json
import signal
import subprocess
import time

import pytest

from sdngcc.configuration import SettingsError
from sdngcc.controller.cluster.database import SCHEMA, ClusterDatabase
from sdngcc.controller.databases.client import OutcomeUnknown, PolicyError
from sdngcc.controller.databases.tenants import NoStore, TenantFile, TenantTable, make_store
from sdngcc.controller.settings import Settings

from .test_ovsdb import needs_ovsdb

pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated")


def take(_):
    """Refuse nothing."""


# The file


def test_a_file_keeps_what_is_changed(tmp_path):
    path = tmp_path / "tenants.json"
    store = TenantFile(path)
    assert store.read() == {} and not path.exists()
    store.write("gold", {"weight": 2, "max": 10**9}, take)
    store.write("gold", {"weight": None, "min": 8000}, take)
    store.write("tin", {}, take)
    assert TenantFile(path).read() == store.read() == {"gold": {"max": 10**9, "min": 8000}, "tin": {}}
    store.write("gold", None, take)
    assert json.loads(path.read_text()) == {"tenants": {"tin": {}}}
    assert [one.name for one in tmp_path.iterdir()] == ["tenants.json"]


def test_a_change_that_is_refused_is_not_kept(tmp_path):
    store = TenantFile(tmp_path / "tenants.json")
    seen = []

    def refuse(before):
        seen.append(before)
        raise LookupError

    store.write("gold", {"weight": 2}, take)
    for name in ("gold", "tin"):
        with pytest.raises(LookupError):
            store.write(name, {"weight": 3}, refuse)
    assert seen == [{"weight": 2}, None] and store.read() == {"gold": {"weight": 2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the whole: Invalid JSON"),
        ("[]", "allowed: an object with tenants"),
        ('{"tenants": {"two words": {}}}', "tenants.two words"),
        ('{"tenants": {"gold": {"weight": 0}}}', "tenants.gold.weight"),
        ('{"tenants": {"gold": {"law": "static"}}}', "tenants.gold.law"),
        ('{"tenants": {"gold": {"min": 9000, "max": 8000}}}', "min of 9000 bit/s is above max of 8000"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(tmp_path, text, words):
    path = tmp_path / "tenants.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match="tenant_file") as refused:
        TenantFile(path)
    assert words in str(refused.value)


def test_settings_choose_the_place(tmp_path):
    values = {"key_file": tmp_path / "key"}
    assert isinstance(make_store(Settings(**values), time.sleep), NoStore)
    assert isinstance(make_store(Settings(tenant_file=tmp_path / "t", **values), time.sleep), TenantFile)
    assert isinstance(make_store(Settings(cluster=("unix:/none",), **values), time.sleep), TenantTable)
    with pytest.raises(ValueError, match="tenant_file does not go with cluster"):
        Settings(tenant_file=tmp_path / "t", cluster=("unix:/none",), **values)


# The cluster's database


class Server:
    def __init__(self, folder, schema=SCHEMA):
        self.remote = f"unix:{folder}/cluster.sock"
        subprocess.run(["ovsdb-tool", "create", f"{folder}/cluster.db", str(schema)], check=True)
        self.process = subprocess.Popen(
            ["ovsdb-server", f"--remote=p{self.remote}", f"--unixctl={folder}/cluster.ctl", "-vconsole:off",
             f"{folder}/cluster.db"])  # fmt: skip

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def server(tmp_path):
    found = Server(tmp_path)
    yield found
    found.stop()


def until(condition, *stores):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        for store in stores:
            store.run()
        time.sleep(0.01)


def connect(server):
    store = TenantTable([server.remote], time.sleep)
    until(lambda: store.health()[0].state == "connected", store)
    return store


@needs_ovsdb
def test_controllers_of_a_cluster_see_each_others_changes(server):
    one, other = connect(server), connect(server)
    one.write("gold", {"weight": 2, "max": 10**14}, take)
    assert one.read() == {"gold": {"weight": 2, "max": 10**14}}
    until(lambda: other.read() == one.read(), other)
    other.write("gold", {"max": None, "min": 8000}, take)
    until(lambda: one.read() == {"gold": {"weight": 2, "min": 8000}}, one)
    one.write("gold", None, take)
    one.write("nobody", None, take)
    until(lambda: other.read() == {}, other)


@needs_ovsdb
def test_a_change_is_checked_against_what_another_stored_meanwhile(server):
    """The other's change reaches this one only while its own is being stored."""
    one, other = connect(server), connect(server)
    one.write("gold", {"max": 10_000}, take)
    until(lambda: "gold" in other.read(), other)
    seen = []

    def check(before):
        seen.append(before)
        if len(seen) == 1:
            one.write("gold", {"min": 9000}, take)

    other.write("gold", {"max": 9000}, check)
    assert seen == [{"max": 10_000}, {"max": 10_000, "min": 9000}]
    assert other.read() == {"gold": {"max": 9000, "min": 9000}}


@needs_ovsdb
def test_a_database_that_hangs_is_told_of_before_anything_is_sent(server):
    store = connect(server)
    server.process.send_signal(signal.SIGSTOP)
    with pytest.raises(PolicyError, match=r"cluster database .*\(table Tenant\) does not answer.*nothing was sent"):
        store.write("gold", {"weight": 2}, take)


@needs_ovsdb
def test_a_change_that_is_not_answered_is_in_doubt_and_settled(server):
    store = connect(server)

    def check(_):
        server.process.send_signal(signal.SIGSTOP)

    with pytest.raises(OutcomeUnknown, match="was sent to cluster database") as unknown:
        store.write("gold", {"weight": 2}, check)
    server.process.send_signal(signal.SIGCONT)
    until(lambda: unknown.value.doubt.resolve() is not None, store)
    assert unknown.value.doubt.resolve() == ("gold" in store.read())


@needs_ovsdb
def test_a_database_of_an_earlier_schema_serves_the_cluster_and_takes_no_tenants(tmp_path):
    schema = json.loads(SCHEMA.read_text())
    del schema["tables"]["Tenant"]
    (tmp_path / "earlier.ovsschema").write_text(json.dumps(schema | {"version": "1.1.0"}))
    server = Server(tmp_path, tmp_path / "earlier.ovsschema")
    try:
        database, store = ClusterDatabase([server.remote]), TenantTable([server.remote], time.sleep)
        until(lambda: database.contact()[1], database)
        until(lambda: store.health()[0].state == "hung", store)
        with pytest.raises(PolicyError, match="nothing was sent to it"):
            store.write("gold", {"weight": 2}, take)
        assert "ovsdb-client convert" in store.health()[0].consequence
        subprocess.run(["ovsdb-client", "convert", server.remote, str(SCHEMA)], check=True, timeout=30)
        until(lambda: store.health()[0].state == "connected", store, database)
        store.write("gold", {"weight": 2}, take)
        until(lambda: database.contact()[1], database)
        database.close()
    finally:
        server.stop()
