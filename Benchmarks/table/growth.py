"""How costs grow: a publication's CPU over its deliveries, beside bare sends to as many sockets; over silent channels; over silent connections. Draws
docs/growth.svg and writes the figures into docs/performance.md.

    scripts/bench growth          under six minutes; RUNS=1: two
"""

import math
import os
import statistics
import time

import clients
import machine
import page
import rows

NAME = "scripts/bench growth"
PICTURE = machine.TOP / "docs" / "growth.svg"
# The last one is what a process's descriptors allow.
SUBSCRIBERS = (10, 100, 1_000, 10_000, 19_000)
OURS, REDIS, FLOOR = "#0b62c4", "#c2410c", "#6b7280"
rounds = int(os.environ.get("RUNS", 3))
loads = []


def delivery(node, subscribers):
    """CPU microseconds for each delivery of messages to so many, one at a time."""
    loads.append(os.getloadavg()[0])
    run = machine.load(node.port, node.pids, [
        "--label", "growth", "--subs", subscribers, "--size", 128, "--window", 1, "--secs", 0.7 + subscribers / 10_000, "--warm", 0.3, "--settle", 0.3, "--sub-conc", 200],
        tokens=False)
    return run["srv_us_per_deliv"] if rows.valid(run) else None


def over_deliveries():
    """For each number of subscribers: medians of the floor at as many sockets and at 1,000, of ours, and of ours × floor round by round."""
    found = {count: {"floor": [], "usual floor": [], "embedded": [], "Redis": [], "embedded ×": [], "Redis ×": []} for count in SUBSCRIBERS}
    for _ in range(rounds):
        # Nodes of its own for each round: what the last 19,000 leave behind as they go would count for the first ten of the next.
        with clients.hub() as embedded, clients.hub(True) as redis:
            for count, figures in found.items():
                before = clients.floor(count, rows.FRAME)
                ours = delivery(embedded, count)
                between = clients.floor(count, rows.FRAME)
                with_redis = delivery(redis, count)
                after = clients.floor(count, rows.FRAME)
                figures["floor"] += [before, between, after]
                figures["usual floor"].append(clients.floor(1_000, rows.FRAME))
                for name, value, floor in (("embedded", ours, before + between), ("Redis", with_redis, between + after)):
                    if value:
                        figures[name].append(value)
                        figures[f"{name} ×"].append(value / floor * 2)
    return {count: {name: statistics.median(values) for name, values in figures.items()} for count, figures in found.items()}


def publication(node):
    """CPU microseconds of a publication to ten."""
    values = [delivery(node, 10) for _ in range(rounds)]
    return statistics.median(value * 10 for value in values if value)


def over_channels():
    with clients.hub() as node:
        there, joined = 0, []
        for count in (10, 100, 1_000, 10_000, 100_000):
            while there < count:
                some = min(count - there, 100)
                if there % 500 == 0 or not joined:
                    joined.append(clients.Client(node.port, f"cold-{there}"))
                joined[-1].ask(type="subscribe", channels=[f"cold:{place}" for place in range(there, there + some)])
                there += some
            yield count, publication(node)
        if clients.metric(node, "hub_channels") < there:
            raise SystemExit("bench growth: silent channels were lost")


def over_connections():
    with clients.hub() as node:
        joined = []
        for count in (10, 100, 1_000, 10_000):
            joined += clients.Client.several(node.port, (f"idle-{number}" for number in range(len(joined), count)))
            yield count, publication(node)
        if clients.metric(node, "hub_connections") < len(joined):
            raise SystemExit("bench growth: silent connections were lost")


