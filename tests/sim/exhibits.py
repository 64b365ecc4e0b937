#!/usr/bin/env python3
"""exhibits.py LIST SOURCES OUTPUT: the changed copies of the sources that the exhibits name, and OUTPUT/exhibits.inc, a row for each
exhibit. See the head of the list for its form. Prints the files that it wrote, a line each."""
import os
import shlex
import sys


# An assertion would end the process at the fault. Here it is the fault that is on show.
HEAD = """#include "util/assert.h"
#undef SIMBA__ASSERT
#define SIMBA__ASSERT(expression) ((void)sizeof((expression) ? 1 : 0))
extern int sim_exhibit; /* 0: none */
"""


def entries(path):
    now = None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            key, _, rest = line.partition(" ")
            if key == "in":
                now["changes"].append({"in": rest})
            elif key in ("-", "+"):
                now["changes"][-1][key] = rest
            elif key == "find":
                now["find"] = rest
            else:
                now = {"name": key, "what": rest.strip(), "changes": []}
                yield now


def change(texts, sources, exhibit, number, entry):
    name, _, after = entry["in"].partition(" after ")
    if name not in texts:
        with open(os.path.join(sources, name), encoding="utf-8") as source:
            texts[name] = source.read()
    text = texts[name]
    begin = text.find("\n" + after) + 1 if after else 0
    if after and begin == 0:
        begin = text.find(after)
    old = entry["-"]
    at = text.find(old, begin)
    if begin < 0 or at < 0:
        sys.exit(f"exhibit {exhibit}: {name} has no text \"{old}\"")
    changed = entry["+"].replace("EXHIBIT", f"(sim_exhibit == {number})")
    texts[name] = text[:at] + changed + text[at + len(old):]


def main():
    path, sources, output = sys.argv[1:]
    listed = list(entries(path))
    texts, rows = {}, []
    for number, entry in enumerate(listed, 1):
        for one in entry["changes"]:
            change(texts, sources, entry["name"], number, one)
    for entry in listed:
        arguments = ", ".join(f'"{word}"' for word in shlex.split(entry["find"]))
        rows.append(f'{{"{entry["name"]}", "{entry["what"]}", (char *[]){{{arguments}, NULL}}}},')
    os.makedirs(output, exist_ok=True)
    for name, text in texts.items():
        written = os.path.join(output, name.replace("/", "_"))
        with open(written, "w", encoding="utf-8") as out:
            out.write(HEAD + text)
        print(written)
    with open(os.path.join(output, "exhibits.inc"), "w", encoding="utf-8") as out:
        out.write("\n".join(rows) + "\n")


main()
