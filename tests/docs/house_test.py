# SPDX-FileCopyrightText: 2026 Headroom contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of the source files and the wording of comments, texts and manual, with limits. Texts are string literals of
at least three words, without docstrings.

    python3 tests/docs/house_test.py            # the table; exit code 1 if a figure is beyond its limit
    python3 tests/docs/house_test.py --list     # also the headers with one user, and the wordiest files

A public function of a header that returns Result or Status says what the errors are, in the comment of the function or
of the group of declarations.

A change may lower a limit, never raise it to pass."""

import ast
import collections
import io
import pathlib
import re
import statistics
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("core", "app", "views", "packaging/python")
ENDINGS = (".h", ".cpp", ".cu", ".py")
PRONOUNS = {"it", "its", "they", "them", "their", "those", "these", "one", "ones"}
RELATIVES = {"which", "whose"}
# A header is private to a topic if only one file beside its own .cpp includes it: the two belong together.
LIMITS = {
    "product files": 769,
    "lines of the longest file": 550,
    "headers with one user": 60,
    "functions with unnamed errors": 0,
    "pronouns per 1,000 words of comments": 9.0,
    "which/whose per 1,000 words of comments": 3.0,
    "pronouns per 1,000 words of the manual": 4.5,
    "which/whose per 1,000 words of the manual": 1.0,
    "pronouns per 1,000 words of texts": 1.5,
    "which/whose per 1,000 words of texts": 0.5,
}
LEAST = {"median lines of a file": 110}

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Strings and characters are matched too, so that a // inside them is no comment.
CPP_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
WORD = re.compile(r"[A-Za-z]+")
FALLIBLE = re.compile(r"\s*(?:(?:static|virtual|inline|friend) )*(?:Result<.*>|Status) (\w+)\(")
CLASS = re.compile(r"(\s*)(class|struct)\b[^;]*$")


def product_files():
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
                  if path.suffix in ENDINGS and path.is_file())


def cpp_comments(text):
    text = re.sub(r"(?<=\d)'(?=\d)", "", text)  # 1'000
    return [found.group() for found in CPP_TOKEN.finditer(text) if found.group().startswith(("//", "/*"))]


def python_comments(text):
    comments = [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline)
                if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            comments.append(ast.get_docstring(node) or "")
    return comments


def words(path, text):
    """The words of comments and docstrings in lower case, without the licence lines."""
    comments = python_comments(text) if path.suffix == ".py" else cpp_comments(text)
    return [word.lower() for comment in comments if "SPDX-" not in comment for word in WORD.findall(comment)]


def manual_words(text):
    """The words of a page in lower case, without listings and `code`."""
    return [word.lower() for word in WORD.findall(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL))]


def total_of(counts):
    return sum(sum(count.values()) for count in counts.values())


def per_thousand(counts, wanted):
    """How many of the words are `wanted`; `counts` has the words of each file."""
    return 1000 * sum(count[word] for count in counts.values() for word in wanted) / total_of(counts)


def cpp_texts(text):
    text = re.sub(r"(?<=\d)'(?=\d)", "", text)  # 1'000
    return [found.group()[1:-1] for found in CPP_TOKEN.finditer(text) if found.group().startswith('"')]


def python_texts(text):
    tree = ast.parse(text)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
                  and node.body and isinstance(node.body[0], ast.Expr)}
    return [node.value for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings]


def text_words(path, text):
    """The words, in lower case, of string literals that have at least three words."""
    literals = python_texts(text) if path.suffix == ".py" else cpp_texts(text)
    found = ([word.lower() for word in WORD.findall(literal.replace("\\n", " "))] for literal in literals)
    return [word for words_of in found if len(words_of) >= 3 for word in words_of]


def single_users(texts):
    """Headers with one user beside their own .cpp, and that user."""
    headers = {path.relative_to(ROOT).as_posix() for path in texts if path.suffix == ".h"}
    users = collections.defaultdict(set)
    for path, text in texts.items():
        if path.suffix == ".py":
            continue
        for name in INCLUDE.findall(text):
            beside = (path.parent / name).relative_to(ROOT).as_posix()
            header = name if name in headers else beside
            if header in headers and path.with_suffix(".h") != ROOT / header:
                users[header].add(path.relative_to(ROOT).as_posix())
    return {header: next(iter(users[header])) for header in sorted(headers) if len(users[header]) == 1}


def unnamed_errors(path, text):
    """Public functions of a header that return Result or Status, without a word on the errors."""
    found = []
    classes = [("", "public")]  # indent and access of the classes around a line
    comment = ""  # of the declarations since the last blank line
    lines = text.splitlines()
    for number, line in enumerate(lines):
        indent = line[:len(line) - len(line.lstrip())]
        if not line.strip():
            comment = ""
        elif opened := CLASS.fullmatch(line):
            classes.append((indent, "private" if opened[2] == "class" else "public"))
            comment = ""
        elif line.startswith(classes[-1][0] + "}") and len(classes) > 1 and indent == classes[-1][0]:
            classes.pop()
        elif access := re.fullmatch(r"\s*(public|protected|private).*:", line):
            classes[-1] = (classes[-1][0], access[1])
        elif line.lstrip().startswith("//"):
            comment += line
        elif function := FALLIBLE.match(line):
            end = next(i for i in range(number, len(lines)) if re.search(r"[;{]", lines[i]))
            said = comment + " ".join(lines[number:end + 1])
            if all(access == "public" for _, access in classes) and " override" not in said \
                    and not re.search("error|refus", said, re.IGNORECASE):
                found.append(f"{path.relative_to(ROOT).as_posix()}:{number + 1} {function[1]}()")
    return found


def main():
    texts = {path: path.read_text(encoding="utf-8") for path in product_files()}
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    counts = {path: collections.Counter(words(path, text)) for path, text in texts.items()}
    pages = {path: collections.Counter(manual_words(path.read_text(encoding="utf-8")))
             for path in [ROOT / "README.md", *sorted((ROOT / "resources/manual").glob("*.md"))]}
    printed = {path: collections.Counter(text_words(path, text)) for path, text in texts.items()}
    single = single_users(texts)
    unnamed = [name for path, text in texts.items() if path.suffix == ".h" for name in unnamed_errors(path, text)]
    figures = {
        "product files": len(texts),
        "median lines of a file": statistics.median(lines.values()),
        "lines of the longest file": max(lines.values()),
        "headers with one user": len(single),
        "functions with unnamed errors": len(unnamed),
        "pronouns per 1,000 words of comments": round(per_thousand(counts, PRONOUNS), 1),
        "which/whose per 1,000 words of comments": round(per_thousand(counts, RELATIVES), 1),
        "pronouns per 1,000 words of the manual": round(per_thousand(pages, PRONOUNS), 1),
        "which/whose per 1,000 words of the manual": round(per_thousand(pages, RELATIVES), 1),
        "pronouns per 1,000 words of texts": round(per_thousand(printed, PRONOUNS), 1),
        "which/whose per 1,000 words of texts": round(per_thousand(printed, RELATIVES), 1),
    }
    beyond = [name for name, limit in LIMITS.items() if figures[name] > limit]
    beyond += [name for name, least in LEAST.items() if figures[name] < least]
    for name, figure in figures.items():
        limit = f"at most {LIMITS[name]:,}" if name in LIMITS else f"at least {LEAST[name]:,}"
        print(f"{name:<42}{figure:>9,}   {limit}{'   BEYOND' if name in beyond else ''}")
    print(f"({total_of(counts):,} words of comments, {total_of(pages):,} of the manual; longest file "
          f"{max(lines, key=lines.get).relative_to(ROOT)})")
    if "--list" in sys.argv[1:] or "headers with one user" in beyond:
        print("\nHeaders with one user:")
        for header, user in single.items():
            print(f"  {header}  {user}")
    if unnamed:
        print("\nFunctions that return Result without a word on the errors:", *unnamed, sep="\n  ")
    if "--list" in sys.argv[1:]:
        print("\nMost pronouns (pronouns, words, file):")
        worst = sorted(((sum(count[word] for word in PRONOUNS), sum(count.values()), path)
                        for path, count in (counts | pages).items()), reverse=True)
        for pronouns, of, path in worst[:25]:
            print(f"  {pronouns:>4} {of:>6}  {path.relative_to(ROOT)}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
