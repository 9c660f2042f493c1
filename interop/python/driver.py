"""Does with redis-py's Lock what it is told on standard input, one request a line, and prints one reply line each.

A request is `NUMBER THREAD lock METHOD NAME ARGUMENT...`, with redis-py's own method names and times in milliseconds. Its reply is
`NUMBER ok VALUE` or `NUMBER error CLASS: MESSAGE`. Requests for one thread run one after the other on that thread.
"""

import queue
import sys
import threading

import redis


class Locks:
    """The locks of one thread; each has the lifetime that it was last acquired with."""

    def __init__(self, client):
        self.client = client
        self.locks = {}

    def perform(self, method, name, arguments):
        numbers = [int(argument) / 1000 for argument in arguments]
        if method == "acquire":
            # LIFETIME [WAIT]: without a wait it waits for ever, with one of 0 it tries once.
            lock = self.client.lock(name, timeout=numbers[0])
            self.locks[name] = lock
            wait = numbers[1] if len(numbers) > 1 else None
            return lock.acquire(blocking=wait != 0, blocking_timeout=wait)
        lock = self.locks.get(name) or self.client.lock(name)
        if method == "extend":
            return lock.extend(numbers[0], replace_ttl=True)
        if method == "release":
            return lock.release() or "-"
        if method in ("locked", "owned", "reacquire"):
            return getattr(lock, method)()
        raise ValueError("no method: " + method)


class NamedThreads:
    """Threads that live as long as the driver, each made when it is first named."""

    def __init__(self, client, reply):
        self.client = client
        self.reply = reply
        self.requests = {}

    def run(self, thread, request):
        if thread not in self.requests:
            self.requests[thread] = queue.SimpleQueue()
            threading.Thread(target=self.work, args=(self.requests[thread],), daemon=True).start()
        self.requests[thread].put(request)

    def work(self, requests):
        locks = Locks(self.client)
        while True:
            number, method, name, arguments = requests.get()
            try:
                value = locks.perform(method, name, arguments)
                self.reply(f"{number} ok {str(value).lower()}")
            except Exception as error:  # Whatever it is, the test has to hear of it.
                self.reply(f"{number} error {type(error).__name__}: {error}".replace("\n", " "))


def main():
    host, port = sys.argv[1:]
    output = threading.Lock()

    def reply(line):
        with output:
            print(line, flush=True)

    threads = NamedThreads(redis.Redis(host=host, port=int(port)), reply)
    reply("ready")
    for line in sys.stdin:
        number, thread, _, method, name, *arguments = line.split()
        threads.run(thread, (number, method, name, arguments))


main()
