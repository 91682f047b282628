"""Compilation of kernels, the cache of compiled code, and intrinsics that Numba lacks.

Numba's own cache decides freshness from the file that holds a function, so an edit in a *callee's* file would go
unnoticed.  Here the cache folder carries a hash of every source file that defines kernels: any edit there, any
other version of Numba or Python, is a new folder.  It is `$NUMBA_CACHE_DIR/spaql-<hash>` where that variable is set,
else `<user cache>/spaql/<hash>`.  Where it cannot be written, kernels are compiled anew in every process.

With NUMBA_DISABLE_JIT=1 everything here still works, slowly, in plain Python.

With SPAQL_CHECKED=1 kernels check every index, with a cache folder of their own: an index past the end of an array is
an IndexError instead of a damaged process.  In a function that kernels call by its address, as those of a problem, the
error cannot leave it: Numba prints it, with "Exception ignored", and the function returns 0 at once.  All this is for
tests, and several times slower.

*Ctrl-C.*  Numba and LLVM may crash where a signal handler raises inside them.  So the main thread lets another one
compile and load kernels, and waits for it, which Ctrl-C ends at once; the kernel is finished all the same.  While a
kernel that the main thread called is running, Ctrl-C is held back until it returns.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums, which take longer than many a kernel
import ctypes
import hashlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.imputils import lower_getattr_generic
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import AttributeTemplate, builtin_registry, infer_getattr
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox
from numba.np import arrayobj
from numpy.typing import NDArray

T = TypeVar("T")
_KEPT_DAYS = 30
CHECKED = os.environ.get("SPAQL_CHECKED") == "1"


class _Watch(threading.local):
    """What a thread calls after each kernel that it compiles."""

    compiled: Callable[[], object] | None = None


_WATCH = _Watch()
_COMPILER = "spaql compiler"  # name of the threads that compile for the main thread
_LISTEN_SECONDS = 0.1  # between two looks at whether Ctrl-C was held back
_WAITING = False  # whether the main thread waits for the compiler
_SIGINT = int(signal.SIGINT)


def _source_hash() -> str:
    """Hash every source file that defines kernels, and the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:3]}{' checked' * CHECKED}".encode())
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        source = path.read_bytes()
        if b"@kernel(" in source or b"@intrinsic" in source:
            digest.update(str(path.relative_to(root)).encode() + b"\0" + source)
    return digest.hexdigest()[:16]


