# SPDX-License-Identifier: Apache-2.0
"""The receiver's process under a real gRPC client: exports arrive, nothing else does, and it ends when it should."""

import collections
import os
import shutil
import subprocess
import threading

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub

from sdngcc.controller.otlp import receiver
from sdngcc.controller.otlp.metrics import MARKED, Series, Value
from sdngcc.controller.otlp.process import Receiver
from sdngcc.controller.otlp.records import Export, Listening, Orders, Refusals, export_lines, parse
from sdngcc.controller.otlp.revocation import LOOK_S, VERDICT_S, Revocation

from ..processes import PATIENCE_S, free_port, wait_for
from ..real_ovs import make_list
from .exporter import Exporter

SWITCHES = {"leaf1": 0x1001, "leaf2": 0x1002}
DATA = Exporter().gauges([("Ethernet0|3", 7, 5)]).bytes()
ARRIVED = Export(0x1001, {Series("Ethernet0", 3, MARKED): Value(7, 5, 0, False)})


class Running:
    """A receiver, and all it said."""

    def __init__(self, **files):
        self.address = f"127.0.0.1:{free_port()}"
        self.process = Receiver(Orders(self.address, SWITCHES, **files))
        self.said = []
        self.wait(lambda: any(isinstance(one, Listening) for one in self.said))

    def wait(self, condition):
        def met():
            lines = self.process.lines(0.05)
            assert lines is not None, "the receiver ended"
            self.said += map(parse, lines)
            return condition()

        wait_for(met, lambda: str(self.said))

    def refused(self):
        total = collections.Counter()
        for one in self.said:
            if isinstance(one, Refusals):
                total.update(one.counts)
        return total

    def exports(self):
        return [one for one in self.said if isinstance(one, Export)]

    def call(self, data, method=receiver.EXPORT, credentials=None, **options):
        """Return the answer to bytes sent as a call."""
        channel = grpc.secure_channel(self.address, credentials) if credentials else grpc.insecure_channel(self.address)
        with channel:
            return channel.unary_unary(method)(data, timeout=PATIENCE_S, wait_for_ready=credentials is None, **options)


@pytest.fixture
def running():
    one = Running()
    yield one
    one.process.close()


def test_an_export_arrives(running):
    answer = running.call(DATA)
    assert not ExportMetricsServiceResponse.FromString(answer).partial_success.rejected_data_points
    running.wait(running.exports)
    assert running.exports() == [ARRIVED]
    with grpc.insecure_channel(running.address) as channel:
        MetricsServiceStub(channel).Export(Exporter("leaf2").gauges([("Ethernet0|3", 1, 5)]).request)
    running.wait(lambda: len(running.exports()) == 2)
    assert running.exports()[1].dpid == 0x1002


def test_what_is_refused_is_answered_with_success_and_counted(running):
    """A collector that rejects points ends SONiC's countersyncd."""
    for exporter in (Exporter("leaf9"), Exporter().gauges([("Ethernet0", 7, 5)])):
        answer = running.call(exporter.bytes())
        assert ExportMetricsServiceResponse.FromString(answer) == ExportMetricsServiceResponse()
    running.wait(lambda: running.refused() == {"switch_unknown": 1, "object_malformed": 1})
    assert not running.exports()


