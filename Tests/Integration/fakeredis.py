"""A server that speaks RESP and answers as a test wants: for what no real Redis does."""

import socket
import threading


class FakeRedis:
    """Answers each command by `answers[NAME]` (bytes, or a function of the command's words), or else as an agreeable cluster node would."""

    def __init__(self, **answers):
        self.answers = {name.upper(): answer for name, answer in answers.items()}
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.is_running = True
        self.links = []
        self.subscribers = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def count(self, name):
        return sum(words[0] == name for words in self.seen)

    def _accept(self):
        while self.is_running:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            self.links.append(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link):
        try:
            lines = link.makefile("rb")
            while header := lines.readline():
                words = []
                for _ in range(int(header[1:])):
                    words.append(lines.read(int(lines.readline()[1:]) + 2)[:-2].decode(errors="replace"))
                words[0] = words[0].upper()
                self.seen.append(words)
                answer = self._answer(words)
                if words[0] == "SSUBSCRIBE":
                    self.subscribers.update((name, link) for name in words[1:])
                if words[0] == "SPUBLISH" and words[1] in self.subscribers:
                    self.subscribers[words[1]].sendall(array(bulk("smessage"), bulk(words[1]), bulk(words[2])))
                link.sendall(answer)
        except (OSError, ValueError):
            pass
        finally:
            link.close()

    def _answer(self, words):
        known = self.answers.get(f"{words[0]}_{words[1].upper()}" if len(words) > 1 else "", self.answers.get(words[0]))
        if known is not None:
            return known(words) if callable(known) else known
        match words[0]:
            case "PING": return b"+PONG\r\n"
            case "GET": return bulk('{"v":1,"P":256}')
            case "SCRIPT": return bulk("0123456789abcdef0123456789abcdef01234567")
            case "HMGET": return array(*[b"$-1\r\n"] * (len(words) - 2))
            case "HLEN": return b":0\r\n"
            case "ZSCORE": return b"$-1\r\n"
            case "SSUBSCRIBE": return b"".join(array(bulk("ssubscribe"), bulk(name), b":1\r\n") for name in words[1:])
            case "SPUBLISH": return b":0\r\n"
            case "CLUSTER": return bulk("cluster_state:ok\r\ncluster_current_epoch:1\r\n") if words[1] == "INFO" else slots((0, 16383, self.port))
            # No revocations: a node that can't read them lets nobody in.
            # Where a channel without a record stands (tip.lua): one argument.
            case "EVALSHA" if ":m:" in words[3] and len(words) == 4 + int(words[2]): return array(*map(bulk, ("", "0", "originab")))
            case "EVALSHA" if "revocations" in words[3]: return array(*map(bulk, ("", "0", "originab", "", "")))
            case "EVALSHA": return b"*0\r\n"
            case _: return b"+OK\r\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_running = False
        self.listener.close()
        for link in self.links:
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text.encode()), text.encode())


def array(*elements):
    return b"*%d\r\n" % len(elements) + b"".join(elements)


def slots(*ranges):
    """An answer to CLUSTER SLOTS, from (first, last, port)."""
    return array(*(array(b":%d\r\n" % first, b":%d\r\n" % last, array(bulk("127.0.0.1"), b":%d\r\n" % port, bulk("id"))) for first, last, port in ranges))
