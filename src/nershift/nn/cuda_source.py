"""Kernels written in CUDA: compiled on first use by the compiler library that comes with torch, no toolkit needed."""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_LARGE_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CAPABILITY = "sm_{}{}"


class CudaFunction:
    """One kernel of a source file, for the GPU that is in use when it is made.

    Args:
        source: the file's text.
        name: of the kernel, which is ``extern "C"``.
        settings: what the source calls by name and expects to be set.
        shared: bytes of shared memory that a block has.

    Raises:
        RuntimeError: The source does not compile, or the GPU does not take it.
        OSError: There is no compiler library.
    """

    def __init__(self, source: str, name: str, settings: Mapping[str, int], shared: int) -> None:
        major, minor = torch.cuda.get_device_capability()
        self._image = compiled(
            source, settings, _CAPABILITY.format(major, minor)
        )  # kept as long as the kernel
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._shared, module = shared, ctypes.c_void_p()
        self._function = ctypes.c_void_p()
        self._do("cuModuleLoadData", ctypes.byref(module), self._image)
        self._do("cuModuleGetFunction", ctypes.byref(self._function), module, name.encode())
        self._do("cuFuncSetAttribute", self._function, _LARGE_SHARED_MEMORY, shared)

    def __call__(self, blocks: int, threads: int, given: Sequence[Tensor | int]) -> None:
        """Run on the current stream; tensors must be contiguous and live until it is done."""
        values = [ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.c_int(x) for x in given]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._do(
            "cuLaunchKernel", self._function, blocks, 1, 1, threads, 1, 1, self._shared, stream, places, None
        )

    def _do(self, name: str, *args: Any) -> None:
        if code := getattr(self._driver, name)(*args):
            said = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(said))
            raise RuntimeError(f"{name}: {(said.value or b'').decode() or code}")


def compiled(source: str, settings: Mapping[str, int], machine: str) -> bytes:
    """The binary of a CUDA source for a machine such as ``sm_90``; needs no GPU."""
    library, program = _compiler(), ctypes.c_void_p()
    options = [f"--gpu-architecture={machine}", *(f"-D{name}={value}" for name, value in settings.items())]
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    if library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), None, 0, None, None):
        raise RuntimeError("the CUDA compiler did not start")
    try:
        if library.nvrtcCompileProgram(program, len(options), given):
            raise RuntimeError(f"the CUDA source does not compile: {_told(library, program, 'ProgramLog')!r}")
        return _told(library, program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _told(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
    return text.raw


def _compiler() -> ctypes.CDLL:
    for name in _names():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("libnvrtc was not found; it comes with torch's builds for CUDA")


def _names() -> Iterator[str]:
    """Where the compiler library may be: loaded or known to the system, or among the packages torch brings along."""
    versions = [torch.version.cuda.partition(".")[0]] if torch.version.cuda else ["13", "12"]
    yield from (f"libnvrtc.so.{v}" for v in versions)
    packages = Path(sysconfig.get_path("purelib")) / "nvidia"
    yield from (str(found) for v in versions for found in sorted(packages.glob(f"*/lib/libnvrtc.so.{v}")))
