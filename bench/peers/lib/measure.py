"""Measures the entries in rounds that take turns, so that all of them see the same weather."""
import dataclasses
import os
import platform
import select
import subprocess
import sys
import time

import figures
import servers

KINDS = ("pairs", "fight", "waiting", "takeover")
CLIENTS = 16
LEASE_MS = 2000
START_S = 60
TAKEOVER_S = 20    # beyond that nobody waits


@dataclasses.dataclass(frozen=True)
class Plan:
    rounds: int = 3
    threads: tuple = (1, 16, 64)    # of a client, for "pairs"
    warm_ms: int = 1000     # of a process, before anything counts
    pairs_ms: int = 1500
    fight_ms: int = 2000
    waiting_s: float = 3
    takeovers: int = 3


QUICK = Plan(rounds=1, warm_ms=100, pairs_ms=200, fight_ms=300, waiting_s=0.5, takeovers=1)


class Peer:
    """A process of an entry that does what it is told."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        preexec_fn=servers.die_with_parent)
        self.left = b""

    def tell(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as gone:
            raise figures.Broken("it has ended") from gone

    def hear(self, seconds):
        until = time.monotonic() + seconds
        while b"\n" not in self.left:
            left_s = until - time.monotonic()
            if left_s <= 0 or not select.select([self.process.stdout], [], [], left_s)[0]:
                raise figures.Broken(f"no answer within {seconds:.0f} s")
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            if not part:
                raise figures.Broken("it has ended: " + self.left.decode(errors="replace")[:200])
            self.left += part
        line, self.left = self.left.split(b"\n", 1)
        return line.decode(errors="replace")

    def ask(self, line, seconds):
        self.tell(line)
        return self.hear(seconds)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Crew:
    """Several processes of an entry; a context that ends them."""

    def __init__(self, words, count):
        self.peers = []
        try:
            self.peers = [Peer(words) for _ in range(count)]
            for peer in self.peers:
                if peer.hear(START_S) != "ready":
                    raise figures.Broken("it does not get ready")
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self.peers

    def __exit__(self, *_):
        self.end()

    def end(self):
        for peer in self.peers:
            peer.kill()


class Entrant:
    """An entry with its program and its server."""

    def __init__(self, entry, words, server):
        self.entry = entry
        self.server = server
        self.words = words + [entry.address.format(address=server.address)]
        self.lease_words = words + [(entry.lease_address or entry.address).format(address=server.address)]
        self.rounds = []
        self.errors = {}  # by what was measured
        self.used_names = 0

    def name(self):
        """Of a mutex that nobody has used yet."""
        self.used_names += 1
        return f"{self.entry.name}-{self.used_names}"

    def cpu_ns(self):
        return self.server.cpu_ns() if self.server.process else None

    # --- pairs: threads of one client, each with a mutex of its own

    def pairs(self, plan):
        results = {}
        with Crew(self.words, 1) as (peer,):
            for threads in plan.threads:
                timeout_s = plan.pairs_ms / 1000 + START_S
                figures.pairs(peer.ask(f"pairs {threads} {plan.warm_ms}", plan.warm_ms / 1000 + START_S))
                before_ns = self.cpu_ns()
                got = figures.pairs(peer.ask(f"pairs {threads} {plan.pairs_ms}", timeout_s))
                for figure in ("per_s", "p50_us", "p99_us"):
                    results[f"pairs_{threads}_{figure}"] = got[figure]
                if before_ns is not None:
                    results[f"pairs_{threads}_server_us"] = (self.cpu_ns() - before_ns) / 1e3 / got["count"]
        return results

    # --- fight: 16 clients want one mutex

    def fight(self, plan):
        if self.entry.alone:
            return {}
        with Crew(self.words, self.entry.processes) as peers:
            each = CLIENTS // len(peers)
            for ms, counts in ((plan.warm_ms, False), (plan.fight_ms, True)):
                name = self.name()
                for peer in peers:
                    peer.tell(f"fight {name} {each} {ms}")
                lists = [stamps for peer in peers for stamps in figures.grants(peer.hear(ms / 1000 + START_S))]
                if not counts:
                    continue
                # While all of them ran: those that open their clients late begin late.
                first_ns = min(min(stamps) for stamps in lists if stamps)
                got = figures.fight(lists, first_ns + ms * 200000, first_ns + ms * 900000)
        return {"changes_per_s": got["changes_per_s"], "jain": got["jain"], "grants_per_s": got["grants_per_s"]}

    # --- waiting: what 16 clients that wait ask of the server, beyond what the holder alone does

    def waiting(self, plan):
        if self.entry.alone or not self.server.process:
            return {}
        name = self.name()
        with Crew(self.words, 1) as (holder,), Crew(self.words, self.entry.processes) as peers:
            figures.stamp(holder.ask(f"hold {name} 60000", START_S), "held")
            alone = self.commands_during(plan.waiting_s)
            for peer in peers:
                peer.tell(f"fight {name} {CLIENTS // len(peers)} 100")
            time.sleep(1)  # until all of them wait; nothing tells
            together = self.commands_during(plan.waiting_s)
        return {"commands_per_waiter_s": max(0.0, (together - alone) / plan.waiting_s / CLIENTS)}

    def commands_during(self, seconds):
        before = self.server.commands()
        time.sleep(seconds)
        return self.server.commands() - before

    # --- takeover: a holder is killed; how long after the end of its lease does a waiter have the mutex?

    def takeover(self, plan):
        if self.entry.alone:
            return {}
        past_ms = []
        for _ in range(plan.takeovers):
            name = self.name()
            with Crew(self.lease_words, 1) as (holder,), Crew(self.lease_words, 1) as (waiter,):
                held_ns = figures.stamp(holder.ask(f"hold {name} {LEASE_MS}", START_S), "held")
                waiter.tell(f"wait {name} {LEASE_MS}")
                # At once, so that nobody has renewed it; but the waiter is to wait.
                time.sleep(0.05)
                holder.kill()
                ended_ns = held_ns + LEASE_MS * 1000000 if self.entry.leases else time.monotonic_ns()
                got_ns = figures.stamp(waiter.hear(TAKEOVER_S), "got")
                past_ms.append((got_ns - ended_ns) / 1e6)
        return {"takeover_ms": figures.median(past_ms)}


def load():
    return round(os.getloadavg()[0], 2)


def about_machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cores": os.cpu_count(), "processor": model, "kernel": platform.release()}


def measure(entries, ways, running, plan, kinds):
    entrants, missing = [], []
    for entry in entries:
        why = next((text for text in (ways[entry.name], running[entry.server]) if isinstance(text, str)), None)
        if why:
            missing.append({"name": entry.name, "text": entry.text, "why": why})
        else:
            entrants.append(Entrant(entry, ways[entry.name], running[entry.server]))
    loads = [load()]
    began = time.time()
    for number in range(plan.rounds):
        for entrant in entrants:
            entrant.rounds.append({})
        for kind in kinds:
            if kind in ("waiting", "takeover") and number > 0:
                continue  # these hardly vary, and takeover has rounds of its own
            for entrant in entrants:
                if kind in entrant.errors:
                    continue
                print(f"==> round {number + 1}: {kind}, {entrant.entry.name}", file=sys.stderr, flush=True)
                try:
                    entrant.rounds[-1].update(getattr(entrant, kind)(plan))
                except (figures.Broken, servers.CannotStart, OSError) as broken:
                    entrant.errors[kind] = str(broken)
            loads.append(load())
    return {
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
        "seconds": round(time.time() - began),
        "plan": dataclasses.asdict(plan),
        "kinds": list(kinds),
        "machine": about_machine(),
        "load": {"least": min(loads), "most": max(loads)},
        "servers": {kind: servers.version(server) for kind, server in running.items() if servers.version(server)},
        "entries": [{"name": e.entry.name, "text": e.entry.text, "server": e.entry.server, "waits": e.entry.waits,
                     "errors": e.errors, "figures": figures.summary(e.rounds), "rounds": e.rounds} for e in entrants],
        "missing": missing,
    }
