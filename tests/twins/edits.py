#!/usr/bin/env python3
"""Edits of the product that stay valid when it moves: the table of the twins and that of the planted bugs hold them.

    tests/twins/edits.py TABLE              whether every edit of the table fits the code
    tests/twins/edits.py TABLE NAME FILE    writes to FILE the one source file that the entry NAME edits, edited

An entry has a name and, in `edit`, one table or several, which are made one after the other:

    in       a function, by the name that its definition gives it: "ReceiveStream::check_seal". Its file is found by it.
    text     a piece of code that stands in it once; blanks and line breaks, or none, make no difference
    instead  what takes its place; nothing where it is left out
    include  headers that the new text needs, if any
"""
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_PRODUCT = re.compile(r"\.|build|(tests|bench|docs|examples|template)$")
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""", re.DOTALL)
# Between the parameters of a function and its body, or the members that a constructor begins with.
QUALIFIERS = re.compile(r"(?:\s|const\b|noexcept\b|override\b|final\b|->[\w:<>*&,\s]+)*(?:\{|:(?!:))")
MEMBER = re.compile(r"[\s,]*[\w:<>]+\s*[({]")
BODY = re.compile(r"\s*\{")


def sources(root):
    """The text of each source file of the product, by name."""
    files = (path for room in root.iterdir() if room.is_dir() and not NO_PRODUCT.match(room.name) for path in room.rglob("*.*"))
    return {str(path.relative_to(root)): path.read_text() for path in files if path.suffix in (".cpp", ".h")}


def end_of_group(code, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for bracket in re.compile(r"[(\[{]|[)\]}]").finditer(code, at):
        depth += 1 if bracket[0] in "([{" else -1
        if depth == 0:
            return bracket.end()
    return len(code)


def definitions(text, function):
    """Where the text defines the function: begin and end of each definition."""
    code = NO_CODE.sub(lambda match: " " * len(match[0]), text)
    for match in re.finditer(rf"(?<![\w:~.>]){re.escape(function)}\s*\(", code):
        body = QUALIFIERS.match(code, end_of_group(code, match.end() - 1))
        if body and body[0].endswith(":"):
            at = body.end()
            while member := MEMBER.match(code, at):
                at = end_of_group(code, member.end() - 1)
            body = BODY.match(code, at)
        if body:
            yield match.start(), end_of_group(code, body.end() - 1)


def pattern_of(piece):
    """What finds the piece however it is wrapped."""
    words = re.findall(r"\w+|[^\w\s]", piece)
    return re.compile(r"\s*".join(rf"\b{word}\b" if re.match(r"\w", word) else re.escape(word) for word in words))


def edited(entry, files):
    """The files that the entry edits, as it has them."""
    changed = {}
    for edit in entry["edit"]:
        now, function, piece = {**files, **changed}, edit["in"], pattern_of(edit["text"])
        spans = [(name, *span) for name, text in now.items() if function in text for span in definitions(text, function)]
        found = [(name, match) for name, begin, end in spans for match in piece.finditer(now[name], begin, end)]
        if len(found) != 1:
            raise ValueError(f"{entry['name']} no longer applies: {function} is defined {len(spans)} times, and has its text "
                             f"{len(found)} times, not once. Fix: write its edit anew for the code as it is now:\n{edit['text']}")
        name, match = found[0]
        includes = "".join(f'#include "{header}"\n' for header in edit.get("include", []))
        changed[name] = includes + now[name][:match.start()] + edit.get("instead", "") + now[name][match.end():]
    return changed


def entries(table):
    """The entries of a table, which has one kind of them."""
    [found] = tomllib.loads(pathlib.Path(table).read_text()).values()
    return found


def faults_of(entries, files):
    """What no longer fits the code, a sentence each."""
    faults = []
    for entry in entries:
        try:
            edited(entry, files)
        except ValueError as error:
            faults.append(str(error))
    return faults


def main(table, name=None, file=None):
    files = sources(ROOT)
    wanted = [entry for entry in entries(table) if name in (None, entry["name"])]
    faults = faults_of(wanted, files)
    if file and not faults:
        [text] = edited(wanted[0], files).values()
        pathlib.Path(file).write_text(text)
    print("\n".join(faults) or f"edits: {len(wanted)} of {table} apply")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