def _cache_folder() -> Path | None:
    """Return the folder for compiled code, or None where none can be written."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        folder = Path(os.environ["NUMBA_CACHE_DIR"]) / f"spaql-{_source_hash()}"
    else:
        user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = Path(user) / "spaql" / _source_hash()
    old = time.time() - _KEPT_DAYS * 86_400
    try:
        if not folder.exists():  # remove those of versions unused for a month
            for other in folder.parent.glob("spaql-*" if folder.name.startswith("spaql-") else "*"):
                if other.is_dir() and other.stat().st_mtime < old:
                    shutil.rmtree(other, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


CACHE = None if config.DISABLE_JIT else _cache_folder()


def apart(make: Callable[[], T]) -> T:
    """Return what a function compiles; the main thread lets another one call it, so that Ctrl-C can end the wait."""
    if threading.current_thread() is not threading.main_thread() or global_compiler_lock.is_locked():
        return make()  # no signals here; or this is part of a compilation
    global _WAITING
    results: list[T] = []
    errors: list[BaseException] = []
    watch, done, left = _WATCH.compiled, threading.Event(), threading.Event()

    def run() -> None:
        _WATCH.compiled = None if watch is None else lambda: None if left.is_set() else watch()
        try:
            results.append(make())
        except BaseException as error:  # whatever it is, the main thread raises it
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name=_COMPILER)  # no daemon: LLVM must not run while the process ends
    thread.start()
    try:
        _WAITING = True
        while not done.wait(_LISTEN_SECONDS):
            raise_held()
    finally:
        _WAITING = False
        left.set()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def is_waiting() -> bool:
    """Whether the main thread waits for a kernel: there a handler of Ctrl-C may raise."""
    return _WAITING


def is_compiling() -> bool:
    """Whether a kernel is still being compiled that nobody waits for, after Ctrl-C."""
    return any(thread.name == _COMPILER for thread in threading.enumerate())


def _without_literal(kind: types.Type) -> types.Type:
    """Return the type of all values of a kind, where that is of one value only, also inside tuples."""
    if isinstance(kind, types.Tuple):
        return types.Tuple([_without_literal(part) for part in kind.types])
    return types.unliteral(kind)


@contextmanager
def _brief_compilation(hot: bool) -> Iterator[None]:
    """Compile without what costs Numba and LLVM much and gains nothing here.

    The loops of hot kernels are too short for vector instructions.  Where a slice is assigned to one of another size,
    Numba has an error with both shapes, and code for strings in every kernel; here it is the sentence alone.
    """
    with global_compiler_lock:
        before = config.LOOP_VECTORIZE, config.OPT
        texts = [(template, template._overload_func) for template in _shape_errors()]
        config.LOOP_VECTORIZE, config.OPT = 0, before[1] if hot else type(before[1])(1)
        for template, _ in texts:
            template._overload_func = staticmethod(arrayobj.ol_raise_with_shape_context_generic)
        try:
            yield
        finally:
            config.LOOP_VECTORIZE, config.OPT = before
            for template, text in texts:
                template._overload_func = staticmethod(text)


def _shape_errors() -> list[Any]:
    """Return Numba's templates for the error of a slice that is assigned to one of another size."""
    wordy = getattr(arrayobj, "ol_raise_with_shape_context_cpu", None)
    return [each for each in builtin_registry.functions if getattr(each, "_overload_func", 0) is wordy]


class _Dispatcher(CPUDispatcher):  # type: ignore[misc]
    """A compiled function, of one signature only where that is given."""

    signature: Any = None
    hot = True

    def compile(self, sig: Any) -> Any:
        return apart(lambda: self._compile_here(sig))

    def _compile_here(self, sig: Any) -> Any:
        missed = self.stats.cache_misses.total()
        with _brief_compilation(self.hot):
            code = super().compile(self.signature or sig)
        if _WATCH.compiled is not None and self.stats.cache_misses.total() > missed:
            _WATCH.compiled()
        return code


