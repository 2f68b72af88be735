"""Elements of a page, in a line each."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

Child = Element | str | None


def element(tag: str, *children: Child, **attributes: object) -> Element:
    """An element with what is in it. `class_` is `class`; `text_anchor` is `text-anchor`."""
    made = Element(tag, {_name(key): str(value) for key, value in attributes.items()})
    for child in children:
        add(made, child)
    return made


def add(parent: Element, child: Child) -> None:
    """Put something behind what is there already."""
    if child is None:
        return
    if isinstance(child, Element):
        parent.append(child)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + child
    else:
        parent.text = (parent.text or "") + child


def html(root: Element) -> str:
    """The page as text."""
    return "<!DOCTYPE html>\n" + ElementTree.tostring(root, encoding="unicode", method="html")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
