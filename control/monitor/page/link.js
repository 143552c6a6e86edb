// One link: what is known of it, loss over time, and the counts of every spine against expectation.

import { get, post } from "./ask.js";
import { ago, count, element, percent, place, time } from "./words.js";

const NS = "http://www.w3.org/2000/svg";

export class LinkView {
  constructor(section) {
    this.section = section;
    this.name = null;
    this.part = (id) => document.getElementById(id);
    this.part("link-close").addEventListener("click", () => this.close());
    section.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.part("acknowledge").addEventListener("submit", (event) => {
      event.preventDefault();
      this.acknowledge();
    });
  }

  async open(name) {
    this.back = document.activeElement;
    this.name = name;
    this.part("acknowledge-said").textContent = "";
    await this.refresh();
    this.section.hidden = false;
    this.section.scrollIntoView({ block: "nearest" });
    this.section.focus({ preventScroll: true });
  }

  close() {
    this.name = null;
    this.section.hidden = true;
    this.back?.focus();
  }

  async refresh() {
    const name = this.name;
    if (!name) {
      return;
    }
    const detail = await get(`/api/links/${encodeURIComponent(name)}`);
    if (this.name !== name) {
      return;
    }
    const { row } = detail;
    this.part("link-title").textContent = name;
    this.facts(row);
    this.part("acknowledge").hidden = row.state !== "convicted" || row.acknowledged !== null;
    this.part("series").replaceChildren(series(detail.series));
    evidence(this.part("evidence"), detail.evidence, place(name));
  }

  facts(row) {
    const now = Date.now() * 1e6;
    const interval = row.ci95 ? ` (95 %: ${percent(row.ci95[0])} to ${percent(row.ci95[1])})` : "";
    const facts = [["State", `${row.state} for ${row.since_ns ? ago(row.since_ns, now) : "ever"}`]];
    if (row.state === "convicted" || row.state === "suspect") {
      facts.push(["Loses", percent(row.drop_rate) + interval]);
    }
    if (row.state === "convicted") {
      facts.push(["Failed paths", String(row.paths)]);
    }
    if (row.missing) {
      facts.push(["Missing", row.missing]);
    }
    const covered = row.covered;
    facts.push(["Measured", covered.last_ns ? `${ago(covered.last_ns, now)} ago, ${count(covered.packets)} packets lately` : "never"]);
    facts.push(["A loss would be seen", covered.watched_from ? `from ${percent(covered.watched_from)} on` : "not at any rate: too few packets or too much noise"]);
    facts.push(["It would be named", covered.named_from ? `from ${percent(covered.named_from)} on` : "not yet: a second path is missing"]);
    facts.push(["Convictions lately", String(row.convictions)]);
    if (row.acknowledged) {
      const { by, note, at } = row.acknowledged;
      facts.push(["Acknowledged", `${by}, ${time(at)}${note ? `: ${note}` : ""}`]);
    }
    this.part("link-facts").replaceChildren(...facts.flatMap(([term, text]) => [element("dt", { text: term }), element("dd", { text })]));
  }

  async acknowledge() {
    const said = this.part("acknowledge-said");
    try {
      await post(`/api/links/${encodeURIComponent(this.name)}/acknowledge`, { by: this.part("by").value, note: this.part("note").value });
      said.textContent = "written down";
      await this.refresh();
      this.section.focus({ preventScroll: true });
    } catch (error) {
      said.textContent = error.message;
    }
  }
}

// Rate of the paths over the link with its interval as a band, and the link's own estimate as bars.
function series(points) {
  if (points.length === 0) {
    return element("p", { cls: "hint", text: "Nothing measured yet." });
  }
  const [width, height, left, foot] = [640, 170, 52, 20];
  const highest = Math.max(1e-4, ...points.flatMap((p) => [p.sent > 0 ? p.paths[2] : 0, p.link ? p.link[2] : 0]));
  const first = points[0].at_ns;
  const span = Math.max(15e9, points[points.length - 1].at_ns - first);
  const x = (p) => left + ((width - left - 12) * (p.at_ns - first)) / span;
  const y = (rate) => height - foot - ((height - foot - 8) * rate) / highest;
  const svg = document.createElementNS(NS, "svg");
  const last = points[points.length - 1];
  const own = points.filter((p) => p.link);
  const label = `Loss of the paths over the link from ${time(first)} to ${time(last.at_ns)}: lately ${percent(last.paths[0])}`
    + (own.length ? `; the link itself ${percent(own[own.length - 1].link[0])}` : "");
  for (const [key, value] of [["viewBox", `0 0 ${width} ${height}`], ["role", "img"], ["aria-label", label]]) {
    svg.setAttribute(key, value);
  }
  const add = (name, attributes, text) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) {
      made.setAttribute(key, value);
    }
    made.textContent = text ?? "";
    svg.append(made);
  };
  for (const rate of [0, highest / 2, highest]) {
    add("line", { x1: left, x2: width, y1: y(rate), y2: y(rate), class: "axis" });
    add("text", { x: left - 6, y: y(rate) + 4, "text-anchor": "end" }, percent(rate));
  }
  const measured = points.filter((p) => p.sent > 0);
  const path = (rates) => rates.map(([p, rate]) => `${x(p).toFixed(1)},${y(rate).toFixed(1)}`).join(" ");
  const edge = (which) => measured.map((p) => [p, p.paths[which]]);
  add("polygon", { points: path([...edge(2), ...edge(1).reverse()]), class: "band" });
  add("polyline", { points: path(edge(0)), class: "line" });
  for (const p of own) {
    add("line", { x1: x(p), x2: x(p), y1: y(p.link[1]), y2: y(p.link[2]), class: "bar-own" });
    add("circle", { cx: x(p), cy: y(p.link[0]), r: 3, class: "dot-own" });
  }
  add("text", { x: left, y: height - 4 }, time(first));
  add("text", { x: width, y: height - 4, "text-anchor": "end" }, time(last.at_ns));
  return svg;
}

// A row for each far leaf, a column for each spine: received of expected, and the loss where there is one.
function evidence(table, windows, own) {
  if (windows.length === 0) {
    table.replaceChildren(element("caption", { text: "No window yet.", cls: "hint" }));
    return;
  }
  const spines = [...new Set(windows.flatMap((w) => w.spines.map((s) => s.spine)))].sort((a, b) => a - b);
  const head = element("tr", {}, [element("th", { text: "Window", scope: "col" })]);
  for (const spine of spines) {
    head.append(element("th", { text: `spine${spine}`, scope: "col", cls: spine === own.spine ? "own" : "" }));
  }
  const rows = windows.map((w) => {
    const row = element("tr", {}, [element("th", { text: `${w.src} to ${w.dst}`, scope: "row" })]);
    const by = new Map(w.spines.map((s) => [s.spine, s]));
    for (const spine of spines) {
      const s = by.get(spine);
      const lost = s ? Math.max(0, Math.round(s.expected - s.received - s.dropped)) : 0;
      const text = s ? `${count(s.received)} of ${count(Math.round(s.expected))}${lost ? `, −${count(lost)}` : ""}` : "";
      const cell = element("td", { text, cls: [s?.outcome === "failed" ? "convicted" : "", spine === own.spine ? "own" : ""].join(" ").trim() });
      if (s) {
        cell.title = `${s.outcome}; loss ${percent(s.ci95[0])} to ${percent(s.ci95[1])} (95 %)`;
      }
      row.append(cell);
    }
    return row;
  });
  table.replaceChildren(element("thead", {}, [head]), element("tbody", {}, rows));
}