class _Callee(_Dispatcher):
    """A kernel as other kernels call it: without an entry from Python, and once for all values of a type.

    Numba would compile f(0) and f(n) separately, and for each of them code that takes every array from Python.  The
    code is part of each caller's file in the cache, and needs none of its own.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(
            tuple(map(_without_literal, args)), {name: _without_literal(kind) for name, kind in kws.items()}
        )


class _Kernel(_Dispatcher):
    """A kernel as Python calls it; other kernels call its `callee`."""

    callee: _Callee

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        with hold_interrupts():
            return super().__call__(*arguments, **keywords)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self.callee.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        return self.callee.get_overload(sig)


def kernel(signature: Any = None, *, inline: bool = False, hot: bool = True) -> Callable[[Any], Any]:
    """Compile a function: without the GIL, cached on disk, no fast-math (results must not depend on the machine).

    `inline` forces LLVM to inline it into its callers: the verbs are a few nanoseconds each, a call with all the
    arrays of a forest as arguments costs more than that.
    """
    options = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True, "boundscheck": CHECKED}

    def decorate(function: Any) -> Any:
        if config.DISABLE_JIT:
            return function
        made = _Kernel(function, targetoptions=options)
        made.callee = _Callee(function, targetoptions=options | {"no_cpython_wrapper": True, "forceinline": inline})
        for each in (made, made.callee):
            each.signature, each.hot = signature, hot
        if CACHE is not None:
            with _our_cache():
                made.enable_caching()
        return made

    return decorate


@contextmanager
def _our_cache() -> Iterator[None]:
    """Let Numba choose our folder for what is cached from here on."""
    before, config.CACHE_DIR = config.CACHE_DIR, "" if CACHE is None else str(CACHE)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def compile_entry(signature: Any, function: Any) -> Any:
    """Compile a function that kernels call by its address, or load it; with the JIT off it is returned as it is."""
    if config.DISABLE_JIT:
        return function

    def make() -> Any:
        with _brief_compilation(True), _our_cache():
            return numba.cfunc(signature, cache=CACHE is not None, boundscheck=CHECKED)(function)

    return apart(make)


class _Reference(types.Type):  # type: ignore[misc]
    """A named tuple of arrays that stands in memory."""

    def __init__(self, content: types.NamedTuple) -> None:
        self.content = content
        super().__init__(name=f"reference({content})")


@register_model(_Reference)
class _ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.IntType(8).as_pointer())


@unbox(_Reference)
def _unbox_reference(kind: _Reference, value: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(address, ir.IntType(8).as_pointer()), is_error=c.pyapi.c_api_error())


@infer_getattr
class _ReferenceAttributes(AttributeTemplate):  # type: ignore[misc]
    key = _Reference

    def generic_resolve(self, kind: _Reference, name: str) -> types.Type | None:
        if name not in kind.content.fields:
            return None
        part = kind.content.types[kind.content.fields.index(name)]
        return _Reference(part) if isinstance(part, types.NamedTuple) else part


@lower_getattr_generic(_Reference)
def _get_part(context: Any, builder: Any, kind: _Reference, value: Any, name: str) -> Any:
    place = kind.content.fields.index(name)
    whole = builder.bitcast(value, context.get_value_type(kind.content).as_pointer())
    part = builder.gep(whole, [ir.IntType(32)(0), ir.IntType(32)(place)], inbounds=True)
    if isinstance(kind.content.types[place], types.NamedTuple):
        return builder.bitcast(part, value.type)
    return builder.load(part)


def _words_of(value: Any) -> list[int]:
    """Return an array, or all arrays of a tuple, as the 64-bit words by which kernels know them, without references."""
    if isinstance(value, tuple):
        return [word for part in value for word in _words_of(part)]
    return [0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides]


def by_reference(cls: type[T]) -> type[T]:
    """Let kernels take named tuples of this class, of arrays or of named tuples of them, by their place in memory.

    Numba hands over every number of every array; with dozens of arrays that is what takes longest to compile.  A kernel
    calls `unreferenced` to use the arrays, and may hand the reference on before.
    """

    def address(self: Any) -> int:
        if "_words" not in vars(self):
            self._words = np.array(_words_of(self), np.int64)
        return int(self._words.ctypes.data)

    cls.address = property(address)  # type: ignore[attr-defined]

    def reduce(self: Any) -> Any:
        return cls, tuple(self)  # without the words, which say where the arrays of this one are

    cls.__reduce__ = reduce  # type: ignore[method-assign]

    @typeof_impl.register(cls)
    def typeof(value: Any, c: Any) -> _Reference:
        return _Reference(types.NamedTuple([typeof_impl(part, c) for part in value], cls))

    return cls


def make_records(size: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Return zeroed records whose fields kernels can read as attributes, with the JIT or without."""
    array = np.zeros(size, dtype)
    return array.view(np.recarray) if config.DISABLE_JIT else array


@contextmanager
def watch_compilation(compiled: Callable[[], object]) -> Iterator[None]:
    """Call a function after each kernel that this thread compiles; those loaded from the cache do not count."""
    before, _WATCH.compiled = _WATCH.compiled, compiled
    try:
        yield
    finally:
        _WATCH.compiled = before


def raise_held() -> None:
    """Raise the KeyboardInterrupt of a Ctrl-C that `hold_interrupts` holds back, unless it does so until its end."""
    hold = _find_hold()
    if hold is not None and hold.pressed and not hold.shields:
        hold.pressed = False
        raise KeyboardInterrupt


def _find_hold() -> "hold_interrupts | None":
    """Return what holds Ctrl-C back from this thread: the outermost hold, whose handler it is."""
    if threading.current_thread() is not threading.main_thread():
        return None
    owner = getattr(_signal.getsignal(_SIGINT), "__self__", None)
    return owner if isinstance(owner, hold_interrupts) else None


