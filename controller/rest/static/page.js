// SPDX-License-Identifier: Apache-2.0
// The page: keeps the stream's rows and shows them, at most once a frame.

import { followStates } from "./states.js";
import { authorization, listen } from "./stream.js";
import { draw, redraw, shortId } from "./topology.js";

const ROWS_MAX = 200;
const POINTS = 60;

const $ = (id) => document.getElementById(id);
const vms = new Map(); // place -> row
const ports = new Map();
const history = new Map(); // place -> what it sent, one a second
let topology = { switches: [], links: [] };
let sort = { key: "sent_bps", down: true };
let due = false;

const megabits = (bits) => {
  if (bits === null || bits === undefined) return "–";
  return (bits / 1e6).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
};
const limit = (bits) => (bits === null ? "–" : bits === 0 ? "none" : megabits(bits));
const count = (number) => (number === null ? "–" : number.toLocaleString("en"));

const COLUMNS = [
  { key: "id", head: "VM", kind: "name" },
  { key: "state", head: "State", kind: "state" },
  { key: "sent_bps", head: "Sends", kind: "number", show: megabits },
  { key: "rate_bps", head: "May send", kind: "number", show: megabits },
  { key: "share_bps", head: "Share", kind: "number", show: megabits },
  { head: "Of its share", kind: "gauge" },
  { head: "Last minute", kind: "spark" },
  { key: "weight", head: "Weight", kind: "number", show: count },
  { key: "min_bps", head: "Min", kind: "number", show: limit },
  { key: "max_bps", head: "Max", kind: "number", show: limit },
  { key: "drops", head: "Drops", kind: "number", show: count },
  { key: "marks", head: "Marks", kind: "number", show: count },
];

/** Returns an HTML element. */
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function makeHead() {
  for (const column of COLUMNS) {
    const cell = make("th", { scope: "col", className: column.kind === "number" ? "number" : "" });
    if (column.key) {
      const button = make("button", { type: "button", textContent: column.head });
      button.addEventListener("click", () => {
        sort = { key: column.key, down: sort.key === column.key ? !sort.down : column.kind === "number" };
        plan();
      });
      cell.append(button);
      cell.dataset.key = column.key;
    } else {
      cell.textContent = column.head;
    }
    $("vms").tHead.rows[0].append(cell);
  }
}

