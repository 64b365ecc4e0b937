// What the page knows: the rows of the store, what happened to them, and whether all of that is still true.

export class Refused extends Error {}

const CHANGES_MAX = 5000; // that simba serve sends at once
const CHANGES_PER_MUTEX = 128; // as many as simba serve keeps

export class Model {
  constructor(tell) {
    this.tell = tell; // called with "rows", "change", "store" or "link" when one of them is new
    this.token = sessionStorage.getItem("simba-token") || "";
    this.rows = new Map();
    this.changes = new Map(); // by mutex, oldest first
    this.completeFrom = 0; // from then on no mutex lacks a change, but those of which there were too many
    this.outages = []; // {from, to}: when nothing was known; to is null while it lasts
    this.store = null;
    this.canRelease = false;
    this.revision = null;
    this.linkLostAt = null; // when this page lost simba serve; null: it is there
    this.heardAt = performance.now();
    this.startedAt = Date.now();
  }

  headers() {
    return this.token ? { Authorization: "Bearer " + this.token } : {};
  }

  async get(path) {
    const answer = await fetch(path, { headers: this.headers(), cache: "no-store" });
    if (answer.status === 401) throw new Refused();
    if (!answer.ok) throw new Error(await errorOf(answer));
    return answer.json();
  }

  async load() {
    const [list, past] = await Promise.all([this.get("/api/v1/mutexes"), this.get("/api/v1/history?limit=" + CHANGES_MAX)]);
    this.revision = list.revision;
    this.canRelease = list.can_release;
    this.rows.clear();
    this.changes.clear();
    this.outages = [];
    this.completeFrom = past.history.length < CHANGES_MAX ? 0 : Date.parse(past.history[0].at);
    past.history.forEach((change) => this.takeChange(change));
    this.takeRows(list.mutexes);
    this.takeStore(list.store);
    this.tell("rows");
  }

  takeRows(rows) {
    const now = performance.now();
    for (const row of rows) {
      const before = this.rows.get(row.mutex);
      if (row.gone) {
        this.rows.delete(row.mutex);
        continue;
      }
      row.seenAt = now;
      // The lease is as long as the longest that was ever left of it, under this token.
      const left = row.transition_left_ms;
      row.lease = left === null ? null : Math.max(left, before && before.token === row.token && before.lease ? before.lease : 0);
      row.changedAt = before ? before.changedAt : lastAt(this.changes.get(row.mutex));
      this.rows.set(row.mutex, row);
    }
  }

  takeChange(change) {
    const at = Date.parse(change.at);
    if (change.kind === "store-lost") this.outages.push({ from: at, to: null });
    if (this.outages.length > 500) this.outages.shift();
    if (change.kind === "store-back" && this.outages.length) this.outages[this.outages.length - 1].to = at;
    if (change.mutex === null) return;
    const item = { at, kind: change.kind, before: change.before, after: change.after, held_ms: change.held_ms };
    const list = this.changes.get(change.mutex);
    if (list) {
      list.push(item);
      if (list.length > CHANGES_PER_MUTEX) list.shift();
    } else {
      this.changes.set(change.mutex, [item]);
      if (this.changes.size > 20000) {
        const [first, dropped] = this.changes.entries().next().value;
        this.completeFrom = Math.max(this.completeFrom, lastAt(dropped));
        this.changes.delete(first);
      }
    }
    const row = this.rows.get(change.mutex);
    if (row) row.changedAt = at;
  }

  // Since when every change of a mutex is known; Infinity: nothing is.
  knownFrom(mutex) {
    if (!this.store || !this.store.watched_since) return Infinity;
    const list = this.changes.get(mutex);
    const isCut = list && list.length >= CHANGES_PER_MUTEX;
    return Math.max(Date.parse(this.store.watched_since), this.completeFrom, isCut ? list[0].at : 0);
  }

  takeStore(store) {
    this.store = store;
    this.storeAt = performance.now();
    this.tell("store");
  }

  // How old what is shown is; Infinity: there is nothing.
  ageMs() {
    if (!this.store || this.store.age_ms === null) return Infinity;
    return this.store.age_ms + (performance.now() - this.storeAt);
  }

  isStale() {
    return this.linkLostAt !== null || !this.store || !this.store.answers || this.ageMs() > 10000;
  }

  // Follow what happens, for ever. By fetch and not by EventSource, which cannot send a token.
  async follow() {
    for (let pause = 500; ; pause = Math.min(pause * 2, 10000)) {
      try {
        if (this.revision === null) await this.load();
        await this.readStream(() => (pause = 250));
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      if (this.linkLostAt === null) this.linkLostAt = Date.now();
      this.tell("link");
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  async readStream(heard) {
    const abort = new AbortController();
    const watchdog = setInterval(() => performance.now() - this.heardAt > 8000 && abort.abort(), 1000);
    try {
      this.heardAt = performance.now();
      const answer = await fetch("/api/v1/events", {
        headers: { ...this.headers(), "Last-Event-ID": this.revision }, cache: "no-store", signal: abort.signal,
      });
      if (answer.status === 401) throw new Refused();
      if (!answer.ok) throw new Error(await errorOf(answer));
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        this.heardAt = performance.now();
        heard();
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const text of events) if (!(await this.takeEvent(text))) return;
        if (this.linkLostAt !== null) {
          this.linkLostAt = null;
          this.tell("link");
        }
      }
    } finally {
      clearInterval(watchdog);
      abort.abort();
    }
  }

  // False: what is known is too old to be brought up to date.
  async takeEvent(text) {
    const fields = {};
    for (const line of text.split("\n")) {
      const colon = line.indexOf(": ");
      fields[line.slice(0, colon)] = line.slice(colon + 2);
    }
    if (fields.event === "reset") {
      this.revision = null;
      return false;
    }
    const data = JSON.parse(fields.data);
    if (fields.event === "rows") {
      this.takeRows(data);
      this.tell("rows", data);
    } else if (fields.event === "change") {
      this.takeChange(data);
      this.tell("change", data);
    } else if (fields.event === "store") {
      this.takeStore(data);
    }
    if (fields.id) this.revision = fields.id;
    return true;
  }

  async release(row) {
    const where = "/api/v1/release?mutex=" + encodeURIComponent(row.mutex) + "&token=" + encodeURIComponent(row.token);
    const answer = await fetch(where, { method: "POST", headers: this.headers() });
    if (!answer.ok) throw new Error(await errorOf(answer));
  }
}

function lastAt(list) {
  return list && list.length ? list[list.length - 1].at : 0;
}

async function errorOf(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return "simba serve answered " + answer.status;
  }
}

// What is left of a lease now, and how long it has been held: as of the answer, and the time since.
export function leftMs(row, now) {
  return row.transition_left_ms === null ? null : Math.max(0, row.transition_left_ms - (now - row.seenAt));
}

export function ttlLeftMs(row, now) {
  return row.ttl_left_ms === null ? null : Math.max(0, row.ttl_left_ms - (now - row.seenAt));
}

export function heldMs(row, now) {
  return row.held_ms === null ? null : row.held_ms + (now - row.seenAt);
}
