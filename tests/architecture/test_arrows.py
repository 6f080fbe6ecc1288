"""The one-way arrows of docs/architecture.md: who may include or import whom."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
try:
    import arrows
finally:
    sys.path.pop(0)


def test_no_arrow_points_upwards():
    assert arrows.violations(ROOT) == []


@pytest.mark.parametrize("layer", arrows.LAYERS, ids=lambda layer: layer.folder)
def test_every_layer_has_files_to_check(layer):
    """A moved folder would otherwise pass unseen."""
    assert list(arrows.files_of(ROOT, layer)), f"{layer.folder} holds no source file: mend arrows.LAYERS"


def test_real_lines_are_parsed():
    """The parsers see what is known to be there; an empty answer would keep every arrow."""
    plugin = arrows.named_by(ROOT, ROOT / "core/plugins/opencl/device.h")
    assert "core/include/ral/plugin.h" in plugin or any(p.startswith("core/plugins/opencl/") for p in plugin)
    adapter = set().union(
        *(arrows.named_by(ROOT, p) for p in (ROOT / "core/adapter").glob("*") if p.suffix in (".h", ".cpp"))
    )
    assert any(name.startswith(("ATen/", "torch/", "c10/")) for name in adapter)
    assert any(name.startswith("core/include/ral/") for name in adapter)
    widgets = set().union(*(arrows.named_by(ROOT, p) for p in (ROOT / "fl_widgets").glob("*.py")))
    assert any(name.startswith("anywidget") for name in widgets)
    lab = set().union(*(arrows.named_by(ROOT, p) for p in (ROOT / "labextension/src").glob("*.ts")))
    assert any(name.startswith("@jupyterlab/") for name in lab)
    assert any(name.startswith("fl_widgets/src/core") for name in lab)


PLANTS = {
    "core/plugins/acme/a.cpp": '#include "ral/memory_pool.h"\n',
    "core/plugins/acme/b.cpp": "#include <ATen/ATen.h>\n",
    "core/ral/c.cpp": "#  include <torch/library.h>\n",
    "core/ral/d.cpp": "#include <Python.h>\n",
    "core/ral/e.cpp": '#include "../adapter/adapter.h"\n',
    "core/include/ral/f.h": '#include "../../ral/private.h"\n',
    "core/adapter/g.cpp": '#include "private.h"\n',
    "core/torch_fl_core/h.py": "def late():\n    from torch_fl import magics\n",
    "core/torch_fl_core/i.py": "import IPython.display\n",
    "core/torch_fl_core/trace/j.py": "def late():\n    import torch\n",
    "core/torch_fl_core/trace/k.py": "from torch import nn\n",
    "kernel_ext/torch_fl/server/l.py": "from .. import live\n",
    "kernel_ext/torch_fl/server/m.py": "from torch_fl_core import ral\n",
    "fl_widgets/n.py": "import torch.nn as nn\n",
    "fl_widgets/src/core/o.ts": "import { Widget } from '@lumino/widgets';\n",
    "fl_widgets/src/core/p.ts": "export * from '../widget/view';\n",
    "fl_widgets/src/core/q.ts": "import {\n  a,\n  b\n} from '@jupyterlab/application';\n",
    "fl_widgets/src/report/r.ts": "const m = await import('../widget/view');\n",
    "labextension/src/s.ts": "import { draw } from '../../fl_widgets/src/widget/view';\n",
}
GROUND = {
    "core/include/ral/plugin.h": "#include <stdint.h>\n",
    "core/include/ral/memory_pool.h": '#include "ral/plugin.h"\n',
    "core/ral/private.h": "#pragma once\n",
    "core/adapter/adapter.h": '#include "ral/memory_pool.h"\n#include <torch/library.h>\n',
    "core/plugins/acme/own.h": '#include "ral/plugin.h"\n',
    "core/plugins/acme/fine.cpp": '#include "own.h"\n#include <vector>\n',
    "core/torch_fl_core/__init__.py": "",
    "core/torch_fl_core/fine.py": "import torch\nfrom . import trace\n",
    "core/torch_fl_core/trace/__init__.py": "import numpy\nimport torchlike\n",
    "kernel_ext/torch_fl/__init__.py": "from fl_widgets import ProfileWidget\nimport torch\n",
    "kernel_ext/torch_fl/live.py": "import torch_fl_core\n",
    "kernel_ext/torch_fl/server/__init__.py": "from torch_fl_core.trace import find_rings\nfrom .handlers import go\n",
    "kernel_ext/torch_fl/server/handlers.py": "import tornado\n",
    "fl_widgets/__init__.py": "import anywidget\nimport torch_like\n",
    "fl_widgets/src/core/fine.ts": "import { draw } from './draw';\n// import '@jupyterlab/x' would be wrong\n",
    "fl_widgets/src/widget/view.ts": "import { draw } from '../core/fine';\n",
    "labextension/src/index.ts": "import '@jupyterlab/application';\nimport '../../fl_widgets/src/core';\n",
}


def write(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_allowed_arrows_pass(tmp_path):
    write(tmp_path, GROUND)
    assert arrows.violations(tmp_path) == []


@pytest.mark.parametrize("planted", PLANTS)
def test_a_planted_violation_is_found(tmp_path, planted):
    write(tmp_path, GROUND)
    write(tmp_path, {planted: PLANTS[planted]})
    found = arrows.violations(tmp_path)
    assert len(found) == 1, found
    assert found[0].startswith(planted + ": names ")


@pytest.mark.parametrize("module", ["torch_fl_core.trace", "torch_fl.server", "fl_widgets"])
def test_imports_without_torch(module, tmp_path):
    """Server and kernel may live in different environments: these must load where torch is not."""
    code = f"import sys, {module}; print(sorted(m for m in sys.modules if m.split('.')[0] == 'torch'))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
