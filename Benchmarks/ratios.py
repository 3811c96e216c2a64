"""Server CPU for each delivery as a multiple of the floor, medians of each label.   python3 Benchmarks/ratios.py results.jsonl"""
import collections
import json
import statistics
import sys

runs = collections.defaultdict(list)
for line in open(sys.argv[1]):
    run = json.loads(line)
    runs[run["label"]].append(run)
# A figure for each connection or delivery means nothing when connections were turned away or messages are missing.
invalid = [run for group in runs.values() for run in group
           if run.get("failed") or run.get("closed") or run.get("lost") or (run.get("mode") == "idle" and run["acks"] < run["conns"])]
for run in invalid:
    print("NOT VALID: %s: %s" % (run["label"], {k: run[k] for k in ("failed", "closed", "acks", "conns", "lost") if k in run}))

print("%-22s %5s %12s %10s %8s %8s %7s" % ("work", "runs", "us/delivery", "floor us", "x floor", "p99 ms", "lost"))
for label, group in runs.items():
    if "srv_us_per_deliv" not in group[0]:
        print("%-22s %5d   %s" % (label, len(group), {k: v for k, v in group[0].items() if "srv" in k or "rss" in k}))
        continue
    cost = [r["srv_us_per_deliv"] for r in group]
    floor = [(r["cal_us"] + r["cal2_us"]) / 2 for r in group]
    ratio = statistics.median(c / f for c, f in zip(cost, floor) if f)
    print("%-22s %5d %12.3f %10.2f %8.3f %8.2f %7d" % (
        label, len(group), statistics.median(cost), statistics.median(floor), ratio,
        statistics.median(r.get("p99_us", 0) / 1000 for r in group), sum(r.get("lost", 0) for r in group)))
sys.exit(1 if invalid else 0)