class Panel:
    """One plot; x is logarithmic, y too unless `linear`."""

    WIDTH, HEIGHT, TOP = 270, 250, 66

    def __init__(self, left, title, axis, xs, ys, linear=False):
        self.left, self.linear, self.named = left, linear, 0
        self.x0, self.x1 = math.log10(min(xs)), math.log10(max(xs))
        if linear:
            step = 10 ** math.floor(math.log10(max(ys)))
            step = next(some for some in (step / 5, step / 2, step, step * 2) if max(ys) <= some * 6)
            self.y0, self.y1 = 0, math.ceil(max(ys) / step) * step
        else:
            self.y0, self.y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
        bottom = self.TOP + self.HEIGHT
        self.parts = [f'<text x="{left}" y="28" font-weight="600" font-size="14" fill="#111">{title}</text>']
        ticks = [place * step for place in range(round(self.y1 / step) + 1)] if linear else range(self.y0, self.y1 + 1)
        for tick in ticks:
            y = self.y(tick if linear else 10 ** tick)
            text = f"{tick:g}" if linear else f"{10 ** tick:,}"
            self.parts.append(f'<path d="M{left} {y:.1f} h{self.WIDTH}" stroke="#e5e7eb"/>')
            self.parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for power in range(math.ceil(self.x0), math.floor(self.x1) + 1):
            x = self.x(10 ** power)
            self.parts.append(f'<path d="M{x:.1f} {bottom} v5" stroke="#9ca3af"/><text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{10 ** power:,}</text>')
        self.parts.append(f'<path d="M{left} {bottom} h{self.WIDTH}" stroke="#9ca3af"/>')
        self.parts.append(f'<text x="{left + self.WIDTH / 2:.0f}" y="{bottom + 42}" text-anchor="middle">{axis}</text>')

    def x(self, value):
        return self.left + 12 + (math.log10(value) - self.x0) / (self.x1 - self.x0) * (self.WIDTH - 24)

    def y(self, value):
        share = (value if self.linear else math.log10(value)) - self.y0
        return self.TOP + self.HEIGHT - share / (self.y1 - self.y0) * self.HEIGHT

    def curve(self, name, colour, points, dashed=False):
        line = " ".join(f"{self.x(count):.1f},{self.y(value):.1f}" for count, value in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        x, y = self.left + 2 + self.named, 48
        self.named += 40 + 7 * len(name)
        self.parts.append(f'<path d="M{x} {y - 4} h18" stroke="{colour}" stroke-width="2"{dash}/><text x="{x + 23}" y="{y}" fill="{colour}">{name}</text>')
        self.parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for count, value in points:
            self.parts.append(f'<circle cx="{self.x(count):.1f}" cy="{self.y(value):.1f}" r="3.2" fill="white" stroke="{colour}" stroke-width="2"/>')


def draw(deliveries, channels, connections):
    kinds = (("floor", FLOOR), ("embedded", OURS), ("Redis", REDIS))
    counts = list(deliveries)
    every = [deliveries[count][name] for count in counts for name, _ in kinds]
    whole = [deliveries[count][name] * count for count in counts for name, _ in kinds]
    whole_panel = Panel(84, "a publication over its deliveries, µs", "subscribers of the channel", counts, whole)
    each = Panel(430, "the same for each delivery, µs", "subscribers of the channel", counts, every, linear=True)
    for name, colour in kinds:
        whole_panel.curve(name, colour, [(count, deliveries[count][name] * count) for count in counts], dashed=name == "floor")
        each.curve(name, colour, [(count, deliveries[count][name]) for count in counts], dashed=name == "floor")
    flat = Panel(765, "a publication to ten, embedded, µs", "silent channels or connections beside it", [count for count, _ in channels],
                 [value for _, value in channels + connections], linear=True)
    flat.curve("channels", OURS, channels)
    flat.curve("connections", REDIS, connections)
    PICTURE.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1060 375" width="1060" height="375" font-family="system-ui, sans-serif" font-size="12" fill="#4b5563">\n'
        '<rect width="1060" height="375" fill="white"/>\n' + "\n".join(part for panel in (whole_panel, each, flat) for part in panel.parts) + "\n</svg>\n")


def table(deliveries):
    yield "| subscribers | floor with as many sockets, µs a delivery | embedded, µs | Redis, µs | embedded × floor | Redis × floor | embedded × floor with 1,000 sockets |"
    yield "|---|---|---|---|---|---|---|"
    for count, some in deliveries.items():
        yield (f"| {count:,} | {some['floor']:.2f} | {some['embedded']:.2f} | {some['Redis']:.2f} | {some['embedded ×']:.2f} | {some['Redis ×']:.2f} | "
               f"{some['embedded'] / some['usual floor']:.2f} |")


def main():
    commit = page.commit()
    clients.prepare()
    began = time.monotonic()
    deliveries = over_deliveries()
    print("\n".join(table(deliveries)), flush=True)
    channels, connections = list(over_channels()), list(over_connections())
    draw(deliveries, channels, connections)
    silent = "; ".join(f"beside {what}: " + ", ".join(f"{count:,}: {value:.0f}" for count, value in points)
                       for what, points in (("silent channels", channels), ("silent connections", connections)))
    told = page.circumstances(commit, NAME, rounds, time.monotonic() - began, loads)
    text = f"{told}\n\n" + "\n".join(table(deliveries)) + f"\n\nA publication to ten subscribers, embedded, µs of CPU, {silent}."
    print(text)
    page.put(NAME, text)


if __name__ == "__main__":
    main()
