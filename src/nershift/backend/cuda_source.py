"""Kernels written in CUDA, compiled on first use by the compiler library that comes with torch."""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class CudaFunction:
    """One kernel of a source file, for the GPU that is current when it is created.

    It is never unloaded, since recordings may refer to it.

    Args:
        source: the file's text.
        name: of the kernel, which is ``extern "C"``.
        settings: preprocessor constants that the source needs.
        shared: bytes of shared memory per block.

    Raises:
        RuntimeError: The source does not compile, or the GPU does not take it.
        OSError: There is no compiler library.
    """

    def __init__(self, source: str, name: str, settings: Mapping[str, int], shared: int) -> None:
        self._device, self._shared = torch.cuda.current_device(), shared
        major, minor = torch.cuda.get_device_capability()
        image = compiled(source, settings, f"sm_{major}{minor}")
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuModuleLoadData", ctypes.byref(module), image)
        self._do("cuModuleGetFunction", ctypes.byref(self._function), module, name.encode())
        self._do("cuFuncSetAttribute", self._function, _MAX_DYNAMIC_SHARED, shared)

    def __call__(self, blocks: int, threads: int, arguments: Sequence[Tensor | int]) -> None:
        """Run on the current stream of its GPU; tensors must be contiguous, and stay alive until the call returns."""
        values = [ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.c_int(x) for x in arguments]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream(self._device).cuda_stream)
        size = (blocks, 1, 1, threads, 1, 1, self._shared)
        with torch.cuda.device(self._device):
            self._do("cuLaunchKernel", self._function, *size, stream, places, None)

    def _do(self, name: str, *args: Any) -> None:
        if code := getattr(self._driver, name)(*args):
            message = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(message))
            raise RuntimeError(f"{name}: {(message.value or b'').decode() or code}")


def compiled(source: str, settings: Mapping[str, int], machine: str) -> bytes:
    """The binary of a CUDA source for a machine such as ``sm_90``; needs no GPU."""
    library, program = _compiler(), ctypes.c_void_p()
    options = [f"--gpu-architecture={machine}", *(f"-D{name}={value}" for name, value in settings.items())]
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    if library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), None, 0, None, None):
        raise RuntimeError("the CUDA compiler did not start")
    try:
        if library.nvrtcCompileProgram(program, len(options), arguments):
            errors = _output(library, program, "ProgramLog").decode().rstrip("\0")
            raise RuntimeError(f"the CUDA source does not compile: {errors}")
        return _output(library, program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _output(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
    return text.raw


def _compiler() -> ctypes.CDLL:
    for name in _names():
        try:
            if Path(name).is_absolute():  # the compiler of CUDA 13.0 does not look for its other half beside itself
                for part in Path(name).parent.glob("libnvrtc-builtins.so.*"):
                    ctypes.CDLL(str(part))
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("libnvrtc was not found; it comes with torch's builds for CUDA")


def _names() -> Iterator[str]:
    """Where the compiler library may be: among the packages installed with torch, or known to the system."""
    versions = [torch.version.cuda.partition(".")[0]] if torch.version.cuda else ["13", "12"]
    packages = Path(torch.__file__).parents[1], Path(sysconfig.get_path("purelib"))
    for v in versions:
        for folder in dict.fromkeys(packages):
            yield from (str(path) for path in sorted(folder.glob(f"nvidia/*/lib/libnvrtc.so.{v}")))
        yield f"libnvrtc.so.{v}"
