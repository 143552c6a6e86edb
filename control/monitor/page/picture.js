// The fabric as a picture: spines above, leaves below, both directions of each cable side by side. Drawn on a
// canvas, for 64 leaves and spines have 8,192 links; what it shows is in the matrix for those who do not see it.

import { place } from "./words.js";

// Drawn in this order, so that the bad ones lie on top.
const ORDER = ["unknown", "healthy", "cleared", "suspect", "convicted"];

export function draw(canvas, fabric, rows) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const paint = {
    unknown: colour("--wire-unknown"), healthy: colour("--wire"), cleared: colour("--focus"),
    suspect: colour("--suspect"), convicted: colour("--convicted"),
  };
  const x = (index, of) => (width * (index + 0.5)) / of;
  const top = 26;
  const bottom = height - 26;
  const many = Math.max(fabric.leaves, fabric.spines) > 16;
  const shift = many ? 1 : 3;
  const by = Object.fromEntries(ORDER.map((state) => [state, []]));
  for (const row of rows) {
    by[row.state].push(place(row.link));
  }
  for (const state of ORDER) {
    const bad = state === "convicted" || state === "suspect";
    g.strokeStyle = paint[state];
    g.lineWidth = bad ? 3 : many ? 0.4 : 1;
    g.globalAlpha = bad || !many ? 1 : 0.25;
    g.setLineDash(state === "suspect" ? [7, 4] : state === "unknown" ? [2, 4] : []);
    g.beginPath();
    for (const { up, leaf, spine } of by[state]) {
      const side = up ? -shift : shift;
      g.moveTo(x(leaf, fabric.leaves) + side, bottom);
      g.lineTo(x(spine, fabric.spines) + side, top);
    }
    g.stroke();
    // An arrow head says which direction it is.
    g.setLineDash([]);
    for (const { up, leaf, spine } of bad ? by[state] : []) {
      arrow(g, up, x(leaf, fabric.leaves), x(spine, fabric.spines), top, bottom, up ? -shift : shift, paint[state]);
    }
  }
  g.globalAlpha = 1;
  const every = (of) => Math.ceil(of / Math.max(1, Math.floor(width / 52)));
  for (const [name, of, y] of [["spine", fabric.spines, top - 8], ["leaf", fabric.leaves, bottom + 16]]) {
    g.fillStyle = colour("--text");
    g.font = "12px system-ui, sans-serif";
    g.textAlign = "center";
    for (let index = 0; index < of; index++) {
      g.fillRect(x(index, of) - 3, name === "spine" ? top - 4 : bottom, 6, 4);
      if (index % every(of) === 0) {
        // The outermost name stays within the picture.
        const half = g.measureText(`${name}${index}`).width / 2;
        g.fillText(`${name}${index}`, Math.min(Math.max(x(index, of), half), width - half), y);
      }
    }
  }
  const bad = by.convicted.length;
  const label = `${fabric.leaves} leaves and ${fabric.spines} spines; ${bad} links convicted, ${by.suspect.length} suspect, `
    + `${by.cleared.length} cleared, ${by.healthy.length} healthy, ${by.unknown.length} unknown`;
  canvas.setAttribute("aria-label", label);
}

function arrow(g, up, leafX, spineX, top, bottom, side, colour) {
  const part = up ? 0.72 : 0.28;
  const dx = (spineX - leafX) * (up ? 1 : -1);
  const dy = (top - bottom) * (up ? 1 : -1);
  const angle = Math.atan2(dy, dx);
  const at = [leafX + (spineX - leafX) * part + side, bottom + (top - bottom) * part];
  g.fillStyle = colour;
  g.beginPath();
  g.moveTo(at[0] + 9 * Math.cos(angle), at[1] + 9 * Math.sin(angle));
  for (const turn of [2.5, -2.5]) {
    g.lineTo(at[0] + 8 * Math.cos(angle + turn), at[1] + 8 * Math.sin(angle + turn));
  }
  g.fill();
}
