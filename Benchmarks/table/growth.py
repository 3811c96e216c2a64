"""How costs grow: a publication's CPU over its deliveries, over silent channels, over silent connections. Writes docs/growth.svg and prints the figures.

    scripts/bench growth
"""

import math
import os
import statistics

import bad
import machine
import rows

PAGE = machine.TOP / "docs" / "growth.svg"


def publication(node, subscribers):
    """CPU microseconds of the node for one publication to so many, one at a time: the median of three windows."""
    def once():
        run = machine.load(
            node.port, [node.pid],
            ["--label", "growth", "--subs", subscribers, "--size", 128, "--window", 1, "--secs", 0.6, "--warm", 0.3, "--settle", 0.3], tokens=False)
        rows.valid(run)
        return run["srv_us_per_deliv"] * subscribers

    return statistics.median(once() for _ in range(3))


def over_deliveries():
    for count in (10, 30, 100, 300, 1_000, 3_000, 10_000):
        with bad.hub() as node:
            yield count, publication(node, count)


def over_channels():
    with bad.hub() as node:
        there, clients = 0, []
        for count in (10, 100, 1_000, 10_000, 100_000):
            while there < count:
                some = min(count - there, 100)
                if there % 500 == 0 or not clients:
                    clients.append(bad.Client(node.port, f"cold-{there}"))
                clients[-1].ask(type="subscribe", channels=[f"cold:{place}" for place in range(there, there + some)])
                there += some
            yield count, publication(node, 10)


def over_connections():
    with bad.hub() as node:
        clients = []
        for count in (10, 100, 1_000, 10_000):
            while len(clients) < count:
                clients.append(bad.Client(node.port, f"idle-{len(clients)}"))
            yield count, publication(node, 10)


def panel(left, title, axis, points):
    """One plot, both axes logarithmic: a decade is as long on one as on the other, so what is linear rises by 45 degrees."""
    decade, top, bottom = 58, 40, 300
    x0 = math.floor(math.log10(points[0][0]))
    y0 = math.floor(math.log10(min(value for _, value in points)) * 2) / 2
    x = lambda value: left + 46 + (math.log10(value) - x0) * decade
    y = lambda value: bottom - (math.log10(value) - y0) * decade
    right = x(points[-1][0]) + 8
    parts = [f'<text x="{left + 46}" y="24" font-weight="bold">{title}</text>',
             f'<path d="M{left + 46} {top} V{bottom} H{right:.0f}" fill="none" stroke="#888"/>']
    for power in range(x0, math.ceil(math.log10(points[-1][0])) + 1):
        parts.append(f'<text x="{x(10 ** power):.0f}" y="{bottom + 16}" text-anchor="middle">{10 ** power:,}</text>')
    for power in range(math.ceil(y0), math.floor(y0 + (bottom - top) / decade) + 1):
        parts.append(f'<text x="{left + 40}" y="{y(10 ** power) + 4:.0f}" text-anchor="end">{10 ** power:,}</text>')
        parts.append(f'<path d="M{left + 46} {y(10 ** power):.1f} H{right:.0f}" stroke="#ddd"/>')
    parts.append(f'<text x="{(left + 46 + right) / 2:.0f}" y="{bottom + 34}" text-anchor="middle">{axis}</text>')
    line = " ".join(f"{x(count):.1f},{y(value):.1f}" for count, value in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="2"/>')
    for count, value in points:
        parts.append(f'<circle cx="{x(count):.1f}" cy="{y(value):.1f}" r="3" fill="#06c"/>')
        parts.append(f'<text x="{x(count):.1f}" y="{y(value) - 8:.1f}" text-anchor="middle" fill="#06c" font-size="10">{value:,.0f}</text>')
    return "\n".join(parts)


def main():
    machine.build()
    panels = (
        ("a publication over its deliveries", "subscribers of the channel", over_deliveries),
        ("10 deliveries, over channels", "silent channels beside it", over_channels),
        ("10 deliveries, over connections", "silent connections beside it", over_connections))
    drawn = []
    for place, (title, axis, measure) in enumerate(panels):
        points = list(measure())
        print(f"CPU µs of a publication, {title}: " + ", ".join(f"{count:,}: {value:.0f}" for count, value in points)
              + f"  [load {os.getloadavg()[0]:.0f}]", flush=True)
        drawn.append(panel(16 + place * 345, f"CPU µs, {title}", axis, points))
    PAGE.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="1060" height="350" font-family="sans-serif" font-size="12">\n'
        '<rect width="1060" height="350" fill="white"/>\n' + "\n".join(drawn) + "\n</svg>\n")


if __name__ == "__main__":
    main()