@pytest.mark.parametrize(
    ("data", "options", "status"),
    [
        (b"\xff" * 50, {}, grpc.StatusCode.INVALID_ARGUMENT),
        (bytes(receiver.MESSAGE_MAX_BYTES + 1), {}, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (DATA * 100, {"compression": grpc.Compression.Gzip}, grpc.StatusCode.UNIMPLEMENTED),
        (DATA, {"method": receiver.EXPORT.replace("metrics", "trace")}, grpc.StatusCode.UNIMPLEMENTED),
        (DATA, {"metadata": (("key", "x" * 100_000),)}, None),
    ],
    ids=["nonsense", "too long", "compressed", "another call", "metadata"],
)
def test_what_no_exporter_sends_is_refused_and_the_next_export_arrives(running, data, options, status):
    with pytest.raises(grpc.RpcError) as error:
        running.call(data, **options)
    assert status in (None, error.value.code())
    running.call(DATA)
    running.wait(running.exports)
    assert running.exports() == [ARRIVED]


def test_nonsense_is_counted(running):
    for options in ({}, {"method": "/x/y"}):
        with pytest.raises(grpc.RpcError):
            running.call(b"\xff" * 50, **options)
    running.wait(lambda: running.refused() == {"malformed": 1, "call_unknown": 1})


@pytest.mark.parametrize(
    ("data", "options"),
    [(bytes(receiver.MESSAGE_MAX_BYTES + 1), {}), (DATA * 100, {"compression": grpc.Compression.Gzip})],
    ids=["too long", "compressed"],
)
def test_messages_that_grpc_refuses_are_counted(running, data, options):
    for _ in range(2):
        with pytest.raises(grpc.RpcError):
            running.call(data, **options)
    running.call(DATA)
    running.wait(lambda: running.refused() == {"message_refused": 2})


def test_many_at_once(running):
    def export(number):
        for count in range(20):
            running.call(Exporter().gauges([(f"Ethernet{number}|3", count, count + 1)]).bytes())

    threads = [threading.Thread(target=export, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    running.wait(lambda: len(running.exports()) == 80)
    for thread in threads:
        thread.join()


def test_the_kernel_bounds_its_files_and_addresses(running):
    bounds = {"Max open files": receiver.DESCRIPTORS_MAX, "Max address space": receiver.MEMORY_MAX_BYTES}
    with open(f"/proc/{running.process._process.pid}/limits") as lines:
        shown = {line[:26].strip(): int(line[26:].split()[0]) for line in lines if line[:26].strip() in bounds}
    assert shown == bounds and bounds["Max open files"] == 1024 and bounds["Max address space"] == 4 << 30


def test_an_address_that_another_process_has_ends_it():
    port = free_port()
    first = Running.__new__(Running)
    first.process = Receiver(Orders(f"127.0.0.1:{port}", SWITCHES))
    try:
        wait_for(lambda: list(first.process.lines(0.05)), str)
        second = Receiver(Orders(f"127.0.0.1:{port}", SWITCHES))
        try:
            wait_for(lambda: second.lines(0.05) is None, str)
        finally:
            second.close()
    finally:
        first.process.close()


def test_it_ends_with_the_controller(running):
    """Its standard input ends when the controller does, even by SIGKILL."""
    running.process._input.close()

    def ended():
        lines = running.process.lines(0.05)
        return lines is None

    wait_for(ended, str)
    assert running.process._process.wait(PATIENCE_S) == 0
    running.process._input = open(os.devnull, "wb")


# TLS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where keys and certificates are: of an authority, a server, a collector and a switch, and of a stranger.

    One more authority is below the first, and has signed the certificate of ``branch``.
    """
    if shutil.which("openssl") is None:
        pytest.fail("openssl is missing; testbed/setup.sh installs it")
    folder = tmp_path_factory.mktemp("pki")

    def run(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    def sign(name, authority, extension):
        run("req", *curve, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / "extensions").write_text(f"{extension}\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", "2", "-extfile", "extensions", "-out", f"{name}.pem")  # fmt: skip

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for authority, names in (("ca", ("127.0.0.1", "collector", "leaf2")), ("other", ("stranger",))):
        run("req", "-x509", *curve, "-days", "2", "-subj", f"/CN={authority}", "-keyout", f"{authority}.key",
            "-out", f"{authority}.pem")  # fmt: skip
        for name in names:
            sign(name, authority, f"subjectAltName={'IP' if name[0] == '1' else 'DNS'}:{name}")
    sign("below", "ca", "basicConstraints=critical,CA:TRUE")
    sign("branch", "below", "subjectAltName=DNS:branch")
    with open(folder / "branch.pem", "a") as file:
        file.write((folder / "below.pem").read_text())  # what it shows
    return folder


@pytest.fixture(scope="module")
def pki(folder):
    """Keys and certificates, PEM by file's name."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix in (".key", ".pem")}


@pytest.fixture
def guarded(pki):
    one = Running(key=pki["127.0.0.1.key"], certificate=pki["127.0.0.1.pem"], authority=pki["ca.pem"])
    yield one
    one.process.close()


def as_peer(pki, name):
    own = (pki[f"{name}.key"].encode(), pki[f"{name}.pem"].encode()) if name else (None, None)
    return grpc.ssl_channel_credentials(pki["ca.pem"].encode(), *own)


def test_with_tls_a_certificate_of_the_authority_is_needed(pki, guarded):
    for stranger in (None, "stranger"):
        with pytest.raises(grpc.RpcError):
            guarded.call(DATA, credentials=as_peer(pki, stranger))
    with pytest.raises(grpc.RpcError):
        with grpc.insecure_channel(guarded.address) as channel:
            channel.unary_unary(receiver.EXPORT)(DATA, timeout=PATIENCE_S)
    guarded.call(DATA, credentials=as_peer(pki, "collector"))
    guarded.wait(guarded.exports)
    assert guarded.exports() == [ARRIVED]


def test_a_switch_with_a_certificate_of_its_own_speaks_for_itself_only(pki, guarded):
    guarded.call(DATA, credentials=as_peer(pki, "leaf2"))
    guarded.wait(lambda: guarded.refused() == {"switch_foreign": 1})
    guarded.call(Exporter("leaf2").gauges([("Ethernet0|3", 1, 5)]).bytes(), credentials=as_peer(pki, "leaf2"))
    guarded.wait(guarded.exports)
    assert [one.dpid for one in guarded.exports()] == [0x1002]


# Certificates that are revoked


@pytest.fixture
def make_crl(folder, tmp_path):
    """Return what makes the list of an authority's certificates that are revoked, in the place of the one before."""

    def make(*revoked, authority="ca", **more):
        own = tmp_path / authority
        own.mkdir(exist_ok=True)
        for kind, name in (("pem", "cert"), ("key", "privkey")):
            shutil.copy(folder / f"{authority}.{kind}", own / f"authority-{name}.pem")
        made = make_list(own, *(folder / f"{name}.pem" for name in revoked), **more)
        (tmp_path / "lists").mkdir(exist_ok=True)
        os.replace(made, tmp_path / "lists" / f"{authority}.crl")
        return tmp_path / "lists"

    return make


@pytest.fixture
def start_listed(pki, make_crl):
    """Return what starts a receiver with a folder of lists, by which nobody is revoked at first."""
    made = []

    def start():
        made.append(Running(key=pki["127.0.0.1.key"], certificate=pki["127.0.0.1.pem"], authority=pki["ca.pem"],
                            lists=str(make_crl())))  # fmt: skip
        return made[-1]

    yield start
    for one in made:
        one.process.close()


@pytest.fixture
def listed(start_listed):
    return start_listed()


def refusal_of(running, pki, name):
    """Return why an export under a certificate is refused, None when it is not."""
    try:
        running.call(DATA, credentials=as_peer(pki, name))
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED
        return error.details()
    return None


def until_refused(running, pki, name, words):
    """Wait until an export under a certificate is refused with words, for lists are looked at once a second."""
    wait_for(lambda: words in (refusal_of(running, pki, name) or ""), str)


def test_a_revoked_certificate_is_refused_on_a_connection_that_stands_too(pki, listed, make_crl):
    with grpc.secure_channel(listed.address, as_peer(pki, "leaf2")) as channel:
        export = channel.unary_unary(receiver.EXPORT)
        data = Exporter("leaf2").gauges([("Ethernet0|3", 1, 5)]).bytes()
        export(data, timeout=PATIENCE_S)
        make_crl("leaf2")
        until_refused(listed, pki, "leaf2", "revoked by otlp_tls_crl")
        with pytest.raises(grpc.RpcError, match="revoked by otlp_tls_crl") as error:
            export(data, timeout=PATIENCE_S)
        assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
    listed.wait(lambda: listed.refused()["revoked"] == 2)
    before = len(listed.exports())
    assert refusal_of(listed, pki, "collector") is None
    listed.wait(lambda: len(listed.exports()) == before + 1)
    assert listed.exports()[-1] == ARRIVED


def test_without_a_list_of_each_authority_that_is_valid_now_nobody_is_let_in(pki, listed, make_crl):
    words = refusal_of(listed, pki, "branch")
    assert "unable to get certificate CRL" in words and "otlp_tls_crl" in words
    listed.wait(lambda: listed.refused() == {"revocation_unknown": 1})
    make_crl(authority="below")
    wait_for(lambda: refusal_of(listed, pki, "branch") is None, str)
    make_crl("below")  # the authority of branch
    until_refused(listed, pki, "branch", "revoked")
    make_crl(expired=True)
    until_refused(listed, pki, "branch", "CRL has expired")


def test_lists_that_cannot_be_used_leave_those_before_in_force(pki, start_listed, make_crl, capfd):
    listed, lists = start_listed(), make_crl("leaf2")
    until_refused(listed, pki, "leaf2", "revoked")
    (lists / "ca.crl").write_text("broken")
    listed.wait(lambda: refusal_of(listed, pki, "collector") is None and listed.refused()["lists_unusable"] == 1)
    told = capfd.readouterr().err
    assert f"otlp_tls_crl {lists / 'ca.crl'}: no list" in told and "the lists read before stay in force" in told
    assert "revoked" in refusal_of(listed, pki, "leaf2")


def test_a_verdict_holds_for_a_time(pki, folder, make_crl):
    now, told = [0.0], []
    lists = make_crl("leaf2")
    judging = Revocation(pki["ca.pem"], lists, told.append, lambda: now[0])

    def judge(name):
        refusal = judging.judge(pki[f"{name}.pem"].encode(), b"")
        return refusal and refusal.kind

    assert (judge("leaf2"), judge("collector"), judge("stranger")) == ("revoked", None, "revocation_unknown")
    assert judging.judge(b"nonsense", b"").kind == "revocation_unknown"
    (lists / "ca.crl").unlink()
    now[0] += LOOK_S
    assert judge("collector") is None and len(told) == 1 and "the folder holds no list" in told[0]
    make_crl("collector")
    assert judge("collector") is None
    now[0] += LOOK_S
    assert judge("collector") == "revoked" and len(told) == 1
    judged = []
    judging._verify = lambda *given: judged.append(given)
    assert judge("collector") == "revoked" and not judged
    now[0] += VERDICT_S
    assert judge("collector") is None and len(judged) == 1


# Without a process


def test_the_oldest_lines_give_way_when_nobody_reads(monkeypatch):
    monkeypatch.setattr(receiver, "LINES_MAX", 3)
    reading, writing = os.pipe()
    lines = receiver.Lines(writing)
    for number in range(5):
        lines.put(export_lines(1, {Series("Ethernet0", 3, MARKED): Value(number, 5, 0, False)}), collections.Counter())
    writer = threading.Thread(target=lines.write_always, daemon=True)
    writer.start()
    data = b""
    while data.count(b"\n") < 4:
        data += os.read(reading, 65536)
    told = [parse(line) for line in data.splitlines()]
    assert [list(one.values.values())[0].value for one in told[:3]] == [2, 3, 4]
    assert told[3] == Refusals({"queue_full": 2})
