"""The notebook of the docs runs, and says what stands in it."""

from pathlib import Path

from tests.notebook import outputs_of, read_notebook

NOTEBOOK = Path(__file__).parent.parent / "docs" / "analysis.ipynb"


def test_the_notebook_says_what_it_shows() -> None:
    """Make its outputs again with ``just notebook``."""
    notebook = read_notebook(NOTEBOOK)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = outputs_of(notebook, NOTEBOOK.parent)
    for cell, output in zip(cells, outputs, strict=True):
        assert cell["outputs"] == output, "".join(cell["source"])
    assert sum(bool(output) for output in outputs) > 5
    assert NOTEBOOK.stat().st_size < 100_000
