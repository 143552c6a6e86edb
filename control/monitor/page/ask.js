// Questions to the monitor, and what it tells by itself. A token is kept for this tab alone.

const KEY = "spraycheck-token";

export class Denied extends Error {}

export function useToken(token) {
  sessionStorage.setItem(KEY, token);
}

function headers(more) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : { ...more };
}

async function answer(path, options) {
  const response = await fetch(path, options);
  if (response.status === 401) {
    throw new Denied((await response.json()).error);
  }
  if (!response.ok) {
    const said = await response.json().catch(() => ({ error: response.statusText }));
    throw new Error(said.error);
  }
  return response;
}

export async function get(path) {
  return (await answer(path, { headers: headers() })).json();
}

export async function post(path, body) {
  const options = {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
  };
  return (await answer(path, options)).json();
}

// Server-sent events, read by fetch: an EventSource can send no token.
export async function live(told) {
  const response = await answer("/api/live", { headers: headers() });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const block = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name) => block.filter((line) => line.startsWith(name)).map((line) => line.slice(name.length).trim());
      const kind = field("event:")[0];
      if (kind) {
        told(kind, field("data:").join("\n"));
      }
    }
  }
}
