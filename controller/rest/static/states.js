// SPDX-License-Identifier: Apache-2.0
// What /v1/status says of the controller itself: what keeps it from its work, and what it refused.

import { authorization } from "./stream.js";

const PERIOD_MS = 5000;
const NAMED_MAX = 8;

const seconds = (since) => (since < 120 ? `${Math.round(since)} s` : `${Math.round(since / 60)} min`);

/** Returns the first lines, and how many there are beside them. */
function some(lines) {
  if (lines.length <= NAMED_MAX) return lines;
  const more = lines.length - NAMED_MAX;
  return [...lines.slice(0, NAMED_MAX), { level: lines[0].level, text: `and ${more} more, in /v1/status` }];
}

/** Returns what is to be said of a status, as lines of level "bad", "note" or "good" with a text. */
export function states(status) {
  const lines = status.not_ready.map((text) => ({ level: "bad", text }));
  lines.push(...status.warnings.map((text) => ({ level: "note", text })));
  if (status.ready) lines.push({ level: "good", text: "ready" });
  lines.push(...some(status.databases.filter((one) => one.state !== "connected").map((one) => (
    { level: "bad", text: `${one.kind} database ${one.remote}: ${one.state} for ${seconds(one.since_s)}` }))));
  const connected = status.databases.filter((one) => one.state === "connected").length;
  if (connected) lines.push({ level: "good", text: `databases connected: ${connected} of ${status.databases.length}` });
  if (status.lease && status.lease.held) {
    lines.push({ level: "good", text: `lease held, acting for ${status.lease.switches} switches` });
  } else if (status.lease) {
    lines.push({ level: "bad", text: `no lease for ${seconds(status.lease.since_s)}: acting for no switch` });
  }
  lines.push(...some(status.connections.id_conflicts.map((one) => (
    { level: "bad", text: `switch ${one.switch}: ${one.refused} refused, ${one.kept} is connected (${one.count} times)` }
  ))));
  const refused = Object.entries(status.connections.refused).filter(([, count]) => count);
  if (refused.length) {
    const text = refused.map(([reason, count]) => `${reason} ${count.toLocaleString("en")}`).join(", ");
    lines.push({ level: "note", text: `connections of switches refused: ${text}` });
  }
  const { last, restart_needed: restart } = status.reload;
  if (last && last.result === "failed") {
    lines.push({ level: "bad", text: `reading settings again failed at ${last.time}: ${last.error}` });
  }
  if (restart.length) lines.push({ level: "note", text: `settings that need a restart: ${restart.join(", ")}` });
  return lines;
}

/** Shows the states in a list, again and again while isLive() says that there is a controller. */
export function followStates(list, isLive) {
  async function ask() {
    if (!isLive()) return;
    const answer = await fetch("/v1/status", { headers: authorization(), cache: "no-store" });
    if (!answer.ok) return;
    list.replaceChildren(...states(await answer.json()).map(({ level, text }) => {
      const item = document.createElement("li");
      item.dataset.level = level;
      item.textContent = text;
      return item;
    }));
  }
  setInterval(() => ask().catch(() => {}), PERIOD_MS);
  return () => ask().catch(() => {});
}
