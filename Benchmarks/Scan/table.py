"""The table of run.sh: median nanoseconds for each envelope, and the median of the ratios to ours, each within its round."""

import statistics
import sys

envelopes = [line.strip("\n").split("\t", 1) for line in open(sys.argv[1], encoding="utf-8")]


def size(text):
    return len(text) // 2 if sys.argv[1].endswith(".hex") else len(text.encode())


figures = {}
for line in open(sys.argv[2], encoding="utf-8"):
    turn, contender, envelope, nanoseconds = line.split("\t")
    figures.setdefault(contender, {}).setdefault(envelope, {})[turn] = float(nanoseconds)

print("| ns for each envelope (× ours) | " + " | ".join(f"{name}, {size(text)} B" for name, text in envelopes) + " |")
print("|---|" + "---|" * len(envelopes))
for contender, rows in figures.items():
    cells = []
    for name, _ in envelopes:
        turns = rows[name]
        ratio = statistics.median(value / figures["hub"][name][turn] for turn, value in turns.items())
        cells.append(f"{statistics.median(turns.values()):.0f} ({ratio:.2f})")
    print(f"| {contender} | " + " | ".join(cells) + " |")
