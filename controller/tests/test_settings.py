# SPDX-License-Identifier: Apache-2.0
"""Settings are refused by name, with what is allowed."""

import pathlib
import re

import pytest

from sdngcc.controller.settings import PREFIX, Settings, SettingsError, load, read_secret, split_address


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text("00112233445566778899aabbccddeeff\n")
    return path


def env(key_file, **values):
    return {PREFIX + "KEY_FILE": str(key_file), **{PREFIX + key.upper(): text for key, text in values.items()}}


def test_defaults(key_file):
    settings = load(None, env(key_file))
    assert (settings.period_us, settings.division, settings.message_version) == (5000, "bytes", "v1")
    assert settings.rest == "127.0.0.1:8080"
    assert settings.read_key() == bytes.fromhex("00112233445566778899aabbccddeeff")


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".toml", 'period_us = 1000\ndivision = "equal"\nhypervisors = ["00:00:00:00:00:00:00:0a", 11]\n'),
        (".yaml", "period_us: 1000\ndivision: equal\nhypervisors: ['a', 11]\n"),
    ],
)
def test_file_then_environment(tmp_path, key_file, suffix, text):
    path = tmp_path / f"settings{suffix}"
    path.write_text(text)
    settings = load(path, env(key_file, period_us="10000", ovsdb="unix:/a, tcp:10.0.0.1:6640"))
    assert settings.period_us == 10000
    assert settings.division == "equal"
    assert settings.hypervisors == (10, 11)
    assert settings.ovsdb == ("unix:/a", "tcp:10.0.0.1:6640")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"perod_us": "5000"}, "perod_us: unknown key"),
        ({"period_us": "100"}, "period_us: .*greater than or equal to 500.*got '100'"),
        ({"period_us": "soon"}, "period_us: .*integer"),
        ({"division": "fair"}, "division: .*'bytes', 'sent' or 'equal'"),
        ({"message_version": "v2"}, "message_version: .*'v0' or 'v1'"),
        ({"ovsdb": "/run/db.sock"}, "ovsdb: .*no OVSDB remote; unix:<path>"),
        ({"rest": "8080"}, "rest: .*<address>:<port>"),
        ({"rest": "127.0.0.1:70000"}, "rest: .*0 to 65535"),
        ({"hypervisors": "zz"}, 'hypervisors: .*"zz" is no datapath id'),
        ({"hypervisors": "1", "fabric": "1"}, "datapath 0000000000000001 is named in both"),
        ({"cluster": "localhost:6641"}, "cluster: .*no OVSDB remote"),
        ({"lease_ms": "100"}, "lease_ms: .*greater than or equal to 300"),
        ({"framework": "pox"}, "framework: .*'auto', 'ryu' or 'os-ken'"),
        ({"protocol": "300"}, "protocol: .*254"),
        ({"mark_source": "snmp"}, "mark_source: .*'openflow-ce'"),
        ({"mark_source": "sonic"}, "sonic_redis is needed for mark_source sonic"),
        ({"mark_source": "sflow"}, "sflow_agents is needed for mark_source sflow"),
        ({"sflow_agents": "10.0.0.1=1,10.0.0.1=1"}, "sflow_agents: .*named twice"),
        ({"sonic_redis": "10.0.0.1:6379"}, "sonic_redis: .*no <name>=<datapath id>"),
        ({"sonic_redis": "10.0.0.1=1"}, "sonic_redis: .*<address>:<port>"),
        ({"sonic_redis": "10.0.0.1:1=1,10.0.0.1:1=2"}, "sonic_redis: .*named twice"),
        ({"sonic_ports": "1001/Ethernet0=0"}, "sonic_ports: .*port of 1 to"),
        ({"sonic_ports": "zz/Ethernet0=1"}, 'sonic_ports: .*"zz" is no datapath id'),
        ({"sonic_period_ms": "1"}, "sonic_period_ms: .*10"),
        ({"sflow_listen": "6343"}, "sflow_listen: .*<address>:<port>"),
        ({"sflow_agents": "switch1=1"}, "sflow_agents: .*<IP address>"),
        ({"sflow_agents": "10.0.0.1/x=1"}, "sflow_agents: .*sub-agent is a number"),
        ({"sflow_ports": "1001/eth0=1"}, "sflow_ports: .*no ifIndex"),
        ({"sflow_rt_url": "https://host/path"}, "sflow_rt_url: .*http://<address>"),
    ],
)
def test_refusals(key_file, changes, said):
    with pytest.raises(SettingsError, match=said):
        load(None, env(key_file, **changes))


def test_several_faults_are_told_at_once(key_file):
    with pytest.raises(SettingsError) as caught:
        load(None, env(key_file, nonsense="1", period_us="0"))
    assert "nonsense" in str(caught.value) and "period_us" in str(caught.value)
    assert "known keys" in str(caught.value)


def test_v1_needs_a_key_and_v0_does_not():
    with pytest.raises(SettingsError, match="key_file is needed"):
        load(None, {})
    assert load(None, {PREFIX + "MESSAGE_VERSION": "v0"}).read_key() == bytes(16)
    assert load(None, {PREFIX + "NOTIFY": "false"}).notify is False
    with pytest.raises(SettingsError, match="key_file is needed for cluster"):
        load(None, {PREFIX + "NOTIFY": "false", PREFIX + "CLUSTER": "unix:/a"})


def test_nothing_listens_beyond_loopback_unless_told(key_file):
    settings = load(None, env(key_file))
    for address in (settings.rest, settings.openflow):
        assert split_address(address)[0] == "127.0.0.1"


@pytest.mark.parametrize("text", ["", "0011", "00112233445566778899aabbccddeeff00", "zz" * 16])
def test_unusable_key(tmp_path, text):
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(SettingsError, match="32 hex digits"):
        load(None, env(path)).read_key()


@pytest.mark.parametrize(("mode", "private"), [(0o600, True), (0o640, True), (0o644, False), (0o602, False)])
def test_files_with_secrets_are_not_for_everybody(key_file, mode, private):
    key_file.chmod(mode)
    for read in (load(None, env(key_file)).read_key, lambda: read_secret("sonic_password_file", key_file)):
        if private:
            assert read()
        else:
            with pytest.raises(SettingsError, match=f"_file {key_file}: everybody may use it .mode {mode:o}.*640"):
                read()


def test_unreadable_files(tmp_path, key_file):
    with pytest.raises(SettingsError, match="No such file"):
        load(None, env(tmp_path / "none")).read_key()
    with pytest.raises(SettingsError, match="settings file .*No such file"):
        load(tmp_path / "none.toml", env(key_file))
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(SettingsError, match="must hold keys and values"):
        load(tmp_path / "list.yaml", env(key_file))
    (tmp_path / "broken.toml").write_text("a = \n")
    with pytest.raises(SettingsError, match="broken.toml"):
        load(tmp_path / "broken.toml", env(key_file))


def test_addresses():
    assert split_address("[::1]:80") == ("::1", 80)
    assert split_address("localhost:8080") == ("localhost", 8080)


def test_settings_cannot_change_later(key_file):
    settings = load(None, env(key_file))
    with pytest.raises(ValueError, match="frozen"):
        settings.period_us = 1


def test_every_setting_is_documented_with_its_default():
    text = (pathlib.Path(__file__).parents[2] / "docs/controller.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    for name, field in Settings.model_fields.items():
        default = field.default
        shown = "none" if default in (None, ()) else str(default).lower() if isinstance(default, bool) else str(default)
        assert rows.get(name, "").strip() == shown, name
