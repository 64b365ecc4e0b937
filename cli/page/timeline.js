// Draws who had a mutex when: a block per holder, nothing where nobody had it, a red mark where a holder was lost, and a
// hatch where nobody knows, because the store did not answer or nobody had looked yet.

const LIGHT = ["#2a7f9e", "#7b5ea7", "#3f8f4f", "#a8622f", "#4a62b3", "#97497f", "#6b7d1f", "#2c8c82"];
const DARK = ["#5fb3d1", "#b29adb", "#7cc48a", "#d69a6a", "#8ea3ea", "#d08bbb", "#b0c35c", "#66c7bc"];
const dark = matchMedia("(prefers-color-scheme: dark)");

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

export function colourOf(owner) {
  return (dark.matches ? DARK : LIGHT)[hash(owner) % LIGHT.length];
}

// The holders of a mutex as {from, to, owner, lost}, oldest first. `lost`: its lease ran out. `changes` are all that there were
// since `knownFrom`. The first holder may have begun earlier; if the store does not say when, it is drawn from `knownFrom` on.
export function holders(row, changes, now, knownFrom) {
  const spans = [];
  let open = null;
  for (const change of changes || []) {
    const from = change.held_ms === null ? Math.min(knownFrom, change.at) : change.at - change.held_ms;
    const before = open || (change.before ? { from, owner: change.before.id } : null);
    if (before) spans.push({ ...before, to: change.at, lost: change.kind === "expired" || change.kind === "failed-over" });
    open = change.after ? { from: change.at, owner: change.after.id } : null;
  }
  if (!open && row && row.owner !== null && !(changes && changes.length))
    open = { from: row.held_ms === null ? knownFrom : now - row.held_ms - (performance.now() - row.seenAt), owner: row.owner };
  if (open) spans.push({ ...open, to: now, lost: false });
  return spans;
}

function hatch(context, x, y, width, height, colour) {
  if (width <= 0) return;
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let i = x - height; i < x + width; i += 5) {
    context.moveTo(i, y + height);
    context.lineTo(i + height, y);
  }
  context.stroke();
  context.restore();
}

// `view`: {from, to, outages, knownFrom, until}; nothing is known before `knownFrom` and after `until`.
export function draw(canvas, spans, view) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (width === 0) return;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  const style = view.style;
  const x = (at) => Math.max(0, Math.min(width, ((at - view.from) / (view.to - view.from)) * width));
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.fillStyle = style.track;
  context.fillRect(0, height - 1, width, 1);
  // Before somebody looked, nobody knows more than since when the holder has had it.
  const firstKnown = Math.min(view.knownFrom, spans.length ? spans[0].from : Infinity);
  hatch(context, 0, 3, x(firstKnown) - 2, height - 7, style.track);
  const top = 3;
  const tall = height - 6;
  for (const span of spans) {
    const from = x(span.from);
    const to = x(Math.min(span.to, view.until));
    if (to <= from && span.to < view.from) continue;
    context.fillStyle = colourOf(span.owner);
    context.fillRect(from, top, Math.max(1, to - from - (span.to < view.until ? 1 : 0)), tall);
    if (height > 30 && to - from > 40) {
      context.fillStyle = style.panel;
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.fillText(span.owner.slice(0, Math.floor((to - from) / 8)), from + 6, height / 2, to - from - 10);
    }
  }
  for (const span of spans) {
    if (!span.lost || span.to < view.from) continue;
    context.fillStyle = style.bad;
    context.fillRect(x(span.to) - 1.5, 0, 3, height);
  }
  for (const outage of view.outages) {
    const to = outage.to === null ? view.to : outage.to;
    if (to < view.from) continue;
    context.fillStyle = style.panel;
    context.fillRect(x(outage.from), 0, x(to) - x(outage.from), height);
    hatch(context, x(outage.from), 1, x(to) - x(outage.from), height - 2, style.dim);
  }
  if (view.until < view.to) hatch(context, x(view.until), 1, width - x(view.until), height - 2, style.dim);
}
