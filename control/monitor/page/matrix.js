// The leaf by spine matrix of one direction: a grid that arrow keys move in, one cell in the tab order.

import { LETTER, ago, element, percent, place } from "./words.js";

// Of a frame's 16 ms, what writing all cells anew may take.
const SLICE_MS = 5;

export class Matrix {
  constructor(table, open) {
    this.table = table;
    this.open = open;
    this.up = true;
    this.cells = [];
    this.at = [0, 0];
    table.addEventListener("keydown", (event) => this.key(event));
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("td");
      if (cell) {
        this.go(Number(cell.dataset.leaf), Number(cell.dataset.spine));
        this.open(this.name(...this.at));
      }
    });
  }

  name(leaf, spine) {
    return this.up ? `leaf${leaf}>spine${spine}` : `spine${spine}>leaf${leaf}`;
  }

  build(leaves, spines) {
    if (this.leaves === leaves && this.spines === spines) {
      return;
    }
    [this.leaves, this.spines] = [leaves, spines];
    this.table.classList.toggle("roomy", spines <= 16);
    this.table.closest("section").classList.toggle("wide", spines > 16);
    const head = element("tr", {}, [element("td", { "aria-hidden": "true" })]);
    for (let spine = 0; spine < spines; spine++) {
      head.append(element("th", { text: spines <= 16 ? `spine${spine}` : String(spine), scope: "col", "aria-label": `spine${spine}` }));
    }
    const body = element("tbody");
    this.cells = [];
    for (let leaf = 0; leaf < leaves; leaf++) {
      const row = element("tr", {}, [element("th", { text: `leaf${leaf}`, scope: "row" })]);
      this.cells.push([]);
      for (let spine = 0; spine < spines; spine++) {
        const cell = element("td", { role: "gridcell", tabindex: "-1", cls: "unknown", "data-leaf": leaf, "data-spine": spine });
        row.append(cell);
        this.cells[leaf].push(cell);
      }
      body.append(row);
    }
    this.table.replaceChildren(element("thead", {}, [head]), body);
    this.cells[0][0].tabIndex = 0;
  }

  // Writes what has changed to the eye of these links; those of the other direction are not shown.
  show(rows, now) {
    for (const row of rows) {
      const { up, leaf, spine } = place(row.link);
      const cell = up === this.up ? this.cells[leaf]?.[spine] : undefined;
      if (!cell) {
        continue;
      }
      const accused = row.state === "convicted" || row.state === "suspect";
      const rate = accused && this.spines <= 16 ? ` ${percent(row.drop_rate)}` : "";
      const text = LETTER[row.state] + rate;
      if (cell.textContent !== text) {
        cell.textContent = text;
      }
      if (cell.className !== row.state) {
        cell.className = row.state;
      }
      const measured = row.covered.last_ns ? `measured ${ago(row.covered.last_ns, now)} ago` : "not measured";
      const seen = row.covered.watched_from ? `, loss from ${percent(row.covered.watched_from)} on is seen` : "";
      const label = `${row.link}: ${row.state}${accused ? `, loses ${percent(row.drop_rate)}` : ""}, ${measured}${seen}`;
      if (cell.title !== label) {
        cell.title = label;
        cell.setAttribute("aria-label", label);
      }
    }
  }

  // The same of all links, a few milliseconds of each frame, so that keys and scrolling never wait for it. What is shown anew
  // meanwhile is not shown older again: rows are looked up when their turn comes.
  showAll(rows, now) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const names = rows.keys();
    const step = () => {
      const until = performance.now() + SLICE_MS;
      while (this.turn === turn && performance.now() < until) {
        const some = [];
        for (let name; some.length < 32 && !(name = names.next()).done;) {
          some.push(rows.get(name.value));
        }
        if (!some.length) {
          return;
        }
        this.show(some, now);
      }
      if (this.turn === turn) {
        requestAnimationFrame(step);
      }
    };
    step();
  }

  go(leaf, spine, focus = true) {
    const old = this.cells[this.at[0]]?.[this.at[1]];
    const cell = this.cells[leaf]?.[spine];
    if (!cell) {
      return;
    }
    if (old) {
      old.tabIndex = -1;
      old.removeAttribute("aria-selected");
    }
    this.at = [leaf, spine];
    cell.tabIndex = 0;
    cell.setAttribute("aria-selected", "true");
    if (focus) {
      cell.focus();
    }
  }

  key(event) {
    const [leaf, spine] = this.at;
    const last = [this.leaves - 1, this.spines - 1];
    const to = {
      ArrowUp: [leaf - 1, spine], ArrowDown: [leaf + 1, spine], ArrowLeft: [leaf, spine - 1], ArrowRight: [leaf, spine + 1],
      Home: [leaf, 0], End: [leaf, last[1]], PageUp: [0, spine], PageDown: [last[0], spine],
    }[event.key];
    if (to) {
      event.preventDefault();
      this.go(...to);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.open(this.name(leaf, spine));
    }
  }
}
