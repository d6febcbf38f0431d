"""Runs a notebook's code cells in order, in one namespace, and gives their outputs.

``python -m tests.notebook docs/analysis.ipynb`` writes them into the notebook.
"""

import ast
import io
import json
import os
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]


def read_notebook(path: Path) -> Notebook:
    notebook: Notebook = json.loads(path.read_text("utf-8"))
    return notebook


def outputs_of(notebook: Notebook, directory: Path) -> list[list[dict[str, Any]]]:
    """Outputs of each code cell, as nbformat 4 has them: what was printed, then the result.

    Args:
        notebook: its cells are run.
        directory: where they are run.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with chdir(directory):
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return [_run("".join(cell["source"]), namespace, n) for n, cell in enumerate(cells, 1)]


def _run(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, result = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            code = compile(ast.Expression(last.value), f"cell {number}", "eval")
            result = eval(code, namespace)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if result is not None:
        data = {"text/plain": _lines(repr(result))}
        if hasattr(result, "_repr_html_") and (page := result._repr_html_()):
            data = {"text/html": _lines(page), **data}
        outputs.append(
            {
                "data": data,
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Write the outputs into the notebook that is named."""
    path = Path(sys.argv[1])
    os.environ.setdefault("COLUMNS", "80")
    notebook = read_notebook(path)
    outputs = outputs_of(notebook, path.parent)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, output) in enumerate(zip(cells, outputs, strict=True), start=1):
        cell |= {"execution_count": number, "outputs": output}
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
