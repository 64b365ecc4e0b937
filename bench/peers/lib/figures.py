"""What the answers of peers mean: the arithmetic of the comparison, without any process or clock."""
import math


class Broken(Exception):
    """A peer answered an error, or something that the protocol does not know."""


def words_of(line, first):
    words = line.split()
    if not words or words[0] != first:
        raise Broken(line[:200] or "no answer")
    return words[1:]


def pairs(line):
    """pairs COUNT NS P50 P99."""
    words = words_of(line, "pairs")
    if len(words) != 4:
        raise Broken(line[:200])
    count, elapsed_ns, p50_ns, p99_ns = map(int, words)
    return {"count": count, "per_s": count * 1e9 / elapsed_ns, "p50_us": p50_ns / 1e3, "p99_us": p99_ns / 1e3}


def stamp(line, first):
    words = words_of(line, first)
    if len(words) != 1:
        raise Broken(line[:200])
    return int(words[0])


def grants(line):
    """fight STAMP,STAMP,… …: one list for each client; a client that never had it answers "-"."""
    return [[] if word == "-" else [int(text) for text in word.split(",")] for word in words_of(line, "fight")]


def jain(shares):
    """1: all have the same; 1/n: one has all."""
    total = sum(shares)
    return total * total / (len(shares) * sum(share * share for share in shares)) if total else 0.0


def fight(clients, from_ns, to_ns):
    """Of the grants of all clients in a window: how often the owner changed, and how evenly they were shared."""
    inside = sorted((at, client) for client, stamps in enumerate(clients) for at in stamps if from_ns <= at < to_ns)
    changes = sum(1 for before, after in zip(inside, inside[1:]) if before[1] != after[1])
    shares = [0] * len(clients)
    for _, client in inside:
        shares[client] += 1
    seconds = (to_ns - from_ns) / 1e9
    return {"grants_per_s": len(inside) / seconds, "changes_per_s": changes / seconds, "jain": jain(shares)}


def median(values):
    ordered = sorted(value for value in values if value is not None and not math.isnan(value))
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def quietest(name, values):
    """Of several rounds the one that was disturbed least: a neighbour on the machine slows a round down, but never speeds one up."""
    if name.endswith("_per_s"):
        return max(values)
    return min(values) if name.endswith(("_us", "_ms")) else median(values)


def summary(rounds):
    """One value for every figure, out of the rounds in which it was measured."""
    names = sorted({name for figures in rounds for name in figures})
    return {name: quietest(name, [figures[name] for figures in rounds if name in figures]) for name in names}
