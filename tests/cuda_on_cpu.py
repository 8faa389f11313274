"""CUDA sources on a CPU, by the system's C++ compiler, to test what they compute where there is no GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

COMPILER = shutil.which("g++")
_HEADER = Path(__file__).with_name("cuda_on_cpu.h")


def on_cpu(
    source: str, name: str, settings: Mapping[str, int], folder: Path, given: Sequence[str]
) -> Callable[[int, int, Sequence[Tensor | int]], None]:
    """The kernel as ``CudaFunction`` of ``nershift.backend.cuda_source`` has it; ``given``: types of its arguments."""
    text = (
        f'#include "{_HEADER}"\n{source}\n'
        f'extern "C" void go(int blocks, int threads, {", ".join(f"{t} a{i}" for i, t in enumerate(given))}) {{\n'
        f"    every_block(blocks, threads, [=] {{ {name}({', '.join(f'a{i}' for i in range(len(given)))}); }});\n}}\n"
    )
    (folder / "kernel.cpp").write_text(text, "utf-8")
    flags = [f"-D{key}={value}" for key, value in settings.items()]
    made = folder / ("-".join(f"{k}{v}" for k, v in settings.items()) + ".so")
    asked = [str(COMPILER), "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", *flags]
    subprocess.run([*asked, str(folder / "kernel.cpp"), "-o", str(made)], check=True)
    library = ctypes.CDLL(str(made))

    def run(blocks: int, threads: int, values: Sequence[Tensor | int]) -> None:
        plain = [ctypes.c_void_p(v.data_ptr()) if isinstance(v, Tensor) else ctypes.c_int(v) for v in values]
        library.go(blocks, threads, *plain)

    return run
