"""The development page in a real browser: two people chat, see each other, lose the node and come back."""

import pytest

from browser import Browser
from client import Client
from hub import TOP, Hub, RedisServer, eventually, request, status

ONLINE = "document.querySelector('#state').className === 'online'"


@pytest.fixture(scope="module")
def browser():
    with Browser() as chromium:
        yield chromium


def person(user, status):
    return f"document.querySelector('#people li[data-user={user}].{status}')"


def says(text):
    return f"[...document.querySelectorAll('.message:not(.pending) .text')].filter((element) => element.textContent === '{text}').length === 1"


def test_two_people_chat_and_find_each_other_again(start, browser, tmp_path):
    hub = start(Hub, settings={"presence.grace": "400ms", "presence.sweepInterval": "100ms"})
    alice = browser.tab(f"{hub.url}/")
    alice.type("#name", "alice")
    alice.enter()
    alice.wait(ONLINE)
    bob = browser.tab(f"{hub.url}/#name=bob&room=lobby", width=420, dark=True)
    bob.wait(ONLINE)
    assert alice.value("document.querySelector('#channel').textContent") == "room:lobby"
    assert "Write something" in alice.value("document.querySelector('#empty').textContent")
    # Each learns of the other by the room's members.
    for tab in (alice, bob):
        tab.wait(person("alice", "online"))
        tab.wait(person("bob", "online"))
        tab.wait("document.querySelector('#people h2').textContent === 'Who is here (2)'")
    alice.wait("document.querySelector('#messages').textContent.includes('bob joined')")

    alice.type("#draft", "Hello Bob")
    bob.wait("document.querySelector('#typing').textContent === 'alice is typing…'")
    alice.enter()
    for tab in (alice, bob):
        tab.wait(says("Hello Bob"))
        tab.wait("!document.querySelector('#empty')")
    alice.wait("document.querySelector('.message.mine .seen').textContent === 'seen by bob'")
    bob.type("#draft", "<b>Hello</b> Alice")
    bob.enter()
    alice.wait(says("<b>Hello</b> Alice"))
    bob.hide(True)
    alice.wait(person("bob", "away"))
    alice.screenshot(tmp_path / "alice.png")
    bob.screenshot(tmp_path / "bob.png")
    bob.hide(False)
    alice.wait(person("bob", "online"))

    # The node dies; what is typed meanwhile waits, and is sent once.
    hub.kill()
    alice.wait("document.querySelector('#state').textContent.includes('lost the hub')")
    alice.wait("/trying again in [0-9]+ s/.test(document.querySelector('#state').textContent)")
    alice.type("#draft", "typed in the tunnel")
    alice.enter()
    alice.wait("document.querySelector('.message.pending')")
    start(Hub, port=hub.port, settings={"presence.grace": "400ms", "presence.sweepInterval": "100ms"})
    # Alice doesn't wait for the countdown.
    try_now = "[...document.querySelectorAll('#again:not([hidden])')].filter((button) => button.textContent === 'Try now')"
    alice.wait(f"{ONLINE} || {try_now}.map((button) => button.click()).length")
    for tab in (alice, bob):
        tab.wait(ONLINE, seconds=40)
    alice.wait(says("typed in the tunnel"))
    alice.type("#draft", "back again")
    alice.enter()
    bob.wait(says("back again"))
    # Whoever came back later has it, or is told that something is missing.
    bob.wait(f"{says('typed in the tunnel')} || document.querySelector('#messages').textContent.includes('may be missing')")
    for tab in (alice, bob):
        tab.wait(person("alice", "online"))
        tab.wait(person("bob", "online"))
    bob.value("document.querySelector('#leave').click()")
    alice.wait(person("bob", "offline"))
    alice.wait("document.querySelector('#people h2').textContent === 'Who is here (1)'")
    alice.wait("document.querySelector('#people li[data-user=bob] small').textContent === 'left'")
    assert alice.value("faults") == [] and bob.value("faults") == []


def test_what_was_said_while_a_page_was_away_is_shown(start, browser):
    redis = start(RedisServer)
    settings = {"limits.historyPage": 3}
    one, two = (start(Hub, name=name, redis=redis.url, settings=settings) for name in ("n1", "n2"))
    bob = browser.tab(f"{one.url}/#name=bob&room=away")
    bob.wait(ONLINE)
    request(f"{two.url}/v1/publish", "POST", {"channel": "room:away", "user": "alice", "payload": {"text": "heard"}})
    bob.wait(says("heard"))
    one.kill()
    bob.wait("document.querySelector('#state').textContent.includes('lost the hub')")
    for number in range(8):
        request(f"{two.url}/v1/publish", "POST", {"channel": "room:away", "user": "alice", "payload": {"text": f"missed {number}"}})
    start(Hub, name="n1", redis=redis.url, settings=settings, port=one.port)
    bob.wait(ONLINE, seconds=40)
    for number in range(8):
        bob.wait(says(f"missed {number}"))
    request(f"{two.url}/v1/publish", "POST", {"channel": "room:away", "user": "alice", "payload": {"text": "live again"}})
    bob.wait(says("live again"))
    assert "may be missing" not in bob.value("document.querySelector('#messages').textContent")


def test_the_page_asks_nobody_else(start):
    hub = start(Hub)
    code, fields, body = request(f"{hub.url}/")
    assert code == 200 and fields["Content-Type"].startswith("text/html")
    text = body.decode()
    assert "http://" not in text and "https://" not in text and "src=" not in text and "@import" not in text


def test_outside_development_there_is_no_page(start):
    config = TOP / "config" / "compose.json5"
    hub = start(Hub, dev=False, config=config, environment={"HUB_AUTH_SECRET": "k" * 32, "HUB_API_KEY": "a" * 32}, ready=False)
    eventually(lambda: status(f"{hub.url}/healthz") == 200)
    assert request(f"{hub.url}/")[0] == 404


def test_a_crowd_that_comes_or_goes_shares_a_line_and_long_names_are_cut(start, browser):
    hub = start(Hub)
    alice = browser.tab(f"{hub.url}/#name=alice&room=lobby")
    alice.wait(ONLINE)
    crowd = [Client(hub, user=name) for name in ["a name that is much too long for its place", *(f"guest-{number}" for number in range(9))]]
    for client in crowd:
        client.subscribe("room:lobby")
    notes = "[...document.querySelectorAll('.note')].map((note) => note.textContent)"
    alice.wait(f"{notes}.some((text) => text.endsWith(' and 7 others joined'))", 30)
    assert len(alice.value(f"{notes}.filter((text) => text.endsWith('joined'))")) == 1
    wide = "document.querySelector('#people ul')"
    assert alice.value(f"{wide}.scrollWidth <= {wide}.clientWidth"), "nobody's name widens the list"
    # What is said ends the line.
    crowd[1].chat("room:lobby", "hi")
    alice.wait(says("hi"))
    for client in crowd[:2]:
        client.leave()
    # In whichever order they're told.
    alice.wait(f"{notes}.some((text) => text.endsWith(' left') && text.includes('a name that is much too long for its place') && text.includes('guest-0'))", 30)
    for client in crowd[2:]:
        client.leave()
    assert alice.value("faults") == []
