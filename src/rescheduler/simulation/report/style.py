"""The look of a page: one set of colours for light, one for dark."""

from itertools import pairwise

LINES = 6
"""So many lines can be told apart."""
HEATS = 16
"""So many steps has the scale of loads."""

_LIGHT_LINES = ("#1d6fb8", "#c2570c", "#2f855a", "#8b3fb0", "#b0325a", "#5b6470")
_DARK_LINES = ("#6cb2f2", "#f2a061", "#6fcf97", "#c79be8", "#f08aa9", "#aab4c0")
# From nothing to full: pale, then blue, then a warning. Nothing differs from the page, which shows
# where there is no node.
_LIGHT_HEAT = (
    (0.0, "#dde5ee"),
    (0.5, "#7fb3d9"),
    (0.78, "#1f6aa5"),
    (0.88, "#e8912d"),
    (1, "#b3261e"),
)
_DARK_HEAT = (
    (0.0, "#1c2530"),
    (0.5, "#25567f"),
    (0.78, "#5aa9e6"),
    (0.88, "#f0a03c"),
    (1, "#ff6b5e"),
)

_RULES = """
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }
main { max-width: 72rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .5rem; max-width: 50rem;
  text-wrap: balance }
h2 { font-size: 1.15rem; margin: 2.75rem 0 .75rem }
h3 { font-size: .95rem; margin: 0 }
p { margin: .25rem 0; max-width: 50rem }
.quiet { color: var(--quiet); font-size: .9rem }
.cards { display: grid; gap: .75rem; margin: 1.5rem 0 0; padding: 0;
  grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)) }
.card, .plot { background: var(--card); border: 1px solid var(--edge); border-radius: .6rem }
.card { padding: .9rem 1rem; margin: 0 }
.card dt { color: var(--quiet); font-size: .85rem }
.card dd { margin: 0; font-size: 1.5rem; font-weight: 650; font-variant-numeric: tabular-nums }
.card dd small { display: block; font-size: .85rem; font-weight: 400; color: var(--quiet) }
.good { color: var(--good) } .bad { color: var(--bad) }
.plots { display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)) }
.plot { padding: .9rem 1rem .5rem; margin: 0 }
.plot figcaption { display: flex; justify-content: space-between; gap: 1rem; align-items: baseline }
.plot p { font-size: .85rem; color: var(--quiet) }
svg { display: block; width: 100%; height: auto; overflow: visible }
svg text { fill: var(--quiet); font-size: 11px; font-variant-numeric: tabular-nums }
.grid { stroke: var(--edge); stroke-width: 1 }
.event { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 2 3 }
.line { fill: none; stroke-width: 1.75; stroke-linejoin: round }
.area { stroke: none; opacity: .13 }
.hit { fill: transparent } .hit:hover { fill: var(--hover) }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0;
  margin: .25rem 0 1rem; list-style: none }
.legend i { display: inline-block; width: 1.1rem; height: .3rem; border-radius: .15rem;
  margin-right: .4rem; vertical-align: middle }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 30rem }
th, td { text-align: left; padding: .4rem 1.1rem .4rem 0; vertical-align: top;
  border-bottom: 1px solid var(--edge) }
caption { text-align: left; padding-bottom: .4rem }
thead th { color: var(--quiet); font-weight: 500; font-size: .85rem }
tbody th { font-weight: 500 }
td.number, th.number { text-align: right }
.scale { display: flex; align-items: center; gap: .5rem; margin: .5rem 0 }
.scale svg { width: 12rem }
code { font-size: .9em }
footer { margin-top: 3rem; border-top: 1px solid var(--edge); padding-top: 1rem }
"""


def css() -> str:
    """The whole style sheet."""
    light = _variables(
        page="#f7f8fa",
        card="#ffffff",
        ink="#16202b",
        quiet="#5a6673",
        edge="#dde3ea",
        hover="rgba(0,0,0,.06)",
        good="#1c7c4a",
        bad="#b3261e",
    )
    dark = _variables(
        page="#10151b",
        card="#171e26",
        ink="#e8edf3",
        quiet="#9aa7b5",
        edge="#2a3440",
        hover="rgba(255,255,255,.09)",
        good="#6fcf97",
        bad="#ff8a80",
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n{_colours(_LIGHT_LINES, _LIGHT_HEAT)}"
        f"{_RULES}"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }}\n"
        f"{_colours(_DARK_LINES, _DARK_HEAT)} }}\n"
        "@media print { .card, .plot { break-inside: avoid } }\n"
    )


def _variables(**colours: str) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def _colours(lines: tuple[str, ...], heat: tuple[tuple[float, str], ...]) -> str:
    rules = [
        f".line.c{number} {{ stroke: {colour} }} "
        f".area.c{number} {{ fill: {colour} }} .legend .c{number} {{ background: {colour} }}"
        for number, colour in enumerate(lines)
    ]
    rules += [f".h{step} {{ fill: {_between(heat, step / (HEATS - 1))} }}" for step in range(HEATS)]
    return "\n".join(rules) + "\n"


def _between(stops: tuple[tuple[float, str], ...], at: float) -> str:
    """The colour at a place of a scale."""
    for (low, first), (high, second) in pairwise(stops):
        if at <= high:
            share = (at - low) / (high - low)
            pairs = zip(_parts(first), _parts(second), strict=True)
            return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
    return stops[-1][1]


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))
