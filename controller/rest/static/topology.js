// SPDX-License-Identifier: Apache-2.0
// The topology as SVG: hypervisors at the bottom, each switch a row above those that are nearer to them.

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 108;
const HIGH = 34;
const GAP = 22;
const ROW = 100;

/** Returns an SVG element with attributes. */
export function draw(name, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

/** Returns the row of each switch: 0 for hypervisors, else its distance to the nearest. */
function rows(topology) {
  const near = new Map(topology.switches.map((one) => [one.switch, []]));
  for (const { ends: [a, b] } of topology.links) {
    near.get(a.switch)?.push(b.switch);
    near.get(b.switch)?.push(a.switch);
  }
  const row = new Map();
  let queue = topology.switches.filter((one) => one.hypervisor).map((one) => one.switch);
  if (!queue.length) queue = topology.switches.slice(0, 1).map((one) => one.switch);
  for (const start of queue) row.set(start, 0);
  while (queue.length) {
    const here = queue.shift();
    for (const there of near.get(here) || []) {
      if (!row.has(there)) {
        row.set(there, row.get(here) + 1);
        queue.push(there);
      }
    }
  }
  for (const one of topology.switches) if (!row.has(one.switch)) row.set(one.switch, 0);
  return { row, near };
}

/** Returns {x, y} of each switch and the drawing's size; those of a row stand above what they are linked to. */
function places(topology) {
  const { row, near } = rows(topology);
  const levels = [];
  for (const one of topology.switches) (levels[row.get(one.switch)] ||= []).push(one.switch);
  const widest = Math.max(1, ...levels.map((level) => level.length));
  const width = widest * (WIDE + GAP) + GAP;
  const at = new Map();
  levels.forEach((level, depth) => {
    const wish = (name) => {
      const below = near.get(name).filter((one) => at.has(one)).map((one) => at.get(one).x);
      return below.length ? below.reduce((sum, x) => sum + x, 0) / below.length : 0;
    };
    const order = depth ? [...level].sort((a, b) => wish(a) - wish(b) || a.localeCompare(b)) : level;
    const step = width / order.length;
    order.forEach((name, index) => at.set(name, { x: (index + 0.5) * step, y: (levels.length - 1 - depth) * ROW + 30 }));
  });
  return { at, width, height: Math.max(0, levels.length - 1) * ROW + HIGH + 40 };
}

/** Returns a datapath id without its leading zeros. */
export function shortId(id) {
  return id.replace(/^0+(?=.)/, "");
}

/** Draws an arrow head two thirds of the way from one point to another. */
function arrow(from, to) {
  const angle = Math.atan2(to.y - from.y, to.x - from.x) * 180 / Math.PI;
  const x = from.x + (to.x - from.x) * 0.66;
  const y = from.y + (to.y - from.y) * 0.66;
  return draw("path", { class: "arrow", d: "M-8,-7 L9,0 L-8,7 Z", transform: `translate(${x} ${y}) rotate(${angle})` });
}

/** Redraws everything; ports are the event stream's rows by place. Returns what is seen, in words. */
export function redraw(svg, topology, ports) {
  const { at, width, height } = places(topology);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  const hotSwitches = new Set();
  const said = [];
  for (const port of ports.values()) if (port.congested) hotSwitches.add(port.place.split(":")[0]);
  for (const { ends } of topology.links) {
    const [a, b] = ends.map((end) => at.get(end.switch));
    if (!a || !b) continue;
    const hot = ends.map((end) => ports.get(`${end.switch}:${end.port}`)).map((port) => Boolean(port?.congested));
    const place = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
    svg.append(draw("line", { class: hot.some(Boolean) ? "link hot" : "link", ...place }));
    [[0, a, b], [1, b, a]].forEach(([index, from, to]) => {
      if (!hot[index]) return;
      svg.append(arrow(from, to));
      const names = ends.map((end) => shortId(end.switch));
      said.push(`from switch ${names[index]} to ${names[1 - index]}`);
    });
  }
  for (const one of topology.switches) {
    const { x, y } = at.get(one.switch);
    const kind = one.hypervisor ? "switch hypervisor" : "switch";
    const group = draw("g", { class: hotSwitches.has(one.switch) ? `${kind} hot-switch` : kind });
    group.append(draw("title", {}, `${one.hypervisor ? "hypervisor" : "switch"} ${one.switch}`));
    group.append(draw("rect", { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: 6 }));
    group.append(draw("text", { x, y: y - 2 }, shortId(one.switch)));
    const label = one.hypervisor ? `${one.vms} VM${one.vms === 1 ? "" : "s"}` : "switch";
    group.append(draw("text", { x, y: y + 11, class: "small" }, label));
    svg.append(group);
  }
  const shape = `${topology.switches.length} switches, ${topology.links.length} links`;
  return said.length ? `${shape}; congested: ${said.join(", ")}.` : `${shape}; none congested.`;
}
