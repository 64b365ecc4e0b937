// The page: draws what the model knows. Names and ids come from the store, where anybody may have written them, so text
// goes into the document as text only. Of ten thousand rows only those are in the document that can be seen.
import { Model, Refused, heldMs, leftMs, ttlLeftMs } from "/model.js";
import { colourOf, draw, holders } from "/timeline.js";

const $ = (id) => document.getElementById(id);
const model = new Model(onNews);
const shown = []; // the names that pass search and filter, in order
const pool = []; // elements of rows, each for one place in the list
let focused = 0; // the row that the keyboard is at
let dirty = true; // the order may have changed
let openName = null; // the mutex whose details are open
const scheduleOf = { row: null, isAsked: false }; // the row whose schedule the details show
let lastOrder = 0;
let lastLines = 0;

// --- words ---------------------------------------------------------------------------------------

function span(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = ms / 1000;
  if (s < 9.95) return s.toFixed(1) + " s";
  if (s < 60) return Math.floor(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " m " + String(Math.floor(s % 60)).padStart(2, "0");
  if (s < 86400) return Math.floor(s / 3600) + " h " + String(Math.floor((s % 3600) / 60)).padStart(2, "0");
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

const clock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

const PAST = {
  acquired: (c) => c.after.id + " acquired it",
  released: (c) => c.before.id + " gave it back",
  expired: (c) => c.before.id + " was lost: its lease ran out",
  "handed-over": (c) => (c.before.id === c.after.id ? c.after.id + " acquired it anew" : c.before.id + " handed it over to " + c.after.id),
  forced: (c) => c.before.id + " had it taken away" + (c.after ? "; " + c.after.id + " took over" : ""),
  "failed-over": (c) => c.before.id + " was lost; " + c.after.id + " took over",
};

// Who waits, in words.
function lineOf(row) {
  if (row.waiters === null) return "the store does not know who waits";
  if (row.waiters === 0) return "nobody waits";
  return row.waiters + (row.waiters === 1 ? " waits" : " wait") + (row.next === null ? "; who is next is not known" : "; " + row.next + " is next");
}

// "every 3600000" and "once per 3600000" are in milliseconds; the words of cron stay as they are.
const planOf = (when) => when.replace(/^(every|once per) (\d+)$/, (all, words, ms) => words + " " + span(Number(ms)));

function outcomeOf(run, isLast, isOwned) {
  const late = Date.parse(run.begun) - Date.parse(run.due) >= 1000 ? ", due at " + clock(Date.parse(run.due)) : "";
  const missed = run.missed > 0 ? ", after " + run.missed + " missed" : "";
  // Between two looks a run may end and the next one begin.
  if (run.ended === null) return (!isLast ? "its end was not seen" : isOwned ? "runs" : "was cut short") + late + missed;
  return (run.result === 0 ? "ended well" : "failed (" + run.result + ")") + " after " + span(Date.parse(run.ended) - Date.parse(run.begun)) + " at " + clock(Date.parse(run.ended)) + late + missed;
}

// --- order ---------------------------------------------------------------------------------------

const byText = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const last = (value) => (value === null || value === undefined ? -1 : value);
const ORDERS = {
  mutex: () => 0,
  owner: (a, b) => (a.owner === null) - (b.owner === null) || byText(a.owner, b.owner),
  held: (a, b, now) => last(heldMs(b, now)) - last(heldMs(a, now)),
  left: (a, b, now) => (leftMs(a, now) ?? Infinity) - (leftMs(b, now) ?? Infinity) || 0,
  waiters: (a, b) => last(b.waiters) - last(a.waiters),
  changed: (a, b) => b.changedAt - a.changedAt,
};

const isOverdue = (row, now) => row.owner !== null && row.ttl_left_ms !== null && ttlLeftMs(row, now) === 0;
const FILTERS = {
  all: () => true,
  owned: (row) => row.owner !== null,
  free: (row) => row.owner === null,
  overdue: isOverdue,
  changed: (row) => row.changedAt > Date.now() - Number($("span").value),
};

function putInOrder() {
  const now = performance.now();
  const wanted = $("search").value.trim().toLowerCase();
  const passes = FILTERS[$("filter").value];
  const order = ORDERS[$("sort").value];
  const rows = [];
  for (const row of model.rows.values()) {
    if (!passes(row, now)) continue;
    if (wanted && !row.mutex.toLowerCase().includes(wanted) && !(row.owner || "").toLowerCase().includes(wanted)) continue;
    rows.push(row);
  }
  rows.sort((a, b) => order(a, b, now) || byText(a.mutex, b.mutex));
  shown.length = 0;
  for (const row of rows) shown.push(row.mutex);
  focused = Math.max(0, Math.min(focused, shown.length - 1));
  $("count").textContent =
    shown.length === model.rows.size ? shown.length.toLocaleString() + (shown.length === 1 ? " mutex" : " mutexes")
      : shown.length.toLocaleString() + " of " + model.rows.size.toLocaleString();
  $("grid").setAttribute("aria-rowcount", String(shown.length + 1));
  $("empty").hidden = shown.length > 0;
  $("empty").textContent = model.rows.size === 0 ? "The store has no mutex yet." : "No mutex is like that.";
  $("rows").style.height = shown.length * rowHeight() + "px";
  lastOrder = performance.now();
  dirty = false;
}

// --- rows ------------------------------------------------------------------------------------------

const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));

