"""Journals for `hub-swarm check`: what each client sent and got, as it stood on the wire, with the time.

A test that makes trouble wraps its clients' traffic in a `Journal` and ends with `judge`, which runs the one checker that the simulation
and the swarm use too."""

import json
import subprocess
import time


class Journal:
    """One file for all clients of a test."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "w", encoding="utf-8")

    def out(self, client, envelope):
        self._write({"client": client, "out": envelope})

    def got(self, client, envelope):
        self._write({"client": client, "in": envelope})

    def got_text(self, client, text):
        """The same for an envelope as it came, JSON without line breaks: what a busy test can afford."""
        if not self.file.closed:
            self.file.write(f'{{"t":{time.monotonic_ns() // 1000},"client":"{client}","in":{text}}}\n')

    def end(self, client, heard=None):
        """`heard`: when anything came over the connection last, by `time.monotonic`: what's acknowledged later can't have been owed to it."""
        self._write({"client": client, "end": True, **({} if heard is None else {"heard": int(heard * 1e6)})})

    def killed(self, node):
        """The node of that name is no more: what it alone knew that it had acknowledged, nobody can tell of (decision 0250)."""
        self._write({"client": node, "killed": True})

    def close(self):
        """What comes later isn't written: a test that ends its clients must not seem to have lost them."""
        self.file.close()

    def _write(self, line):
        if not self.file.closed:
            self.file.write(json.dumps({"t": time.monotonic_ns() // 1000, **line}) + "\n")

    def judge(self, swarm):
        """The checker's words; an AssertionError when it found something, or when nothing was proved. `swarm`: the program's path."""
        self.file.close()
        done = subprocess.run([swarm, "check", self.path], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}(journal: {self.path})"
        return done.stdout
