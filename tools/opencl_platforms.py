"""Says how many OpenCL platforms this machine's loader (libOpenCL.so.1) sees; exit status 1 for none.

The Makefile installs PoCL from PyPI where there is none.
"""

import ctypes
import sys

CL_SUCCESS = 0


def platform_count() -> int:
    """Number of OpenCL platforms; 0 where the loader is missing or has none."""
    try:
        loader = ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint(0)
    if loader.clGetPlatformIDs(0, None, ctypes.byref(count)) != CL_SUCCESS:
        return 0
    return count.value


if __name__ == "__main__":
    found = platform_count()
    print(f"OpenCL platforms found: {found}")
    sys.exit(0 if found else 1)
