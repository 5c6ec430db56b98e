# SPDX-License-Identifier: Apache-2.0
"""The web page in headless Chromium, before a real controller with two bridges and a switch between them."""

import os
import pathlib
import shutil
import signal
import threading

import pytest
from selenium import webdriver
from selenium.common.exceptions import JavascriptException
from selenium.webdriver.common.by import By

from ..fabric import arp, ipv4, port_reading, vm_reading
from ..processes import PATIENCE_S, Controller, WireSwitch, wait_for

# Where a run leaves its screenshots, if somebody wants to look at them.
PICTURES = os.environ.get("SDNGCC_PICTURES")
TOKEN = "page-secret-0123456789-0123456789ab"

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")), reason="chromium or its driver is not installed"
)


class Network:
    """Hypervisors A1 and A2 on ports 1 and 2 of switch B1; LLDP frames go along the wires."""

    def __init__(self, controller):
        self.controller = controller
        self.a1 = WireSwitch(0xA1, {1: b"up1", 2: b"tap-web", 3: b"tap-db"})
        self.a2 = WireSwitch(0xA2, {1: b"up2", 2: b"tap-batch"})
        self.fabric = WireSwitch(0xB1, {1: b"eth1", 2: b"eth2"})
        self.a1.vms = {2: vm_reading(2, 20_000_000, weight=2), 3: vm_reading(3, 5_000_000)}
        self.a2.vms = {2: vm_reading(2, 60_000_000)}
        self.fabric.marks = {1: port_reading(1), 2: port_reading(2)}
        self.wires = {(0xA1, 1): (self.fabric, 1), (0xB1, 1): (self.a1, 1), (0xA2, 1): (self.fabric, 2),
                      (0xB1, 2): (self.a2, 1)}  # fmt: skip
        self.switches = (self.a1, self.a2, self.fabric)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def start(self):
        for switch in self.switches:
            switch.connect(self.controller.address)
        self._thread.start()
        wait_for(lambda: self.controller.get("/v1/status")["links"] == 2, self.controller.log)
        wait_for(lambda: self.controller.get("/v1/status")["vms"] == 3, self.controller.log)
        self.a1.packet_in(2, arp(1, 3))
        self.a2.packet_in(2, arp(3, 1))
        self.a2.packet_in(2, ipv4(3, 1))

    def _carry(self):
        done = dict.fromkeys(self.switches, 0)
        while not self._over.wait(0.02):
            for switch in self.switches:
                sent = switch.packet_outs[done[switch] :]
                done[switch] += len(sent)
                for port, frame in sent:
                    if frame[12:14] == b"\x88\xcc" and (switch.dpid, port) in self.wires:
                        other, number = self.wires[switch.dpid, port]
                        other.packet_in(number, frame)

    def close(self):
        self._over.set()
        self._thread.join(PATIENCE_S)
        for switch in self.switches:
            switch.close()


@pytest.fixture
def browser(tmp_path):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1280,900", "--force-color-profile=srgb", f"--user-data-dir={tmp_path}/profile"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(PATIENCE_S)
    yield driver
    driver.quit()


def picture(browser, name):
    if PICTURES:
        pathlib.Path(PICTURES).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(f"{PICTURES}/{name}.png")


def text(browser, selector):
    """Return the text of the first element that a selector fits, empty when there is none."""
    script = "return document.querySelector(arguments[0])?.innerText ?? ''"
    return browser.execute_script(script, selector)


def cell(browser, place, key):
    return text(browser, f'#vms tr[data-place="{place}"] td[data-key="{key}"]')


