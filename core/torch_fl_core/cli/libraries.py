"""Libraries that vendors' drivers need, and how each is had: the one table of them."""

from __future__ import annotations

#: Library's name up to ".so", and the cure.
_KNOWN = {
    "libOpenCL": (
        "OpenCL's loader and a driver: run `ralctl install opencl` (PoCL, OpenCL on the CPU; the same as "
        "`pip install pocl-binary-distribution`), or Debian's and Ubuntu's ocl-icd-libopencl1 with a driver "
        "such as pocl-opencl-icd, mesa-opencl-icd or intel-opencl-icd"
    ),
    "libamdhip64": "AMD's HIP runtime: install ROCm, or Debian's libamdhip64-5",
    "libcuda": "part of NVIDIA's driver: install the driver (Debian: nvidia-driver; on WSL2 the one of Windows)",
    "libascendcl": "part of Huawei's CANN toolkit: install it, then run `source set_env.sh` of its folder",
    "libcnrt": "part of Cambricon's Neuware: install it and add /usr/local/neuware/lib64 to LD_LIBRARY_PATH",
    "libze_loader": "the Level Zero loader: Debian's libze1, elsewhere the package level-zero, and Intel's GPU driver",
}


def cure_of(library: str) -> str:
    """How to get a library ("libOpenCL.so.1"), in words; for an unknown one, how to search for it."""
    known = _KNOWN.get(library.partition(".so")[0])
    if known:
        return known
    return (
        f"find the package that holds it: `apt-file search {library}` (Debian, Ubuntu), `dnf provides '*/{library}'` "
        f"(Fedora), or the vendor's pages; where it is installed already, add its folder to LD_LIBRARY_PATH"
    )


def cures_of(plugin: dict) -> list[dict[str, str]]:
    """[{"library", "cure"}] of one entry of `torch.ral.plugins()`."""
    return [{"library": str(name), "cure": cure_of(str(name))} for name in plugin.get("missing") or []]
