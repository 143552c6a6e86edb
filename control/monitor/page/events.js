// The list of events: filters, older ones on request, new ones as they come.

import { get } from "./ask.js";
import { element, percent, time } from "./words.js";

const KINDS = ["convicted", "suspected", "cleared", "healthy", "acknowledged", "routing"];
// What people and the monitor do about a link is no state of it.
const CALM = ["acknowledged", "routing"];
const PAGE = 50;
const SHOWN_MAX = 500;

export class Events {
  constructor(open) {
    this.open = open;
    this.body = document.querySelector("#events tbody");
    this.kind = document.getElementById("kind");
    this.kind.append(...KINDS.map((kind) => element("option", { text: kind, value: kind })));
    document.getElementById("filter").addEventListener("submit", (event) => {
      event.preventDefault();
      this.load();
    });
    document.getElementById("older").addEventListener("click", () => this.load(this.oldest));
  }

  async load(before) {
    const query = new URLSearchParams({ limit: PAGE });
    const link = document.getElementById("of-link").value.trim();
    const since = document.getElementById("since").value;
    for (const [key, value] of [["kind", this.kind.value], ["link", link], ["since_s", since], ["before", before ?? ""]]) {
      if (value !== "") {
        query.set(key, value);
      }
    }
    this.wanted = { kind: this.kind.value, link };
    const { events } = await get(`/api/events?${query}`);
    const rows = events.map((event) => this.row(event));
    if (before === undefined) {
      this.body.replaceChildren(...rows);
    } else {
      this.body.append(...rows);
    }
    this.oldest = events.length ? events[events.length - 1].id : before;
    document.getElementById("older").hidden = events.length < PAGE;
  }

  // New events, oldest first.
  add(events) {
    for (const event of events) {
      const { kind, link } = this.wanted ?? { kind: "", link: "" };
      if ((!kind || kind === event.kind) && (!link || link === event.link)) {
        this.body.prepend(this.row(event));
      }
    }
    while (this.body.children.length > SHOWN_MAX) {
      this.body.lastChild.remove();
    }
  }

  row(event) {
    const link = element("button", { text: event.link, cls: "plain", type: "button" });
    link.addEventListener("click", () => this.open(event.link));
    const interval = event.ci95 ? ` (${percent(event.ci95[0])} to ${percent(event.ci95[1])})` : "";
    return element("tr", {}, [
      element("td", { text: time(event.at_ns) }),
      element("td", {}, [element("span", { text: event.kind, cls: `tag ${CALM.includes(event.kind) ? "unknown" : event.to}` })]),
      element("td", {}, [link]),
      element("td", { text: event.drop_rate ? percent(event.drop_rate) + interval : "" }),
      element("td", { text: event.text }),
    ]);
  }
}
