"""Counts lines of code, without docstrings, comments and blank lines: a measure of weight.

python tests/code_lines.py keras_vit tests: for each room (the first folder below) the number of
files and of lines.
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

_NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """The lines of a program that have a token of code; texts that stand alone are docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    for folder in parser.parse_args().folders:
        files, lines = Counter(), Counter()
        for file in folder.rglob("*.py"):
            room = "/".join(file.relative_to(folder).parts[:-1][:1])
            files[room] += 1
            lines[room] += code_lines(file.read_text())
        for room in sorted(files):
            print(f"{folder}/{room:20} {files[room]:5,} files {lines[room]:7,} lines")
        print(f"{folder} in all {files.total():,} files {lines.total():,} lines")


if __name__ == "__main__":
    main()
