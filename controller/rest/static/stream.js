// SPDX-License-Identifier: Apache-2.0
// The controller's event stream, read by fetch: EventSource could not send the token.

const QUIET_MS = 40000; // a comment comes every 15 s

/** Returns headers that bear the token, if the operator gave one. */
export function authorization() {
  const token = sessionStorage.getItem("token");
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Calls handlers[kind](data) for each event of an SSE block. */
function deliver(block, handlers, memory) {
  let kind = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (field === "event") kind = value;
    else if (field === "data") data.push(value);
    else if (field === "id") memory.last = value;
    else if (field === "retry") memory.retryMs = Number(value);
  }
  if (data.length && handlers[kind]) handlers[kind](JSON.parse(data.join("\n")));
}

/** Reads one connection to its end. */
async function follow(handlers, memory, tell) {
  const stop = new AbortController();
  let timer = setTimeout(() => stop.abort(), QUIET_MS);
  try {
    const headers = authorization();
    if (memory.last) headers["Last-Event-ID"] = memory.last;
    const answer = await fetch("/v1/events", { headers, signal: stop.signal, cache: "no-store" });
    if (answer.status === 401) return tell("token");
    if (!answer.ok) return tell("lost", `refused with status ${answer.status}`);
    tell("live");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), QUIET_MS);
      const blocks = (text + value).split("\n\n");
      text = blocks.pop();
      for (const block of blocks) deliver(block, handlers, memory);
    }
    tell("lost", "the controller closed the stream");
  } catch (error) {
    tell("lost", error.message);
  } finally {
    clearTimeout(timer);
  }
}

/** Follows the stream for ever; tell(state, why) hears "live", "lost" or "token" (one is needed: then it ends). */
export async function listen(handlers, tell) {
  const memory = { last: "", retryMs: 2000 };
  let over = false;
  while (!over) {
    await follow(handlers, memory, (state, why) => {
      over = state === "token";
      tell(state, why);
    });
    if (!over) await new Promise((resolve) => setTimeout(resolve, memory.retryMs));
  }
}