/** Returns the bar of a VM: sent against its share, a tick at what it may send. */
function gauge(vm) {
  const whole = Math.max(vm.share_bps || 0, vm.rate_bps || 0, vm.sent_bps || 0, 1);
  const part = (bits) => Math.min(100, (100 * (bits || 0)) / whole);
  const svg = draw("svg", { viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(draw("rect", { class: "track", x: 0, y: 3, width: part(vm.share_bps), height: 8 }));
  svg.append(draw("rect", { class: "fill", x: 0, y: 3, width: part(vm.sent_bps), height: 8 }));
  svg.append(draw("rect", { class: "tick", x: Math.max(0, part(vm.rate_bps) - 0.6), y: 0, width: 0.6, height: 14 }));
  return svg;
}

/** Returns the line of what a VM sent over the last minute. */
function spark(vm) {
  const points = history.get(vm.place) || [];
  const top = Math.max(1, ...points);
  const line = points.map((bits, index) => `${POINTS - points.length + index},${20 - (18 * bits) / top}`).join(" ");
  const svg = draw("svg", { class: "spark", viewBox: `0 0 ${POINTS} 22`, preserveAspectRatio: "none" });
  svg.setAttribute("aria-hidden", "true");
  svg.append(draw("polyline", { points: line }));
  return svg;
}

function vmRow(vm) {
  const row = make("tr", { className: vm.state === "congested" ? "congested" : "" });
  row.dataset.place = vm.place;
  for (const column of COLUMNS) {
    const cell = make("td", { className: column.kind });
    cell.dataset.label = column.head;
    if (column.kind === "gauge") cell.append(gauge(vm));
    else if (column.kind === "spark") cell.append(spark(vm));
    else if (column.kind === "state") {
      const state = make("span", { className: "state", textContent: vm.state });
      state.dataset.state = vm.state;
      cell.append(state);
    } else if (column.kind === "name") {
      const names = [vm.cloud_name, vm.network].filter(Boolean).join(" in ");
      cell.append(vm.id);
      if (names) cell.append(make("span", { className: "cloud", textContent: names }));
      const tenant = vm.tenant ? `, tenant ${vm.tenant}` : "";
      cell.title = `${names ? `${names}, ` : ""}${vm.name} at ${vm.place}${tenant}`;
    } else {
      cell.textContent = column.show(vm[column.key]);
      cell.dataset.key = column.key;
    }
    row.append(cell);
  }
  return row;
}

function compare(a, b) {
  const [x, y] = [a[sort.key], b[sort.key]];
  const order = typeof x === "string" ? x.localeCompare(y) : (x ?? -1) - (y ?? -1);
  return (sort.down ? -order : order) || a.place.localeCompare(b.place);
}

function showVms() {
  const wanted = $("filter").value.trim().toLowerCase();
  const words = (vm) => [vm.id, vm.name, vm.place, vm.cloud_name, vm.network, vm.tenant].filter(Boolean).join(" ");
  const found = [...vms.values()].filter((vm) => words(vm).toLowerCase().includes(wanted));
  found.sort(compare);
  $("vms").hidden = !found.length;
  $("vms").tBodies[0].replaceChildren(...found.slice(0, ROWS_MAX).map(vmRow));
  for (const cell of $("vms").tHead.rows[0].cells) {
    if (cell.dataset.key === sort.key) cell.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  if (!vms.size) $("vms-note").textContent = "None yet: they appear when their hypervisors' bridges have connected.";
  else if (!found.length) $("vms-note").textContent = "No VM has this in its id, name, network, tenant, port or switch.";
  else if (found.length > ROWS_MAX) $("vms-note").textContent = `The first ${ROWS_MAX} of ${count(found.length)}.`;
  else $("vms-note").textContent = "";
}

function showPorts() {
  const hot = [...ports.values()].filter((port) => port.congested).sort((a, b) => b.marks_per_s - a.marks_per_s);
  $("ports").hidden = !hot.length;
  $("ports-none").hidden = Boolean(hot.length);
  $("ports").tBodies[0].replaceChildren(...hot.map((port) => {
    const row = make("tr", { className: "hot-row" });
    row.dataset.place = port.place;
    row.append(
      make("td", { textContent: port.name }),
      make("td", { textContent: shortId(port.place.split(":")[0]) }),
      make("td", { className: "number", textContent: count(Math.round(port.marks_per_s)) }),
      make("td", { className: "number", textContent: megabits(port.tx_bps) }),
    );
    return row;
  }));
  return hot.length;
}

function show() {
  due = false;
  showVms();
  const hot = showPorts();
  const all = [...vms.values()];
  $("total-vms").textContent = count(all.length);
  $("total-sent").textContent = `${megabits(all.reduce((sum, vm) => sum + (vm.sent_bps || 0), 0))} Mb/s`;
  $("total-limited").textContent = count(all.filter((vm) => vm.state === "congested").length);
  $("total-congested").textContent = count(hot);
  $("total-congested").parentElement.classList.toggle("hot", hot > 0);
  $("total-switches").textContent = count(topology.switches.length);
  $("topology-text").textContent = redraw($("topology"), topology, ports);
}

function plan() {
  if (!due) {
    due = true;
    requestAnimationFrame(show);
  }
}

function take(rows, event, list) {
  if (event.full) rows.clear();
  for (const row of list) rows.set(row.place, row);
  for (const place of event.gone) rows.delete(place);
  plan();
}

async function askTopology() {
  const answer = await fetch("/v1/topology", { headers: authorization(), cache: "no-store" });
  if (answer.ok) {
    topology = await answer.json();
    plan();
  }
}

/** Asks for the topology now and, as links are found a little later than switches, again. */
function followTopology() {
  for (const delayMs of [0, 1500, 6000]) setTimeout(() => askTopology().catch(() => {}), delayMs);
}

function tell(state, why) {
  const words = { live: "live", lost: "no connection", token: "token needed" };
  $("connection").dataset.state = state;
  $("connection").textContent = words[state];
  $("connection").title = why || "";
  $("login").hidden = state !== "token";
  if (state === "token") {
    $("login-error").textContent = sessionStorage.getItem("token") ? "This token is not valid." : "";
    sessionStorage.removeItem("token");
  }
  if (state === "live") {
    followTopology();
    askStates();
  }
}

function start() {
  listen(
    {
      vms: (event) => take(vms, event, event.vms),
      ports: (event) => take(ports, event, event.ports),
      switch: followTopology,
    },
    tell,
  );
}

makeHead();
const askStates = followStates($("states"), () => $("connection").dataset.state === "live");
$("filter").addEventListener("input", plan);
$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value.trim());
  $("token").value = "";
  start();
});
setInterval(() => {
  for (const place of history.keys()) if (!vms.has(place)) history.delete(place);
  for (const [place, vm] of vms) {
    const points = history.get(place) || [];
    points.push(vm.sent_bps || 0);
    history.set(place, points.slice(-POINTS));
  }
  plan();
}, 1000);
start();
