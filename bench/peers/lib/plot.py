"""Plots as SVG, by hand: bars that a browser shows in light and in dark surroundings."""
import math

WIDTH = 760
LEFT = 230      # room for names
RIGHT = 90      # room for figures
BAR = 16
STEP = 22
OURS, THEIRS = "#2a7de1", "#8a8f98"
STYLE = "<style>text{font:12px sans-serif;fill:#777}.t{font-weight:bold;font-size:14px}</style>"


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def number(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def frame(height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">\n'
            + STYLE + "\n" + "\n".join(parts) + "\n</svg>\n")


def text(x, y, words, anchor="start", css=""):
    css = f' class="{css}"' if css else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{css}>{escape(words)}</text>'


def bars(title, items, logarithmic=False):
    """items: (name, value, of ours?). One bar each, the length by the value."""
    items = [item for item in items if item[1] is not None]
    room = WIDTH - LEFT - RIGHT
    most = max((value for _, value, _ in items), default=1) or 1
    least = min((value for _, value, _ in items if value > 0), default=1)
    parts = [text(8, 20, title, css="t")]
    for i, (name, value, ours) in enumerate(items):
        if logarithmic and most > least:
            share = 0 if value <= 0 else (math.log(value / least) / math.log(most / least)) * 0.95 + 0.05
        else:
            share = max(value, 0) / most
        y = 34 + i * STEP
        parts.append(text(LEFT - 8, y + 12, name, "end"))
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{share * room:.1f}" height="{BAR}" fill="{OURS if ours else THEIRS}"/>')
        parts.append(text(LEFT + share * room + 6, y + 12, number(value)))
    return frame(34 + len(items) * STEP + 8, parts)


def pictures(result):
    """File name and content of all plots of a run."""
    def items(figure, servers=None):
        return [(entry["text"], entry["figures"].get(figure), entry["name"].startswith("simba")) for entry in result["entries"]
                if servers is None or entry["server"] in servers]

    shared = {"redis", "zookeeper", "etcd"}
    return {
        "peers-pairs.svg": bars("Lock and unlock, one thread: pairs per second (logarithmic)", items("pairs_1_per_s"), True),
        "peers-threads.svg": bars("64 threads of one client, own mutexes: pairs per second (logarithmic)",
                                  items("pairs_64_per_s"), True),
        "peers-changes.svg": bars("16 clients want one mutex: changes of owner per second",
                                  items("changes_per_s", shared | {"sqlite"})),
        "peers-server.svg": bars("Processor time of the server for a lock and unlock, one thread (µs)",
                                 items("pairs_1_server_us", shared)),
        "peers-takeover.svg": bars("A killed holder: from the end of its lease to the next owner (ms)",
                                   items("takeover_ms", shared | {"sqlite"})),
        "peers-waiting.svg": bars("What a waiter asks of the server per second", items("commands_per_waiter_s", shared)),
    }
