"""Colours of algorithms: the same in every chart, for every eye.

Two colours differ by at least 0.12 in OKLab, as people see them who have all three
kinds of cones, and as those do who lack the long or the middle ones (protanopia,
deuteranopia, by Machado et al. 2009). Every colour stands off its background by a
contrast of 3 or more. A search found them; a test checks all of it.
"""

LIGHT = (
    "#3e6ffb",
    "#681f0b",
    "#1a704a",
    "#af860a",
    "#11121c",
    "#842daa",
    "#09415b",
    "#ca7099",
)
"""On white, in the order of the catalog; own algorithms come after those in it."""

DARK = (
    "#6896fc",
    "#d12703",
    "#7dfc86",
    "#cdab05",
    "#e8effc",
    "#9447c5",
    "#3dccdc",
    "#c4738f",
)
"""The same on a dark page."""

N_COLOURS = len(LIGHT)
