"""The result of a run as JSON, as a table for the terminal, and as Markdown for the documentation."""
import json

# Figure, heading, decimals.
COLUMNS = [
    ("pairs_1_per_s", "pairs/s", 0),
    ("pairs_16_per_s", "16 threads", 0),
    ("pairs_64_per_s", "64 threads", 0),
    ("pairs_1_p50_us", "p50 µs", 0),
    ("pairs_1_p99_us", "p99 µs", 0),
    ("pairs_1_server_us", "server µs", 1),
    ("pairs_64_server_us", "of 64", 1),
    ("changes_per_s", "changes/s", 0),
    ("jain", "Jain", 2),
    ("takeover_ms", "take over ms", 0),
    ("commands_per_waiter_s", "asks/s", 1),
]


def write_json(path, result):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
        file.write("\n")


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def cell(value, decimals):
    return "" if value is None else f"{value:,.{decimals}f}"


def rows(result):
    yield ["", *(heading for _, heading, _ in COLUMNS)]
    for entry in result["entries"]:
        values = [cell(entry["figures"].get(figure), decimals) for figure, _, decimals in COLUMNS]
        yield [entry["text"], *values]


def notes(result):
    """Below the table: what went wrong and what was not there."""
    for entry in result["entries"]:
        for kind, error in entry["errors"].items():
            yield f"{entry['text']}, {kind}: {error}"
    for entry in result["missing"]:
        yield f"{entry['text']} is missing: {entry['why']}"


def about(result):
    machine, load, plan = result["machine"], result["load"], result["plan"]
    return (f"{result['made']}, {result['seconds']} s, {plan['rounds']} rounds; {machine['cores']} cores ({machine['processor']}), "
            f"Linux {machine['kernel']}; load of the machine {load['least']} to {load['most']}")


def table(result):
    all_rows = list(rows(result))
    widths = [max(len(row[i]) for row in all_rows) for i in range(len(all_rows[0]))]
    lines = [about(result), ""]
    for row in all_rows:
        lines.append("  ".join([row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:]))]))
    return "\n".join([*lines, *([""] if list(notes(result)) else []), *notes(result)])


def markdown(result):
    head, *body = rows(result)
    lines = [about(result) + ".", "", "| " + " | ".join(head) + " |", "|---|" + "---:|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row) + " |" for row in body]
    lines += ["", *(f"- {note}" for note in notes(result))]
    return "\n".join(lines).rstrip() + "\n"
