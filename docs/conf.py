"""How the pages are built: ``sphinx-build -W -b html docs build/docs``."""

import os
import sys
import warnings
from pathlib import Path

import mondrian_kernel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
os.environ["COLUMNS"] = "88"  # of the help of the command line

project = "mondrian-kernel"
author = "The mondrian-kernel developers"
project_copyright = author
version = release = mondrian_kernel.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "as_it_is",
    "mathml",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "gallery_order.GalleryOrder",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "capture_repr": ("_repr_html_",),
    "doc_module": ("mondrian_kernel",),
    "backreferences_dir": "reference/examples",
    "copyfile_regex": r"",
    "min_reported_time": 3600,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "mondrian-kernel"
html_static_path = ["_static"]
html_css_files = ["house.css"]
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 4,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    # Pages of wide tables and long lines have the room for them instead.
    "secondary_sidebar_items": {
        **{key: ["page-toc"] for key in ("index", "paper", "guide/*", "reference/*")},
        **{
            f"guide/{page}": []
            for page in (
                "accuracy",
                "command_line",
                "explaining",
                "streams",
                "time_and_memory",
                "tutorial",
            )
        },
    },
    "show_toc_level": 2,
}
html_sidebars = {page: [] for page in ("index", "paper", "glossary", "testing", "changelog")}
