// How numbers, times and states are written.

export const STATES = ["convicted", "suspect", "cleared", "healthy", "unknown"];
export const LETTER = { convicted: "!", suspect: "?", cleared: "c", healthy: "", unknown: "·" };

export function percent(rate) {
  if (rate === null || rate === undefined) {
    return "";
  }
  return `${Number((100 * rate).toPrecision(3))} %`;
}

export function time(ns) {
  return new Date(ns / 1e6).toLocaleString(undefined, { hour12: false });
}

export function ago(ns, now) {
  const s = Math.max(0, Math.round((now - ns) / 1e9));
  if (s < 120) {
    return `${s} s`;
  }
  return s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}

export function count(number) {
  return number.toLocaleString("en");
}

// A new element with text, class and children; text is never read as HTML.
export function element(name, { text, cls, ...attributes } = {}, children = []) {
  const made = document.createElement(name);
  if (text !== undefined) {
    made.textContent = text;
  }
  if (cls) {
    made.className = cls;
  }
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Places of a link: [is up, leaf, spine].
export function place(link) {
  const up = link.startsWith("leaf");
  const [first, second] = link.match(/\d+/g).map(Number);
  return up ? { up, leaf: first, spine: second } : { up, leaf: second, spine: first };
}
