"""Sphinx extension for the API reference: types, signatures, members of class pages, and links from other pages to it.

Types stand in signatures once; here they are copied to the descriptions of parameters, and signatures show names and
defaults only.
"""

import inspect
import re
from typing import Any

from docutils import nodes
from public_names import is_result, split_members
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import inspect as sphinx_inspect
from sphinx.util.nodes import make_refnode

AGENT = "spaql.agents.Agent"
SHORTER = {  # what annotations are called in numpydoc's words
    r"np\.typing\.|numpy\.typing\.|collections\.abc\.|typing\.|pathlib\.|numpy\.|np\.|spaql\.[\w.]+\.(?=\w)": "",
    r"os\.PathLike\[str\]": "PathLike",
    r"Callable\[\.\.\., (\w+)\]": r"callable returning \1",
    r"Callable\[.*\](?= \||$)": "callable",
    r"NDArray\[\w+\]|ndarray\[.*\]|\bFloats\b|\bArray\b|\bNumbers\b": "ndarray",
    r"\bArrayLike\b": "array_like",
    r"\bNames\b": "sequence of str",
    r"\bCallbacks\b": "callback or list of callbacks",
    r"\bActions\b": "Box or Discrete",
    r"Sequence\[str\]": "sequence of str",
    r"Sequence\[(\w+)\]": r"sequence of \1",
    r"Sequence\[(.*)\]": r"sequence of (\1)",
    r"Mapping\[.*\]": "mapping",
    r" \| None$": "",
    r" \| ": " or ",
    " returning Any$": "",
}


def describe_type(parameter: inspect.Parameter) -> str:
    """Return the type of a parameter and its default as numpydoc writes them; an empty text where any type will do."""
    if parameter.annotation is parameter.empty or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
        return ""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = "ArrayLike" if "_SupportsArray" in text else text  # an alias that was written out
    for pattern, word in SHORTER.items():
        text = re.sub(pattern, word, text)
    text = "" if text in ("Any", "object") else text
    if parameter.default is parameter.empty:
        return text
    default = "optional" if parameter.default is None else f"default {parameter.default!r}"
    return f"{text}, {default}" if text else default


def add_types(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Add the types of parameters to the lines of a docstring, before numpydoc reads it.

    The comment on an attribute becomes a sentence.
    """
    if what == "attribute" and lines and re.match(r"[a-z]{2,}\b", lines[0]):
        lines[0] = lines[0][0].upper() + lines[0][1:]
        last = max(place for place, line in enumerate(lines) if line)
        lines[last] += "" if lines[last].endswith(".") else "."
    if what not in ("class", "exception", "function", "method") or "Parameters" not in lines:
        return
    parameters = inspect.signature(value).parameters
    place = lines.index("Parameters") + 2
    while place < len(lines) and lines[place + 1 : place + 2] != ["-" * len(lines[place])]:
        line = lines[place]
        if line and not line[0].isspace() and " : " not in line:
            known = [parameters[each] for each in line.replace("*", "").split(", ") if each in parameters]
            types = {describe_type(each) for each in known}
            if len(types) == 1 and (text := types.pop()):
                lines[place] = f"{line} : {text}"
            lines[place] = lines[place].replace("**", "\\*\\*") if line.startswith("**") else lines[place]
        place += 1


def shorten_signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str, str] | None:
    """Return a signature without types, and none for classes that the library alone makes objects of."""
    if what == "class" and is_result(name):
        return "", ""
    if signature is None or what not in ("class", "function", "method"):
        return None
    function = inspect.unwrap(value) if what != "class" else value
    short = sphinx_inspect.signature(function, bound_method=what == "method" and not inspect.ismethod(value))
    return sphinx_inspect.stringify_signature(short, show_annotation=False, show_return_annotation=False), ""


class LinkNames(SphinxPostTransform):
    """Link names in the text of pages, such as `spaql.load` and `agent.learn(1000)`, to the reference."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Replace literals that are names of documented objects by links."""
        if "/generated/" in f"/{self.env.docname}":
            return
        objects = self.env.domains["py"].objects  # type: ignore[attr-defined]
        for literal in list(self.document.findall(nodes.literal)):
            name = re.fullmatch(r"(spaql\.[\w.]+|agent\.\w+)(\(.*\))?", literal.astext())
            parents = (nodes.reference, nodes.title, nodes.pending)
            if name is None or isinstance(literal.parent, parents):
                continue
            target = objects.get(re.sub(r"^agent\.", f"{AGENT}.", name[1]))
            if target is not None:
                link = make_refnode(
                    self.app.builder, self.env.docname, target.docname, target.node_id, literal.deepcopy()
                )
                literal.replace_self(link)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to autodoc, before numpydoc."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", add_types, priority=400)
    app.connect("autodoc-process-signature", shorten_signature)
    app.add_post_transform(LinkNames)
    app.config.autosummary_context = {"split_members": split_members}
    return {"parallel_read_safe": True, "parallel_write_safe": True}
