"""A result as one HTML file that needs nothing else: no scripts, no fonts, no network.

`page` puts it together, `plots` and `heat` draw, `tables` tells, `style` has the colours for light
and for dark. Whatever comes from a cluster goes through the XML library, which escapes it.
"""

from rescheduler.simulation.report.page import page

__all__ = ["page"]