function element(kind, name, parent) {
  const made = document.createElement(kind);
  if (name) made.className = name;
  if (parent) parent.append(made);
  return made;
}

function makeRow() {
  const row = element("div", "row", $("rows"));
  row.setAttribute("role", "row");
  const cell = (name) => {
    const made = element("div", name, row);
    made.setAttribute("role", "gridcell");
    return made;
  };
  const parts = { row, name: cell("c-name"), owner: cell("c-owner"), held: cell("c-held"), left: cell("c-left"), wait: cell("c-wait"), token: cell("c-token"), line: cell("c-line") };
  parts.swatch = element("span", "swatch", parts.owner);
  parts.id = element("span", "", parts.owner);
  parts.bar = element("span", "bar", parts.left);
  parts.fill = element("i", "", parts.bar);
  parts.leftText = element("span", "left-text", parts.left);
  parts.waiters = element("span", "", parts.wait);
  parts.next = element("span", "next", parts.wait);
  parts.canvas = element("canvas", "", parts.line);
  parts.canvas.setAttribute("role", "img");
  row.addEventListener("click", () => openDetail(parts.mutex));
  row.addEventListener("focus", () => (focused = parts.index));
  return parts;
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function fill(parts, index, now) {
  const mutex = shown[index];
  const row = model.rows.get(mutex);
  if (!row) return;
  if (parts.index !== index || parts.mutex !== mutex) {
    parts.index = index;
    parts.mutex = mutex;
    parts.row.style.transform = "translateY(" + index * rowHeight() + "px)";
    parts.row.setAttribute("aria-rowindex", String(index + 2));
    parts.row.classList.remove("news");
    parts.lineAt = 0;
  }
  parts.row.hidden = false;
  parts.row.tabIndex = index === focused ? 0 : -1;
  const frozen = model.isStale() ? row.seenAt : now;
  put(parts.name, row.mutex);
  put(parts.id, row.owner === null ? "free" : row.owner);
  parts.row.classList.toggle("free", row.owner === null);
  parts.row.classList.toggle("overdue", !model.isStale() && isOverdue(row, now));
  parts.swatch.hidden = row.owner === null;
  if (row.owner !== null) parts.swatch.style.background = colourOf(row.owner);
  put(parts.held, row.owner === null ? "" : span(heldMs(row, frozen)));
  const left = leftMs(row, frozen);
  parts.bar.hidden = left === null;
  parts.fill.style.transform = "scaleX(" + (left && row.lease ? (left / row.lease).toFixed(4) : 0) + ")";
  put(parts.leftText, row.owner === null ? "" : left === null ? "session" : span(left));
  put(parts.waiters, row.waiters === null ? "?" : String(row.waiters));
  put(parts.next, row.next || "");
  parts.wait.classList.toggle("unknown", row.waiters === null);
  parts.wait.classList.toggle("empty-line", row.waiters === 0);
  parts.wait.setAttribute("aria-label", lineOf(row));
  put(parts.token, row.token || "");
}

function visible() {
  const height = rowHeight();
  const top = $("scroller").scrollTop;
  const first = Math.max(0, Math.floor(top / height) - 4);
  return { first, end: Math.min(shown.length, Math.ceil((top + $("scroller").clientHeight) / height) + 4) };
}

function drawRows() {
  const now = performance.now();
  const { first, end } = visible();
  const count = Math.max(0, end - first);
  while (pool.length < count) pool.push(makeRow());
  // A place in the pool belongs to an index, so that scrolling changes only the rows that come into sight.
  const used = new Set();
  for (let index = first; index < end; index++) {
    const parts = pool[index % pool.length];
    used.add(parts);
    fill(parts, index, now);
  }
  for (const parts of pool) if (!used.has(parts)) parts.row.hidden = true;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  return { track: colour("--track"), bad: colour("--bad"), dim: colour("--dim"), panel: colour("--panel") };
}

function viewOf() {
  const to = Date.now();
  const until = model.isStale() ? to - Math.min(model.ageMs(), Number($("span").value)) : to;
  return { from: to - Number($("span").value), to, until, outages: model.outages, style: theme() };
}

// Draws the holders of a mutex; returns them.
function drawLine(canvas, mutex, view) {
  const knownFrom = Math.min(view.to, model.knownFrom(mutex));
  const spans = holders(model.rows.get(mutex), model.changes.get(mutex), view.until, knownFrom);
  draw(canvas, spans, { ...view, knownFrom });
  return spans;
}

function describe(spans) {
  const lost = spans.filter((s) => s.lost).length;
  return spans.length + (spans.length === 1 ? " holder" : " holders") + (lost ? ", " + lost + " lost" : "");
}

function drawLines(force) {
  const view = viewOf();
  for (const parts of pool) {
    if (parts.row.hidden || (!force && parts.lineAt > performance.now() - 900)) continue;
    const spans = drawLine(parts.canvas, parts.mutex, view);
    parts.canvas.setAttribute("aria-label", "Timeline: " + describe(spans.filter((s) => s.to > view.from)));
    parts.lineAt = performance.now();
  }
  lastLines = performance.now();
}

function drawAxis() {
  const minutes = Number($("span").value) / 60000;
  const axis = $("axis");
  axis.replaceChildren();
  for (const part of [1, 0.5]) element("span", "", axis).textContent = "−" + (minutes * part >= 60 ? (minutes * part) / 60 + " h" : minutes * part < 1 ? minutes * part * 60 + " s" : minutes * part + " min");
  element("span", "", axis).textContent = "now";
}

// --- what is wrong -----------------------------------------------------------------------------------

function drawStatus() {
  const stale = model.isStale();
  const store = model.store;
  const alarm = $("alarm");
  document.body.classList.toggle("stale", stale);
  let text = "";
  if (model.linkLostAt !== null) text = "No connection to simba serve since " + clock(model.linkLostAt) + ". What is shown is from then.";
  else if (store && !store.answers && store.since !== null)
    text = "The store has not answered since " + clock(Date.parse(store.since)) + ": " + store.error + ". What is shown is from before.";
  else if (stale && store && store.age_ms !== null) text = "What is shown is " + span(model.ageMs()) + " old: the store takes long to answer.";
  put(alarm, text);
  alarm.hidden = text === "";
  put($("store"), store ? store.url : "");
  const status = $("status");
  status.dataset.is = stale ? "bad" : "good";
  put(status, model.linkLostAt !== null ? "disconnected" : !store || store.since === null ? "connecting" : !store.answers ? "store does not answer" : stale ? "slow" : "live");
  document.title = (stale ? "⚠ " : "") + (openName === null ? "" : openName + " – ") + "simba";
}

// --- details -------------------------------------------------------------------------------------------

function fact(list, name, value) {
  element("dt", "", list).textContent = name;
  const shownValue = element("dd", "", list);
  shownValue.textContent = value;
  return shownValue;
}

// A line of a log: when, and what.
function logLine(list, at, kind, text) {
  const item = element("li", "", list);
  const time = element("time", "", item);
  if (Number.isFinite(at)) time.dateTime = new Date(at).toISOString(); // what a store has noted may be no time at all
  time.textContent = Math.abs(Date.now() - at) < 86400000 ? clock(at) : new Date(at).toLocaleString();
  time.title = new Date(at).toLocaleString();
  element("div", "kind-" + kind, item).textContent = text;
}

// The schedule comes from simba serve when the details are opened, and again when the row is another one.
async function fetchSchedule(row) {
  if (scheduleOf.row === row || scheduleOf.isAsked) return;
  scheduleOf.row = row;
  scheduleOf.isAsked = true;
  try {
    const one = await model.get("/api/v1/mutexes/" + encodeURIComponent(row.mutex));
    if (row.mutex === openName) drawSchedule(one.schedule, one.state.owner !== null);
  } catch {
    // The next row that comes asks again; that simba serve is gone is said elsewhere.
  } finally {
    scheduleOf.isAsked = false;
  }
}

function drawSchedule(schedule, isOwned) {
  $("detail-schedule").hidden = schedule === null;
  $("detail-plan").replaceChildren();
  $("detail-runs").replaceChildren();
  if (schedule === null) return;
  fact($("detail-plan"), "When", planOf(schedule.when));
  fact($("detail-plan"), "Next run", schedule.next === null ? "not known" : new Date(schedule.next).toLocaleString());
  const runs = schedule.runs.slice().reverse();
  runs.forEach((run, index) => logLine($("detail-runs"), Date.parse(run.begun), run.result ? "failed" : "run", outcomeOf(run, index === 0, isOwned)));
}

function drawDetail() {
  if (openName === null) return;
  const now = performance.now();
  const row = model.rows.get(openName);
  const changes = model.changes.get(openName) || [];
  const facts = $("detail-facts");
  const frozen = row && model.isStale() ? row.seenAt : now;
  facts.replaceChildren();
  if (!row) fact(facts, "State", changes.length ? "the store does not have it any more" : "the store has no such mutex");
  else if (row.owner === null) fact(facts, "Owner", "free");
  else {
    fact(facts, "Owner", row.owner);
    fact(facts, "Held", span(heldMs(row, frozen)));
    fact(facts, "Lease", row.transition_left_ms === null ? "as long as its session" : span(leftMs(row, frozen)) + " left");
    fact(facts, "Token", row.token);
  }
  if (row) fact(facts, "Waiting", lineOf(row));
  if (row && row.note) fact(facts, "Note", row.note).className = "note";
  if (row) fetchSchedule(row);
  const spans = drawLine($("detail-line"), openName, viewOf());
  $("detail-line").setAttribute("aria-label", "Timeline: " + describe(spans));
  $("detail-release").hidden = !(model.canRelease && row && row.owner !== null);
  const key = changes.length + "/" + (changes.length ? changes[changes.length - 1].at : 0);
  if ($("detail-history").dataset.key === key) return;
  $("detail-history").dataset.key = key;
  $("detail-history").replaceChildren();
  for (const change of changes.slice().reverse()) {
    logLine($("detail-history"), change.at, change.kind, PAST[change.kind](change));
  }
  put($("detail-more"), changes.length ? "" : "Nothing has changed since simba serve was started.");
}

// The details of a mutex have an address of their own: #mutex=NAME.
const ADDRESS = "#mutex=";

function addressed() {
  if (!location.hash.startsWith(ADDRESS)) return null;
  try {
    return decodeURIComponent(location.hash.slice(ADDRESS.length)) || null;
  } catch {
    return null; // somebody has typed it
  }
}

function showAddressed() {
  const mutex = addressed();
  if (mutex === null) $("detail").close();
  else if (mutex !== openName) openDetail(mutex);
}

function openDetail(mutex) {
  openName = mutex;
  if (addressed() !== mutex) history.pushState(null, "", ADDRESS + encodeURIComponent(mutex));
  scheduleOf.row = null;
  drawSchedule(null);
  put($("detail-name"), mutex);
  $("detail-history").dataset.key = "";
  if (!$("detail").open) $("detail").showModal();
  drawDetail();
  drawStatus();
}

$("detail-close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("click", (event) => event.target === $("detail") && $("detail").close());
$("detail").addEventListener("close", () => {
  openName = null;
  if (addressed() !== null) history.pushState(null, "", location.pathname);
  drawStatus();
  focusRow(focused);
});
$("detail-release").addEventListener("click", async () => {
  const row = model.rows.get(openName);
  if (!row || row.owner === null) return;
  if (!confirm("Take “" + row.mutex + "” away from " + row.owner + "? What runs there may act until it learns of it.")) return;
  try {
    await model.release(row);
  } catch (error) {
    alert(error.message);
  }
});

// --- news --------------------------------------------------------------------------------------------------

const unsaid = [];

function sayNews() {
  if (unsaid.length === 0) return;
  put($("spoken"), unsaid.length > 3 ? unsaid.length + " changes" : unsaid.join(". "));
  unsaid.length = 0;
}

function onNews(what, data) {
  if (what === "rows") dirty = true;
  if (what === "change" && data.mutex !== null) {
    dirty = true;
    if (unsaid.length < 1000) unsaid.push(data.mutex + ": " + PAST[data.kind](data));
    for (const parts of pool) {
      if (parts.mutex !== data.mutex) continue;
      parts.lineAt = 0;
      parts.row.classList.remove("news");
      void parts.row.offsetWidth; // so that the animation begins anew
      parts.row.classList.add("news");
    }
  }
  if (what === "store" || what === "link") {
    drawStatus();
    drawRows();
  }
}

function tick() {
  if (document.hidden) return;
  const idle = $("sort").value === "mutex" && $("filter").value === "all" && shown.length === model.rows.size;
  // Putting ten thousand in order takes some milliseconds; nobody reads faster than twice a second.
  if (dirty && (!idle || shown.length === 0 || performance.now() - lastOrder > 2000) && performance.now() - lastOrder > 500) putInOrder();
  drawRows();
  drawLines(performance.now() - lastLines > 1000);
  drawStatus();
  drawDetail();
}

// --- hands ----------------------------------------------------------------------------------------------------

function refresh() {
  putInOrder();
  drawRows();
  drawLines(true);
}

function focusRow(index) {
  if (shown.length === 0) return;
  focused = Math.max(0, Math.min(index, shown.length - 1));
  const height = rowHeight();
  const scroller = $("scroller");
  const head = scroller.querySelector(".head").offsetHeight;
  const top = focused * height;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  if (top + height + head > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + height + head - scroller.clientHeight;
  drawRows();
  const parts = pool.find((p) => !p.row.hidden && p.index === focused);
  if (parts) parts.row.focus({ preventScroll: true });
}

$("rows").addEventListener("keydown", (event) => {
  const page = Math.max(1, Math.floor($("scroller").clientHeight / rowHeight()) - 2);
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key in moves) {
    event.preventDefault();
    focusRow(focused + moves[event.key]);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    openDetail(shown[focused]);
  }
});
addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, select, dialog")) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape" && event.target === $("search")) {
    $("search").value = "";
    refresh();
  } else if (event.key === "ArrowDown" && event.target === $("search")) {
    event.preventDefault();
    focusRow(0);
  }
});

