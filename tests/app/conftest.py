"""A file of houses, and models of it."""

import pytest

from house_table import rows, write
from mondrian_kernel.app.main import main


@pytest.fixture
def houses(tmp_path):
    return write(tmp_path / "houses.csv", rows())


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Names of the files of a regression and a classification of the houses."""
    folder = tmp_path_factory.mktemp("models")
    data = write(folder / "houses.csv", rows())
    for target, other in [("price", "sold"), ("sold", "price")]:
        words = ["fit", data, "--target", target, "--drop", other, "--trees", "20", "--quiet"]
        assert main([*words, "--output", str(folder / target)]) == 0
    return {"regression": str(folder / "price"), "classification": str(folder / "sold")}
