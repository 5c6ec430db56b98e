# SPDX-License-Identifier: Apache-2.0
"""Settings are refused by name, with what is allowed."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

import pytest

from sdngcc.controller.settings import PREFIX, Settings, SettingsError, load, read_secret, split_address
from sdngcc.controller.settings.files import check_files


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
        (".toml", 'period_us = 1000\ndivision = "equal"\nhypervisors = ["00:00:00:00:00:00:00:0a", "b"]\n'),
        (".yaml", "period_us: 1000\ndivision: equal\nhypervisors: ['a', '0xb']\n"),
        (".json", '{"period_us": 1000, "division": "equal", "hypervisors": ["a", "b"]}'),
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
        ({"event_hub": "poll"}, "^event_hub: there is one hub now.*leave the key out$"),
        ({"period_us": "100"}, "period_us: .*greater than or equal to 500.*got '100'"),
        ({"period_us": "soon"}, "period_us: .*integer"),
        ({"ovn_sb": "10.0.0.1:6642"}, 'ovn_sb: .*"10.0.0.1:6642" is no OVSDB remote; unix:<path>, tcp:'),
        ({"ovn_sb": "tcp:a:6642,ssl:b:6642"}, "ovn_sb: an ssl: remote needs openflow_tls_key, openflow_tls_cert"),
        ({"neutron_endpoint": "10.0.0.1:9696"}, 'neutron_endpoint: .*"10.0.0.1:9696" is no http'),
        ({"neutron_endpoint": "http://me:secret@a"}, "neutron_endpoint: .* is no http"),
        ({"neutron_endpoint": "http://a", "neutron_cloud": "b"}, "neutron_cloud does not go with neutron_endpoint"),
        ({"neutron_endpoint": "http://a", "nova_names": "true"}, "nova_names: Nova is found by neutron_cloud only"),
        ({"neutron_period_s": "1"}, "neutron_period_s: .*greater than or equal to 5"),
        ({"division": "fair"}, "division: .*'bytes', 'sent' or 'equal'"),
        ({"message_version": "v2"}, "message_version: .*'v0' or 'v1'"),
        ({"ovsdb_listen": "10.0.0.1:6640"}, "ovsdb_listen 10.0.0.1:6640: beyond loopback it needs openflow_tls_key"),
        ({"ovsdb_listen": "6640"}, '"6640" is no <address>:<port>'),
        ({"admit_file": "/etc/admitted"}, "admit_file: certificates are shown with openflow_tls_key"),
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
        ({"sflow_senders": "10.0.0.1=192.0.2.1/24"}, "sflow_senders: .*<IP address or network>"),
        ({"sflow_senders": "10.0.0.1=::1,10.0.0.1=::1"}, "sflow_senders: .*named twice"),
        ({"sflow_ports": "1001/eth0=1"}, "sflow_ports: .*no ifIndex"),
        ({"sflow_rt_url": "https://host/path"}, "sflow_rt_url: .*http://<address>"),
    ],
)
def test_refusals(key_file, changes, said):
    with pytest.raises(SettingsError, match=said):
        load(None, env(key_file, **changes))


@pytest.mark.parametrize(
    ("text", "dpid"),
    [
        ("0000000000001001", 0x1001),  # octal to YAML 1.1: 513
        ("10:01", 0x1001),  # sexagesimal to YAML 1.1: 601
        ("00:00:00:00:00:00:10:01", 0x1001),
        ("0x1001", 0x1001),
        ("10e1", 0x10E1),
        ("1_0", None),
        ("1001", None),
        ("-5", None),
        ("1.5", None),
        ("10000000000000001", None),
        ("true", None),
    ],
)
def test_a_datapath_id_is_what_stands_in_the_file_or_is_refused(tmp_path, key_file, text, dpid):
    path = tmp_path / "settings.yaml"
    path.write_text(f"hypervisors:\n  - {text}\n")
    if dpid is not None:
        assert load(path, env(key_file)).hypervisors == (dpid,)
        return
    with pytest.raises(SettingsError, match="hypervisors: .*(quote it|no datapath id)"):
        load(path, env(key_file))


def test_a_bare_number_is_no_datapath_id_in_toml_either(tmp_path, key_file):
    path = tmp_path / "settings.toml"
    path.write_text("fabric = [1001]\n")
    with pytest.raises(SettingsError, match='fabric: 1001 is a bare number; .*quote it: "1001"'):
        load(path, env(key_file))


@pytest.mark.parametrize("dpid", [-5, 1 << 64, True])
def test_numbers_out_of_range_are_no_datapath_ids(key_file, dpid):
    with pytest.raises(ValueError, match="no datapath id"):
        Settings(key_file=key_file, hypervisors=(dpid,))


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".yaml", "period_us: 1000\ndivision: equal\nperiod_us: 5000\n"),
        (".toml", "period_us = 1000\nperiod_us = 5000\n"),
        (".json", '{"period_us": 1000, "period_us": 5000}'),
    ],
)
def test_a_key_comes_once(tmp_path, key_file, suffix, text):
    path = tmp_path / f"settings{suffix}"
    path.write_text(text)
    with pytest.raises(SettingsError, match=f"settings{suffix}: (.|\n)*(period_us\" is given twice|overwrite)"):
        load(path, env(key_file))


def test_yaml_numbers_and_words_of_other_settings(tmp_path, key_file):
    path = tmp_path / "settings.yaml"
    path.write_text("period_us: 1000\nheadroom_percent: 2.5\nnotify: off\ncapacity_mbps: ~\nsender_id: 007\n")
    settings = load(path, env(key_file))
    assert (settings.period_us, settings.headroom_percent, settings.notify) == (1000, 2.5, False)
    assert settings.capacity_mbps is None and settings.sender_id == 7


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path, key_file):
    path = tmp_path / "settings.yaml"
    path.write_text("framework: ryu\nsender_id: 1\nlease_ms: 400\n")
    settings = load(path, env(key_file, framework="auto", sender_id="2"), {"framework": "os-ken"})
    assert (settings.framework, settings.sender_id, settings.lease_ms) == ("os-ken", 2, 400)


def test_all_files_that_cannot_be_used_are_told_at_once(tmp_path, key_file):
    key_file.chmod(0o644)
    (tmp_path / "folder").mkdir()
    settings = load(None, env(
        key_file, rest_tls_cert=tmp_path / "none.pem", rest_tls_key=tmp_path / "none.pem",
        rest_token_file=tmp_path / "none", openflow_tls_key=tmp_path / "ctl.pem", openflow_tls_cert=tmp_path / "c.pem",
        openflow_tls_ca=tmp_path / "ca.pem", audit_file=tmp_path / "none/audit", trace_file=tmp_path / "folder",
        sonic_password_file=tmp_path / "none",
    ))  # fmt: skip
    with pytest.raises(SettingsError) as caught:
        check_files(settings)
    said = str(caught.value).splitlines()
    assert [line.split()[0] for line in said] == [
        "key_file", "rest_token_file", "rest_tls_cert", "openflow_tls_key", "sonic_password_file", "audit_file",
        "trace_file",
    ]  # fmt: skip
    assert "there is no folder" in said[5] and "it is no file" in said[6]


def test_folders_that_cannot_be_written_in_are_found(tmp_path, key_file, monkeypatch):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    if os.geteuid() == 0:  # who may write anywhere
        monkeypatch.setattr(os, "access", lambda path, mode: path != folder)
    with pytest.raises(SettingsError, match=f"trace_file .*: folder {folder} cannot be written in by this user"):
        check_files(load(None, env(key_file, trace_file=folder / "trace")))


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (None, 0o600, "neutron_clouds_file .*No such file"),
        ("clouds: {mine: {}}", 0o604, "neutron_clouds_file .*everybody may use it"),
        ("clouds: {other: {}, more: {}}", 0o600, "neutron_cloud mine: no cloud of .*; allowed: more, other"),
        ("[1, 2]", 0o600, "neutron_cloud mine: no cloud of .*; allowed: none, for it has no `clouds`"),
        ("clouds: {", 0o600, "neutron_clouds_file .*expected"),
    ],
)
def test_a_cloud_is_one_of_its_file(tmp_path, key_file, monkeypatch, text, mode, said):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "4")
    path = tmp_path / "clouds.yaml"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(SettingsError, match=said):
        check_files(load(None, env(key_file, neutron_cloud="mine", neutron_clouds_file=str(path))))


def test_neutron_is_not_asked_without_openstacksdk(key_file, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    with pytest.raises(SettingsError, match=r"neutron_endpoint: .*pip install sdn-gcc\[openstack\]"):
        check_files(load(None, env(key_file, neutron_endpoint="http://127.0.0.1:9696")))


def test_check_says_what_is_wrong_and_starts_nothing(tmp_path, key_file):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    environment.update(env(key_file, audit_file=f"{tmp_path}/none/audit"))
    command = [sys.executable, "-m", "sdngcc.main", "controller", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1 and f"audit_file {tmp_path}/none/audit: there is no folder" in done.stderr
    environment[PREFIX + "AUDIT_FILE"] = f"{tmp_path}/audit"
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0 and '"period_us": 5000' in done.stdout and not (tmp_path / "audit").exists()


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
        text = str(default).lower() if isinstance(default, bool) else str(default)
        shown = "none" if default in (None, (), "") else text
        assert rows.get(name, "").strip() == shown, name


@pytest.mark.parametrize(
    "other, named",
    [
        ({"by_path": True}, "decision marks without by_path"),
        ({"decision": "maxmin"}, "decision marks without by_path"),
        ({"division": "equal"}, "division bytes and message_version v1"),
        ({"message_version": "v0"}, "division bytes and message_version v1"),
    ],
)
def test_levels_go_with_marks_of_what_a_port_carries(key_file, other, named):
    assert Settings(key_file=key_file).tells_levels and Settings(key_file=key_file, levels=True).tells_levels
    assert not Settings(key_file=key_file, levels=False).tells_levels
    assert not Settings(key_file=key_file, **other).tells_levels
    with pytest.raises(ValueError, match=f"levels needs {named}"):
        Settings(key_file=key_file, levels=True, **other)


def test_marks_by_path_need_their_division_and_messages_that_name_paths(key_file):
    assert Settings(key_file=key_file, decision="maxmin", division="sent", by_path=True).by_path
    assert Settings(key_file=key_file, by_path=True).decision == "marks"
    with pytest.raises(ValueError, match="by_path needs division bytes, not sent"):
        Settings(key_file=key_file, division="sent", by_path=True)
    with pytest.raises(ValueError, match="by_path needs message_version v1"):
        Settings(message_version="v0", by_path=True)