def faults(browser):
    """Return what the browser's console complains of since the last call."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def emulate(browser, **features):
    found = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": found})


WEB = "00000000000000a1:2"


def test_live_rates_congestion_and_topology(tmp_path, browser):
    controller = Controller(tmp_path, "ryu")
    network = Network(controller)
    try:
        network.start()
        browser.get(controller.url)
        say = lambda: f"{browser.page_source[-3000:]}\n{controller.log()}"  # noqa: E731
        wait_for(lambda: cell(browser, WEB, "sent_bps") == "160.0", say)
        assert text(browser, "#connection") == "live"
        assert text(browser, "#total-vms") == "3" and text(browser, "#total-congested") == "0"
        assert "No port set marks" in text(browser, "#ports-none")
        wait_for(lambda: "3 switches, 2 links; none congested." in text(browser, "#topology-text"), say)
        # A VM's rate moves, another is held back.
        network.a1.vms[2] = vm_reading(2, 31_250_000, weight=2)
        network.a2.vms[2] = vm_reading(2, 60_000_000, flags=3)._replace(rate=62_500_000, drops=1234)
        wait_for(lambda: cell(browser, WEB, "sent_bps") == "250.0", say)
        wait_for(lambda: text(browser, "#total-limited") == "1", say)
        assert text(browser, 'tr[data-place="00000000000000a2:2"] .state') == "congested"
        # A port sets marks, poll after poll.
        marks = [0]

        def congested():
            marks[0] += 40
            network.fabric.marks[1] = port_reading(1, count=marks[0])._replace(bytes=marks[0] * 30_000)
            said = text(browser, "#topology-text")
            return text(browser, "#total-congested") == "1" and "from switch b1 to a1" in said

        wait_for(congested, say)
        assert "eth1" in text(browser, "#ports tbody")
        assert browser.execute_script("return document.querySelectorAll('#topology .link.hot').length") == 1
        assert browser.execute_script("return document.querySelectorAll('#topology .arrow').length") == 1
        picture(browser, "light")
        emulate(browser, prefers_color_scheme="dark")
        congested()
        picture(browser, "dark")
        # A narrow window: nothing is wider than it.
        emulate(browser, prefers_color_scheme="light")
        size = {"width": 380, "height": 1200, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        congested()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 380
        label = "return getComputedStyle(document.querySelector(arguments[0]), '::before').content"
        assert browser.execute_script(label, '#vms td[data-key="share_bps"]').startswith('"Share')
        picture(browser, "narrow")
        # Names and order for those who do not see it.
        tree = browser.execute_script(
            "return [document.querySelector('#topology').getAttribute('role'),"
            "document.querySelector('#vms th[aria-sort]').getAttribute('aria-sort'),"
            "[...document.querySelectorAll('input,button')].every(e => e.labels?.length || e.innerText)]"
        )
        assert tree == ["img", "descending", True]
        browser.find_element(By.ID, "filter").send_keys("tap-db")
        wait_for(lambda: not cell(browser, WEB, "sent_bps"), say)
        assert cell(browser, "00000000000000a1:3", "sent_bps") == "40.0"
        assert faults(browser) == []
        # The controller dies and returns.
        controller.stop()
        wait_for(lambda: text(browser, "#connection") == "no connection", say)
        faults(browser)
        controller.start()
        wait_for(lambda: text(browser, "#connection") == "live", say)
    finally:
        network.close()
        controller.stop()


def test_states_of_the_controller_are_shown(tmp_path, browser):
    controller = Controller(tmp_path, "ryu", ovsdb=f"unix:{tmp_path}/none.sock")
    first, second = WireSwitch(0xA1, {1: b"up1"}), WireSwitch(0xA1, {1: b"up1"})
    try:
        first.connect(controller.address)
        wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
        second.connect(controller.address, "127.0.0.2")
        wait_for(lambda: controller.get("/v1/status")["connections"]["id_conflicts"], controller.log)
        wait_for(lambda: controller.get("/v1/status")["databases"][0]["state"] == "unreachable", controller.log)
        (tmp_path / "key").write_text("none")
        controller.process.send_signal(signal.SIGHUP)
        wait_for(lambda: controller.get("/v1/status")["reload"]["failed"], controller.log)
        browser.get(controller.url)
        wait_for(lambda: "unreachable" in text(browser, "#states"), lambda: text(browser, "#states"))
        said = text(browser, "#states")
        for words in (
            "hypervisor database unreachable: unix:", "is connected (1 times)",
            "connections of switches refused: duplicate_id 1", "reading settings again failed at", "32 hex digits",
        ):  # fmt: skip
            assert words in said, said
        assert faults(browser) == []
        picture(browser, "states")
    finally:
        first.close()
        second.close()
        controller.stop()


def test_token(tmp_path, browser):
    token_file = tmp_path / "tokens"
    token_file.write_text(f"alice {TOKEN}\n")
    token_file.chmod(0o600)
    controller = Controller(tmp_path, "ryu", rest_token_file=token_file)
    try:
        browser.get(controller.url)
        for token, said in (("x" * 32, "This token is not valid."), (TOKEN, "")):
            wait_for(lambda: browser.find_element(By.ID, "token").is_displayed(), controller.log)
            browser.find_element(By.ID, "token").send_keys(token + "\n")
            if said:
                wait_for(lambda wanted=said: text(browser, "#login-error") == wanted, controller.log)
        wait_for(lambda: text(browser, "#connection") == "live", controller.log)
        assert not browser.find_element(By.ID, "login").is_displayed()
        assert TOKEN not in browser.current_url and TOKEN not in controller.log()
    finally:
        controller.stop()


def test_nothing_inline_runs_and_nothing_foreign_is_asked(tmp_path, browser):
    controller = Controller(tmp_path, "ryu")
    try:
        browser.get(controller.url)
        wait_for(lambda: text(browser, "#connection") == "live", controller.log)
        with pytest.raises(JavascriptException, match="TrustedScript"):
            browser.execute_script("document.body.setAttribute('onclick', 'window.broken = 1')")
        browser.execute_script("fetch('http://127.0.0.2:9/').catch(() => {})")
        wait_for(lambda: any("Content Security Policy" in message for message in faults(browser)), controller.log)
    finally:
        controller.stop()
