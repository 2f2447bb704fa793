"""Makes the APK's x86-64 runtime loadable on this computer's JVM, so that tests can run it.

Android's native libraries differ from Linux's in their C library only. This writes libraries that
bear the names of Android's and pass calls on to those of Linux. Maven calls it before the tests.

    python3 android_demo/tools/android_libraries.py --output FOLDER
"""

import argparse
import re
import shutil
import tempfile
from pathlib import Path

from commands import fail, run
from project import AARS

RUNTIME = AARS / "tensorflow-lite/jni/x86_64/libtensorflowlite_jni.so"
# Every function of Android's C library has this version, and libraries insist on it.
_VERSION = "LIBC"
_EMPTY = ("libm.so", "libdl.so", "liblog.so")
_HEADER = '.section .note.GNU-stack,"",@progbits\n.text\n'

# Functions that Linux does not have, or that differ there, in assembler.
_OTHER = {
    "__errno": "jmp *__errno_location@GOTPCREL(%rip)",
    "__strlen_chk": "jmp *strlen@GOTPCREL(%rip)",
    "strerror_r": "jmp *__xpg_strerror_r@GOTPCREL(%rip)",
    "android_set_abort_message": "ret",
    # Every property is "36": only from some level of Android on, XNNPACK is taken unasked.
    "__system_property_get": "movl $0x3633, (%rsi); movl $2, %eax; ret",
    # XNNPACK of 2.16.1 reads 64 bytes at once from memory for which it asked less alignment.
    "memalign": "movl $64, %r11d; cmpq %r11, %rdi; cmovbq %r11, %rdi; jmp *memalign@GOTPCREL(%rip)",
}
# _SC_PAGESIZE, _SC_PAGE_SIZE, _SC_NPROCESSORS_CONF and _ONLN: Android's numbers and Linux's.
_SYSCONF = {39: 30, 40: 30, 96: 83, 97: 84}
# Functions that write to a file, and in which register they get it. What they write to `stderr`,
# which is `&__sF[2]`, is left out: the runtime's log is of no interest to the tests.
_STDERR = {"fprintf": "rdi", "vfprintf": "rdi", "fflush": "rdi", "fwrite": "rcx", "fputc": "rsi"}
# The table of stdin, stdout and stderr.
_FILE_BYTES = 152
_FILES_BYTES = 3 * _FILE_BYTES


def main() -> None:
    """Reads the arguments and writes the libraries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    write_libraries(parser.parse_args().output)


def write_libraries(folder: Path) -> None:
    """Writes Android's C library, as far as the runtime needs it, and a copy of the runtime."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as parts:
        assembly = _c_library(_functions(RUNTIME))
        _link(folder / "libc.so", assembly, Path(parts), _system("libc.so.6"), _system("libm.so.6"))
        for name in _EMPTY:
            _link(folder / name, _HEADER, Path(parts))
    shutil.copyfile(RUNTIME, folder / RUNTIME.name)


def _functions(library: Path) -> list[str]:
    """What a library needs of Android's C library."""
    if not library.exists():
        fail(f"{library} not found. Run `make apk`, which calls Maven first.")
    text = run("readelf", "--dyn-syms", "-W", library)
    return sorted(set(re.findall(rf" UND (\w+)@{_VERSION}", text)) - {"__sF"})


def _c_library(functions: list[str]) -> str:
    """Assembler: `android_NAME` is exported as NAME@LIBC; a plain NAME is Linux's."""
    own = _OTHER | {"sysconf": _sysconf()} | {name: _without_stderr(name) for name in _STDERR}
    lines = [_HEADER]
    for name in functions:
        code = own.get(name, f"jmp *{name}@GOTPCREL(%rip)")
        lines.append(f".globl android_{name}; .type android_{name}, @function")
        lines.append(f".symver android_{name}, {name}@{_VERSION}")
        lines.append(f"android_{name}: {code}")
    # The only function without a version.
    lines.append(".globl __android_log_vprint; .type __android_log_vprint, @function")
    lines.append("__android_log_vprint: xorl %eax, %eax; ret")
    lines.append(
        f".bss; .globl android_sF; .type android_sF, @object; .size android_sF, {_FILES_BYTES}"
    )
    lines.append(f".symver android_sF, __sF@{_VERSION}")
    lines.append(f"android_sF: files: .zero {_FILES_BYTES}")
    return "\n".join([*lines, ""])


def _sysconf() -> str:
    changed = (
        f"cmpl ${android}, %edi; movl ${linux}, %r11d; cmovel %r11d, %edi; je 1f"
        for android, linux in _SYSCONF.items()
    )
    return "; ".join(changed) + "; 1: jmp *sysconf@GOTPCREL(%rip)"


def _without_stderr(name: str) -> str:
    register = _STDERR[name]
    return (
        f"leaq files+{2 * _FILE_BYTES}(%rip), %r11; cmpq %r11, %{register}; jne 1f; "
        f"xorl %eax, %eax; ret; 1: jmp *{name}@GOTPCREL(%rip)"
    )


def _link(library: Path, assembly: str, parts: Path, *needed: Path) -> None:
    source, built, versions = (parts / f"part.{suffix}" for suffix in ("s", "o", "map"))
    source.write_text(assembly)
    versions.write_text(f"{_VERSION} {{ }};\n")
    run("as", "-o", built, source)
    run(
        *("ld", "-shared", "-soname", library.name, "--version-script", versions),
        *("-o", library, built, *needed),
    )


def _system(name: str) -> Path:
    """A library of this computer, beside the C library that this very program uses."""
    found = re.search(r"/\S+/libc\.so\.6", Path("/proc/self/maps").read_text())
    if not found:
        fail("expected a Linux with glibc; /proc/self/maps names no libc.so.6.")
    return Path(found.group()).with_name(name)


if __name__ == "__main__":
    main()
