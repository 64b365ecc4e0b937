"""Plots as SVG, by hand: bars and lines that a browser shows in light and in dark surroundings."""
import math

WIDTH = 760
LEFT = 230      # room for names
RIGHT = 90      # room for figures
BAR = 16
STEP = 22
COLOURS = ["#2a7de1", "#8a8f98", "#d98324", "#3c9d5b", "#a05bc4"]
STYLE = ("<style>text{font:12px sans-serif;fill:#777}.t{font-weight:bold;font-size:14px}"
         ".g{stroke:#7774;stroke-width:1}</style>")


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
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{share * room:.1f}" height="{BAR}" fill="{COLOURS[0 if ours else 1]}"/>')
        parts.append(text(LEFT + share * room + 6, y + 12, number(value)))
    return frame(34 + len(items) * STEP + 8, parts)


def ticks(least, most):
    """Powers of ten."""
    return [10.0**power for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)]


def lines(title, x_name, y_name, series):
    """series: (name, [(x, y), …]), both positive; both axes are logarithmic."""
    points = [point for _, some in series for point in some if point[0] > 0 and point[1] > 0]
    if not points:
        return frame(40, [text(8, 20, title, css="t")])
    left, right, top, height = 70, 170, 40, 300
    x_ticks = ticks(min(p[0] for p in points), max(p[0] for p in points))
    y_ticks = ticks(min(p[1] for p in points), max(p[1] for p in points))
    room_x, room_y = WIDTH - left - right, height - top - 50

    def place(value, some_ticks, room):
        span = math.log10(some_ticks[-1] / some_ticks[0]) or 1
        return math.log10(value / some_ticks[0]) / span * room

    parts = [text(8, 20, title, css="t"), text(left + room_x / 2, height - 8, x_name, "middle"), text(8, top - 4, y_name)]
    for tick in x_ticks:
        x = left + place(tick, x_ticks, room_x)
        parts.append(f'<line class="g" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + room_y}"/>')
        parts.append(text(x, top + room_y + 16, number(tick), "middle"))
    for tick in y_ticks:
        y = top + room_y - place(tick, y_ticks, room_y)
        parts.append(f'<line class="g" x1="{left}" y1="{y:.1f}" x2="{left + room_x}" y2="{y:.1f}"/>')
        parts.append(text(left - 6, y + 4, number(tick), "end"))
    for i, (name, some) in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        placed = [(left + place(x, x_ticks, room_x), top + room_y - place(y, y_ticks, room_y))
                  for x, y in some if x > 0 and y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(f'<rect x="{WIDTH - right + 14}" y="{top + i * 20}" width="12" height="12" fill="{colour}"/>')
        parts.append(text(WIDTH - right + 32, top + 10 + i * 20, name))
    return frame(height, parts)


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
