"""Processes whose wall clock a test sets: clock.c, preloaded."""

import mmap
import pathlib
import shutil
import struct
import subprocess


class Clock:
    """`prefix` goes before a command. `set` moves the clock of what was started so, at once, to so many seconds beside the true time."""

    def __init__(self, folder, name="clock"):
        library, path = folder / "clock.so", folder / name
        if not library.exists():
            # Swift's toolchain has a clang.
            compiler = shutil.which("clang") or shutil.which("cc")
            source = pathlib.Path(__file__).with_name("clock.c")
            subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 8)
        self.prefix = ["env", f"LD_PRELOAD={library}", f"CLOCK_FILE={path}"]

    def set(self, seconds):
        self.shared[:] = struct.pack("=q", seconds)