function markSort() {
  for (const head of document.querySelectorAll("[data-sort]")) {
    if (head.dataset.sort === $("sort").value) head.setAttribute("aria-sort", head.dataset.sort === "mutex" || head.dataset.sort === "owner" || head.dataset.sort === "left" ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
}

for (const head of document.querySelectorAll("[data-sort]"))
  head.addEventListener("click", () => {
    $("sort").value = head.dataset.sort;
    $("sort").dispatchEvent(new Event("change"));
  });
for (const id of ["search", "filter", "sort", "span"]) {
  $(id).addEventListener(id === "search" ? "input" : "change", () => {
    $("scroller").scrollTop = 0;
    focused = 0;
    markSort();
    drawAxis();
    refresh();
  });
}
$("scroller").addEventListener("scroll", () => {
  drawRows();
  drawLines(false);
}, { passive: true });
addEventListener("resize", () => {
  for (const parts of pool) parts.index = -1;
  refresh();
});
document.addEventListener("visibilitychange", tick);
addEventListener("popstate", () => !$("main").hidden && showAddressed());

// --- beginning ------------------------------------------------------------------------------------------------

async function begin() {
  $("gate").hidden = true;
  try {
    model.revision = null;
    await model.load();
    $("main").hidden = false;
    markSort();
    drawAxis();
    refresh();
    drawStatus();
    showAddressed();
    await model.follow();
  } catch (error) {
    $("main").hidden = true;
    $("gate").hidden = !(error instanceof Refused);
    if (error instanceof Refused) {
      $("token").focus();
      return;
    }
    put($("alarm"), "simba serve does not answer: " + error.message);
    $("alarm").hidden = false;
    setTimeout(begin, 2000);
  }
}

$("gate").addEventListener("submit", (event) => {
  event.preventDefault();
  model.token = $("token").value.trim();
  sessionStorage.setItem("simba-token", model.token);
  begin();
});

setInterval(tick, 200);
setInterval(sayNews, 3000);
begin();