class hold_interrupts:
    """Hold Ctrl-C back while kernels are called; gives a function that raises KeyboardInterrupt if it was pressed.

    Numba runs Python code of its own as a kernel returns, and may crash if a signal handler raises there.  A caller's
    own handler stays, and only the main thread receives signals.  With `shield` nothing inside raises, neither that
    function nor the wait for a kernel that is being compiled: for what must not be left half done.
    """

    __slots__ = ("_replaced", "_shield", "_shielded", "pressed", "shields")

    def __init__(self, shield: bool = False) -> None:
        self._shield = shield

    def _press(self, number: int, frame: object) -> None:
        self.pressed = True

    def __enter__(self) -> Callable[[], None]:
        """Replace the usual handler."""
        self.pressed, self.shields = False, 0
        self._replaced = (
            _signal.getsignal(_SIGINT) is _signal.default_int_handler
            and threading.current_thread() is threading.main_thread()
        )
        if self._replaced:
            _signal.signal(_SIGINT, self._press)
        self._shielded = _find_hold() if self._shield else None
        if self._shielded is not None:
            self._shielded.shields += 1
        return raise_held

    def __exit__(self, *error: object) -> None:
        """Put the usual handler back, and raise what was held back; a Ctrl-C meanwhile is either, and never both."""
        if self._shielded is not None:
            self._shielded.shields -= 1
        if self._replaced:
            _signal.signal(_SIGINT, _signal.default_int_handler)
            if self.pressed:
                raise KeyboardInterrupt


if config.DISABLE_JIT:

    def unreferenced(value):
        """Return the value itself."""
        return value

    def _pointer_cast(element: Any) -> Any:
        return lambda address: ctypes.cast(int(address), ctypes.POINTER(element))

    floats_at, words_at = _pointer_cast(ctypes.c_double), _pointer_cast(ctypes.c_uint64)

    def call(function, numbers):
        """Call a function of int64: one of Python, or the one at an address."""
        if callable(function):
            return function(*numbers)
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(numbers))(int(function))(*map(int, numbers))

else:

    def _without_references(context, builder, kind, value):
        if isinstance(kind, _Reference):
            return builder.load(builder.bitcast(value, context.get_value_type(kind.content).as_pointer()))
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = ir.Constant(array.meminfo.type, None)
            array.parent = ir.Constant(array.parent.type, None)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            pairs = zip(kind.types, cgutils.unpack_tuple(builder, value, len(kind)), strict=True)
            return context.make_tuple(builder, kind, [_without_references(context, builder, *pair) for pair in pairs])
        return value

    @intrinsic
    def unreferenced(typingctx, value):
        """Return an array, or a tuple of arrays, without reference counts; of a class `by_reference`, its arrays.

        Every alias of an array inside a kernel costs two atomic operations, more than a whole look-up.  The caller
        of the kernel keeps the array alive, so the kernel needs no count of its own.
        """

        def codegen(context, builder, signature, arguments):
            return _without_references(context, builder, signature.args[0], arguments[0])

        return (value.content if isinstance(value, _Reference) else value)(value), codegen

    def _pointer_cast(element: Any) -> Any:
        def cast(typingctx, address):
            def codegen(context, builder, signature, arguments):
                return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

            return types.CPointer(element)(types.int64), codegen

        return intrinsic(cast)

    floats_at, words_at = _pointer_cast(types.float64), _pointer_cast(types.uint64)

    # Numba's own first-class functions would do, but it looks at their type anew at every call of a kernel from Python:
    # tens of microseconds, more than a hundred training steps.  An address is an integer, whose type is known at once.

    @intrinsic
    def call(typingctx, function, numbers):
        """Call the compiled function at an address, with a tuple of int64."""
        words = types.UniTuple(types.int64, len(numbers))

        def codegen(context, builder, signature, arguments):
            word = ir.IntType(64)
            pointer = builder.inttoptr(arguments[0], ir.FunctionType(word, [word] * len(words)).as_pointer())
            return builder.call(pointer, cgutils.unpack_tuple(builder, arguments[1], len(words)))

        return types.int64(types.int64, words), codegen
