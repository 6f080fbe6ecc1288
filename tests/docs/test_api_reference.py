"""`make docs`: the reference has every public declaration of core/include/ral with a description, and no warnings."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import textwrap
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "core/include/ral").glob("*.h"))
SCRIPT = ROOT / "tools/api_reference.sh"

needs_doxygen = pytest.mark.skipif(not shutil.which("doxygen"), reason="doxygen is not installed")


def _filter():
    spec = importlib.util.spec_from_file_location("doc_comments", ROOT / "tools/doc_comments.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


doc_comments = _filter()


# ---- What the headers declare, read without doxygen or its filter -----------------------------------


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def declared(text: str) -> list[str]:
    """Qualified names of the public types, functions, function pointers of tables and macros in a header."""
    text = re.sub(r"\\\n", " ", without_comments(text))
    macros = re.findall(
        r"^#\s*define\s+(\w+)", text, re.MULTILINE
    )  # one may have a definition for each compiler
    names = [name for name in dict.fromkeys(macros) if not name.endswith("_H")]
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b(RAL_API|RAL_PLUGIN_EXPORT)\b", "", text)
    scopes: list[tuple[str, str, bool]] = []  # kind, name, shows what follows
    statement = ""
    for char in text:
        if char not in "{};":
            statement += char
            if label := re.fullmatch(r"\s*(public|private|protected):", statement):
                scopes[-1] = (*scopes[-1][:2], label[1] == "public")
                statement = ""
            continue
        visible = all(shows for _, _, shows in scopes)
        prefix = [name for _, name, _ in scopes if name]
        if char == "{":
            scope = _scope(statement)
            if visible and scope[0] in ("type", "body") and scope[1]:
                names.append("::".join([*prefix, scope[1]]))
            scopes.append((scope[0], "" if scope[0] == "body" else scope[1], scope[2]))
        elif char == "}":
            scopes.pop()
        elif visible and (name := _declared_by(statement)):
            names.append("::".join([*prefix, name]))
        statement = ""
    return names


def _scope(head: str) -> tuple[str, str, bool]:
    if match := re.match(r"\s*namespace\s+([\w:]+)", head):
        return "namespace", match[1], True
    if 'extern "C"' in head:
        return "linkage", "", True
    if match := re.match(r"\s*(?:typedef\s+)?(class|struct|union|enum(?:\s+class)?)\b\s*(\w*)", head):
        return "type", match[2], match[1] in ("struct", "union")
    return "body", _declared_by(head), False


def _declared_by(statement: str) -> str:
    statement = " ".join(statement.split())
    if re.search(r"^friend\b|= (delete|default)$|~", statement) or statement.startswith(
        ("struct ", "class ")
    ):
        return ""
    if match := re.match(r"using (\w+) =", statement):
        return match[1]
    if match := re.match(r"typedef .*?(?:\(\*(\w+)\)\(.*|\b(\w+))$", statement):
        return match[1] or match[2]
    match = re.search(r"\(\*\s*(\w+)\)\s*\(|(\w+)\s*\((?!\*)", statement)
    return (match[1] or match[2]) if match else ""


def test_the_declarations_are_read_as_they_stand() -> None:
    text = """
    #ifndef X_H
    #define X_H
    #define LIMIT 3u /* int fake(void); */
    namespace ral {
    RAL_API void log(int level);   // void hidden();
    RAL_API void sink(void (*to)(int));
    class RAL_API Pool {
     public:
      Pool(int size);
      ~Pool();
      Pool(const Pool&) = delete;
      int size() const { return size_; }
      struct Impl;
     private:
      friend class Other;
      void grow();
      int size_{0};
    };
    enum class Kind { A, B };
    using Kernel = int (*)(int);
    }
    extern "C" {
    typedef struct table {
      int size;
      int (*run)(int a,
                 void (*then)(int));
    } table;
    typedef void* handle;
    typedef int (*entry)(int);
    }
    #endif
    """
    assert sorted(declared(textwrap.dedent(text))) == sorted(
        ["LIMIT", "ral::log", "ral::sink", "ral::Pool", "ral::Pool::Pool", "ral::Pool::size", "ral::Kind", "ral::Kernel"]
        + ["table", "table::run", "handle", "entry"]
    )  # fmt: skip


# ---- The filter -------------------------------------------------------------------------------------


def test_the_filter_makes_documentation_comments_of_plain_ones() -> None:
    before = """\
        // x.h: what it is for.
        //
        //   a    table
        #pragma once
        #include <a>  // for a

        // Takes <name>,
        // not `a<b>`.
        void take(int a, /* in the middle */ int b);
        struct S {  // no member
          int one;    // the one,
                      // and more
          int two;
          int (*f)(int a, /* not f */
                   int b);
        };
        // ---- A heading ----
        int three;

        /* A remark. */

        /* ---- The other form ----
         * Text at the end
         * of the file. */
        #endif // X
        """
    after = """\
        /** x.h: what it is for.
         @verbatim
          a    table @endverbatim @file */
        #pragma once
        #include <a>  // for a

        /** Takes \\<name\\>,
        not `a<b>`. */
        void take(int a, /* in the middle */ int b);
        struct S {  // no member
          int one;    /**< the one,
                      and more */
          int two;
          int (*f)(int a, /* not f */
                   int b);
        };
        // ---- A heading ----
        int three;

        /* A remark. */

        /** @par The other form
        Text at the end
        of the file. @file */
        #endif // X
        """
    assert doc_comments.converted(textwrap.dedent(before)) == textwrap.dedent(after)


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_the_filter_changes_comments_only(header: Path) -> None:
    before = header.read_text()
    after = doc_comments.converted(before)

    def code(text: str) -> list[str]:
        return [line for line in map(str.rstrip, without_comments(text).split("\n")) if line]

    assert code(after) == code(before)
    assert after.count("\n") == before.count("\n")


# ---- The reference ----------------------------------------------------------------------------------


def described(folder: Path) -> dict[str, list[str]]:
    """The descriptions in doxygen's XML, under qualified names; overloads have one each."""
    found: dict[str, list[str]] = {}

    def take(name: str, element: ElementTree.Element) -> None:
        parts = [element.find(tag) for tag in ("briefdescription", "detaileddescription")]
        found.setdefault(name, []).append("".join(t for p in parts for t in p.itertext()).strip())

    for path in sorted(folder.glob("*.xml")):
        for compound in ElementTree.parse(path).getroot().iter("compounddef"):
            name = compound.findtext("compoundname")
            if compound.get("kind") not in ("class", "struct", "union", "namespace", "file"):
                continue
            take(name, compound)
            # A file repeats the members of its namespaces; they are counted once, where they belong.
            prefix = "" if compound.get("kind") == "file" else f"{name}::"
            for member in compound.iterfind("sectiondef/memberdef"):
                take(prefix + member.findtext("name"), member)
    return found


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("docs")
    command = ["sh", str(SCRIPT), str(folder), "GENERATE_XML = YES"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout + done.stderr


@needs_doxygen
def test_doxygen_has_no_warnings(reference: tuple[Path, str]) -> None:
    folder, said = reference
    assert said == ""
    assert "C++ and plugin API" in (folder / "api/index.html").read_text()


@needs_doxygen
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_every_public_declaration_is_described(reference: tuple[Path, str], header: Path) -> None:
    found = described(reference[0] / "xml")
    wanted = Counter(declared(header.read_text()))
    assert len(wanted) > 1
    assert not {name: n for name, n in wanted.items() if len(found.get(name, [])) < n}, (
        "missing in the reference"
    )
    assert not [n for n, count in wanted.items() if sum(map(bool, found[n])) < count], "without a description"
    assert found[header.name] != [""], "the header's first comment is missing"


@needs_doxygen
def test_file_comments_keep_their_shape(reference: tuple[Path, str]) -> None:
    """Tables and examples in comments stay as written, without the filter's or the comment's own marks."""
    page = (reference[0] / "api/trace__format_8h.html").read_text()
    assert "  directory_offset ral_trace_segment[RAL_TRACE_MAX_SEGMENTS]\n" in page
    minimal = (reference[0] / "api/plugin_8h.html").read_text()
    assert "\n  void  &lt;vendor&gt;_free(void* pointer, int device);\n" in minimal


def test_without_doxygen_one_line_says_what_to_install(tmp_path: Path) -> None:
    for tool in ("dirname", "sh"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    command = [shutil.which("sh"), str(SCRIPT), str(tmp_path / "out")]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "the API reference needs doxygen, which is not installed: apt-get install doxygen\n"
    assert not (tmp_path / "out").exists()
