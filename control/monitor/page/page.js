// The page: asks once for everything, then hears what changes. Drawing is done at most once a frame.

import { Denied, get, live, useToken } from "./ask.js";
import { Events } from "./events.js";
import { LinkView } from "./link.js";
import { Matrix } from "./matrix.js";
import { draw } from "./picture.js";
import { LETTER, STATES, count, element, percent } from "./words.js";

const part = (id) => document.getElementById(id);
const link = new LinkView(part("link"));
const open = (name) => link.open(name).catch(say);
const matrix = new Matrix(part("grid"), open);
const events = new Events(open);
const rows = new Map();
let fabric = null;
let isDirty = false;

// Ages and coverage are asked for again this often; a pause before connecting again.
const REFRESH_MS = 10000;
const AGAIN_MS = 2000;
// Accused links in the list; the matrix has all.
const ACCUSED_MAX = 200;

function say(error) {
  if (error instanceof Denied) {
    part("login").hidden = false;
    part("token").focus();
  }
  part("trouble").textContent = error.message;
  part("trouble").hidden = false;
}

function showSummary({ summary, sources }) {
  fabric = summary;
  document.title = `${summary.states.convicted ? `(${summary.states.convicted}) ` : ""}spraycheck ${summary.name}`;
  part("fabric-name").textContent = `${summary.name}: ${summary.leaves} leaves × ${summary.spines} spines`;
  part("states").replaceChildren(...STATES.map((state) => element("li", { text: `${count(summary.states[state] ?? 0)} ${state}`, cls: state })));
  part("trouble").hidden = !summary.trouble;
  part("trouble").textContent = summary.trouble ?? "";
  part("totals").textContent = `${count(summary.recorded)} verdicts recorded, ${count(summary.counts.paths)} path tests since the start; `
    + `a link is healthy when a loss of ${percent(summary.target_rate)} would have been seen within ${summary.horizon_s} s.`;
  const body = part("sources").tBodies[0];
  body.replaceChildren(...sources.map((s) => element("tr", {}, [
    element("th", { text: s.name || "?", scope: "row" }),
    element("td", { text: s.connected ? "heard" : `away: ${s.trouble ?? ""}` }),
    ...[s.received, s.missed, s.refused].map((n) => element("td", { text: count(n) })),
    element("td", { text: s.from }),
  ])));
}

function redraw() {
  if (isDirty) {
    return;
  }
  isDirty = true;
  requestAnimationFrame(() => {
    isDirty = false;
    draw(part("picture"), fabric, rows.values());
    accused();
  });
}

function accused() {
  const bad = [...rows.values()].filter((row) => row.state === "convicted" || row.state === "suspect");
  bad.sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || b.drop_rate - a.drop_rate);
  const items = bad.slice(0, ACCUSED_MAX).map((row) => {
    const name = element("button", { text: row.link, cls: "plain", type: "button" });
    name.addEventListener("click", () => open(row.link));
    const interval = row.ci95 ? ` (95 %: ${percent(row.ci95[0])} to ${percent(row.ci95[1])})` : "";
    const rest = row.missing ? `; missing: ${row.missing}` : row.acknowledged ? `; seen by ${row.acknowledged.by}` : "";
    return element("li", {}, [
      element("span", { text: row.state, cls: `tag ${row.state}` }), name,
      element("span", { text: `loses ${percent(row.drop_rate)}${interval}${rest}` }),
    ]);
  });
  if (bad.length > ACCUSED_MAX) {
    items.push(element("li", { text: `and ${count(bad.length - ACCUSED_MAX)} more, in the matrix`, cls: "hint" }));
  }
  // A list that has the focus in it is not torn away for nothing.
  const text = items.map((item) => item.textContent).join("\n");
  if (part("accused").dataset.text !== text) {
    const focused = part("accused").contains(document.activeElement) ? document.activeElement.textContent : null;
    part("accused").dataset.text = text;
    part("accused").replaceChildren(...(items.length ? items : [element("li", { text: "None.", cls: "hint" })]));
    [...part("accused").querySelectorAll("button")].find((b) => b.textContent === focused)?.focus({ preventScroll: true });
  }
}

async function lookAtAll() {
  showSummary(await get("/api/summary"));
  const { links, now_ns } = await get("/api/links");
  matrix.build(fabric.leaves, fabric.spines);
  for (const row of links) {
    rows.set(row.link, row);
  }
  matrix.showAll(rows, now_ns);
  redraw();
  await link.refresh();
}

async function follow() {
  for (;;) {
    try {
      await live(async (kind, data) => {
        if (kind !== "update") {
          await Promise.all([lookAtAll(), events.load()]).catch(say);
          part("live").textContent = "live";
          part("live").className = "on";
          part("login").hidden = true;
          return;
        }
        const update = JSON.parse(data);
        for (const row of update.links) {
          rows.set(row.link, row);
        }
        matrix.show(update.links, Date.now() * 1e6);
        events.add(update.events);
        redraw();
        if (update.events.length) {
          get("/api/summary").then(showSummary).catch(say);
        }
        if (update.links.some((row) => row.link === link.name)) {
          link.refresh().catch(say);
        }
      });
    } catch (error) {
      if (error instanceof Denied) {
        say(error);
        await new Promise((done) => part("login").addEventListener("submit", done, { once: true }));
        continue;
      }
    }
    part("live").textContent = "not connected; trying again";
    part("live").className = "";
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

part("login").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(part("token").value);
  part("token").value = "";
});
for (const radio of document.getElementsByName("direction")) {
  radio.addEventListener("change", () => {
    matrix.up = radio.value === "up";
    matrix.showAll(rows, Date.now() * 1e6);
  });
}
part("legend").append(...STATES.map((state) => element("li", { text: `${LETTER[state] || "blank"} ${state}`, cls: `tag ${state}` })));

const theme = part("theme");
function setTheme(name) {
  if (name) {
    document.documentElement.dataset.theme = name;
  }
  const isDark = name ? name === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.textContent = isDark ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark ? "light" : "dark"} colours`);
  return isDark;
}
theme.addEventListener("click", () => {
  const next = setTheme(document.documentElement.dataset.theme) ? "light" : "dark";
  localStorage.setItem("spraycheck-theme", next);
  setTheme(next);
  redraw();
});
setTheme(localStorage.getItem("spraycheck-theme"));
addEventListener("resize", () => fabric && redraw());
setInterval(() => lookAtAll().catch(() => {}), REFRESH_MS);
follow();
