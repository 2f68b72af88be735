"""Results as one HTML file that needs nothing else: no scripts, no fonts, no network.

`report.html.j2` says what is on the page and in which order, `report.css` how it looks, `page`
prepares what the template shows. `line_plots` and `heat_strip` draw SVG. Text from a cluster is
escaped on both ways into the page: by the template engine, and by the XML library in drawings.
What a figure means, and how it is measured, belongs elsewhere.
"""

from rescheduler.simulation.results.html.page import html_report

__all__ = ["html_report"]
