"""Every public name is in the reference, and all code and messages of the pages are true."""

import ast
import importlib
import inspect
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from mondrian_kernel.app.main import make_parser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ROOMS = ("plotting", "app.report", "dask")
PACKAGES = ["mondrian_kernel", *(f"mondrian_kernel.{room}" for room in ROOMS)]
NUMBER = re.compile(r"\d+\.\d+|(?<=cover )\d+")

sys.path.insert(0, str(DOCS / "_extensions"))
page_code = importlib.import_module("page_code")

PAGES = {
    file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
    for file in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
}
CODE = ("python", "run", "command")
# Blocks that hold no code, or code that only the build of the pages runs: the help texts.
OTHER = {
    "text",
    "help",
    "measured",
    "figure",
    "toctree",
    "include",
    "readme-code",
    "image",
    "csv-table",
}

# What a page takes for granted.
GIVEN = {
    "docs/guide/streams.md": """
import numpy as np
from mondrian_kernel import MondrianKernelRegressor
first, *others = np.random.default_rng(0).uniform(size=(3, 20, 2))
def arriving():
    model.partial_fit(first, first[:, 0])  # the page predicts after the first batch
    yield from ((X, X[:, 0]) for X in others)
batches = arriving()
""",
    "docs/guide/saving.md": """
import numpy as np
from mondrian_kernel import MondrianKernelRegressor
X = np.random.default_rng(0).uniform(size=(20, 2))
model = MondrianKernelRegressor(n_estimators=5, random_state=0).fit(X, X[:, 0])
""",
}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package):
    parts = (DOCS / "api.rst").read_text(encoding="utf-8").split(".. currentmodule:: ")[1:]
    listed = [word for part in parts if part.split()[0] == package for word in part.split()]
    public = importlib.import_module(package).__all__
    assert all(listed.count(name) == 1 for name in public)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_have_the_defaults_of_the_signatures(package):
    module = importlib.import_module(package)
    wrong = []
    for name in module.__all__:
        thing = getattr(module, name)
        methods = [m for k, m in vars(thing).items() if k[0] != "_" and inspect.isfunction(m)]
        for function in [thing, *methods] if inspect.isclass(thing) else [thing]:
            doc = inspect.cleandoc(function.__doc__ or "")
            doc = doc.partition("Parameters\n")[2].partition("Returns\n")[0]
            for parameter in inspect.signature(function).parameters.values():
                default = parameter.default
                said = re.search(rf"^(?:\w+, )*{parameter.name}\b.*? : (?:.*\\?\n?.*)", doc, re.M)
                if default is parameter.empty or said is None or "gnored" in said[0]:
                    continue
                if f"default={default!r}".replace("'", '"') not in said[0].replace("'", '"'):
                    wrong.append(f"{name}.{function.__name__}: {parameter}")
    assert not wrong


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"])
def test_the_code_of_a_page_runs(page):
    session = page_code.Session()
    session.run("python", GIVEN.get(page, ""))
    for language, code in page_code.blocks(PAGES[page]):
        if language in CODE:
            session.run(language, code)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_exist_and_no_block_is_overlooked(page):
    languages = {language for language, _ in page_code.blocks(PAGES[page])}
    assert languages <= OTHER.union(CODE)
    for line in re.findall(r"(?:^ {4}|&& )mondrian-kernel ([^-`\n&][^`\n&]*)", PAGES[page], re.M):
        make_parser().parse_args(shlex.split(line))


def test_the_example_of_the_readme_prints_what_it_says():
    found = [block for block in page_code.blocks(PAGES["README.md"]) if block[0] in CODE]
    assert len(found) == 1
    said = re.search(r"```python\n.*?```\n\n```text\n(.*?)```", PAGES["README.md"], re.DOTALL)[1]
    out = page_code.Session().run(*found[0])
    assert NUMBER.sub("", out) == NUMBER.sub("", said)
    found, written = (np.array(NUMBER.findall(t), dtype=float) for t in (out, said))
    # Other versions of numpy and scikit-learn may change the last digit that is printed.
    assert (np.abs(found - written) <= [0.0101, 0.0101, 0.0101, 1.01]).all(), out
    assert 1 - found[2] < 0.8 * (1 - found[:2].max())


def test_messages_that_the_pages_explain_are_those_of_the_library():
    texts = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                texts.add("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    explained = re.findall(r"^`(.+)`\n: ", PAGES["docs/guide/troubleshooting.md"], re.M)
    assert len(explained) > 30
    everything = "\n".join(texts)
    unknown = []
    for message in explained:
        parts = [re.escape(part) for part in message.strip("…").split("…")]
        if not re.search("[^\n]*".join(parts), everything):
            unknown.append(message)
    assert not unknown
