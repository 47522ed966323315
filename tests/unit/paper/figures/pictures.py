"""What tests read out of a picture."""

import re
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def smallest_text(root: ElementTree.Element) -> float:
    """Return the smallest size of a picture's text: its pixels are points."""
    styles = [each.attrib.get("style", "") for each in root.iter(f"{SVG}text")]
    sizes = [
        re.search(r"font: .*?([0-9.]+)px|font-size: ([0-9.]+)px", s) for s in styles
    ]
    return min(float(each[1] or each[2]) for each in sizes if each)
