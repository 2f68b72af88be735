"""Elements of a drawing."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup


def element(tag: str, *children: Element | str, **attributes: object) -> Element:
    """An element with its children; a string is its text.

    `class_` becomes the attribute `class`, and `text_anchor` becomes `text-anchor`.
    """
    built = Element(tag, {_attribute(name): str(value) for name, value in attributes.items()})
    for child in children:
        if isinstance(child, str):
            built.text = child
        else:
            built.append(child)
    return built


def markup(root: Element) -> Markup:
    """A drawing as HTML that a template need not escape: the XML library has done it."""
    return Markup(ElementTree.tostring(root, encoding="unicode", method="html"))


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
