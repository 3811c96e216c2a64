"""Presence where Redis loses its data while everybody is there: nobody who is goes, nor is shown otherwise than before, and no watcher is left behind."""

import signal
import time

import pytest

from client import Client, statuses
from hub import FAST, Hub, RedisServer, eventually, request

# A hold that a starved machine doesn't outlast either.
SLOW = {**FAST, "presence.hold": "5s", "presence.userTTL": "20s", "presence.grace": "3s"}


def watching(hubs, users, want):
    """A watcher on each node, once it has everybody as in `want`."""
    watchers = [Client(hub, f"watcher{number}") for number, hub in enumerate(hubs)]
    for watcher in watchers:
        eventually(lambda: {entry["user"]: entry["status"] for entry in watcher.request("watch", users=users)["users"]} == want)
        watcher.sync()
        watcher.inbox.clear()
    return watchers


def until(watcher, wanted):
    """Takes changes until the last of each user is as in `wanted`."""
    last = {}
    while {user: last.get(user) for user in wanted} != wanted:
        for change in watcher.expect(type="presence", seconds=20)["changes"]:
            last[change["user"]] = change["status"]


def gathered(watchers, seconds):
    """What each has been told, for so long from now on."""
    time.sleep(seconds)
    return [watcher.gather(0.3) for watcher in watchers]


def test_who_is_away_since_another_device_left_isn_t_told_as_online_when_redis_comes_back_empty(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=SLOW) for name in ("one", "two"))
    users = [f"u{number}" for number in range(20)]
    phones = [Client(one, user, device="phone") for user in users]
    laptops = [Client(two, user, device="laptop", status="away") for user in users]
    time.sleep(0.5)
    watchers = watching((one, two), users, dict.fromkeys(users, "online"))
    for place, phone in enumerate(phones):
        phone.leave() if place % 2 else phone.vanish()
    for watcher in watchers:
        until(watcher, dict.fromkeys(users, "away"))
        watcher.sync()
        watcher.inbox.clear()
    redis.kill()
    start(RedisServer, port=redis.port)
    for news in gathered(watchers, 7):
        assert {user: told for user in users if (told := statuses(news, user))} == {}
    for hub in (one, two):
        answer = request(f"{hub.url}/v1/presence", "POST", {"users": users})[2]
        assert {user["status"] for user in answer["users"]} == {"away"}, answer
    for client in laptops + watchers:
        client.leave()


def test_a_device_that_leaves_after_redis_was_emptied_takes_nobody_with_it_whose_other_one_is_there_or_comes_back(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=SLOW) for name in ("one", "two"))
    # Their partitions are swept, and so found empty, at times of their own.
    users = [f"u{number}" for number in range(80)]
    stay = [Client(one, user, device="phone") for user in users]
    leave = [Client(two, user, device="laptop") for user in users]
    time.sleep(2)
    watchers = watching((one, two), users, dict.fromkeys(users, "online"))
    assert redis.command("FLUSHALL") == "+OK"
    back = []
    for place, (phone, laptop) in enumerate(zip(stay, leave)):
        laptop.leave()
        if place % 2:
            phone.vanish()
            back.append(users[place])
        time.sleep(0.02)
    time.sleep(0.5)
    stay += [Client(two, user, device="phone") for user in back]
    for news in gathered(watchers, 7):
        assert {user: told for user in users if (told := statuses(news, user))} == {}
    for client in stay[::2] + watchers:
        client.leave()


def test_who_changed_just_before_redis_was_emptied_twice_is_written_again_within_a_hold_that_is_shorter_than_the_pace(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("one", "two"))
    users = [f"u{number}" for number in range(60)]
    clients = [Client((one, two)[place % 2], user) for place, user in enumerate(users)]
    time.sleep(2)
    watchers = watching((one, two), users, dict.fromkeys(users, "online"))
    for client in clients:
        client.request("presence", payload={"status": "away"})
    assert redis.command("FLUSHALL") == "+OK"
    time.sleep(0.3)
    assert redis.command("FLUSHALL") == "+OK"
    for news in gathered(watchers, 6):
        assert {user: told for user in users if (told := statuses(news, user)) != ["away"]} == {}
    for client in clients + watchers:
        client.leave()


def test_who_was_told_as_gone_because_their_node_slept_through_a_loss_of_data_is_told_as_back_when_it_wakes(start):
    redis = start(RedisServer)
    one, sleeper = (start(Hub, name=name, redis=redis.url, settings=SLOW) for name in ("one", "sleeper"))
    users = [f"u{number}" for number in range(40)]
    clients = [Client(sleeper, user, status="away" if place % 2 else None) for place, user in enumerate(users)]
    wanted = {user: ("online", "away")[place % 2] for place, user in enumerate(users)}
    time.sleep(2)
    watcher, = watching((one,), users, wanted)
    sleeper.signal(signal.SIGSTOP)
    assert redis.command("FLUSHALL") == "+OK"
    until(watcher, dict.fromkeys(users, "offline"))
    # Longer than whatever would read the users again.
    time.sleep(3)
    sleeper.signal(signal.SIGCONT)
    until(watcher, wanted)
    for client in clients:
        client.leave()
    watcher.leave()


@pytest.mark.parametrize("how", ["emptied", "restarted"])
def test_who_is_online_is_not_told_as_away_because_that_device_of_theirs_was_registered_again_first(start, how):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=SLOW) for name in ("one", "two"))
    users = [f"u{number}" for number in range(60)]
    clients = [Client(one, user, device="phone") for user in users] + [Client(two, user, device="laptop", status="away") for user in users]
    time.sleep(2)
    watchers = watching((one, two), users, dict.fromkeys(users, "online"))
    if how == "emptied":
        assert redis.command("FLUSHALL") == "+OK"
    else:
        redis.kill()
        start(RedisServer, port=redis.port)
    for news in gathered(watchers, 7):
        assert {user: told for user in users if (told := statuses(news, user))} == {}
    for client in clients[:60]:
        client.leave()
    for watcher in watchers:
        until(watcher, dict.fromkeys(users, "away"))
    for client in clients[60:] + watchers:
        client.leave()


def test_who_turns_one_of_two_devices_away_before_a_loss_is_noticed_is_not_told_as_away(start):
    redis = start(RedisServer)
    # The timers by default: each node sweeps a partition every 0.75 to 2.25 s.
    one, two, third = (start(Hub, name=name, redis=redis.url) for name in ("one", "two", "three"))
    users = [f"u{number}" for number in range(40)]
    phones = [Client(one, user, device="phone") for user in users]
    laptops = [Client(one, user, device="laptop") for user in users]
    time.sleep(2)
    watchers = watching((one, two, third), users, dict.fromkeys(users, "online"))
    assert redis.command("FLUSHALL") == "+OK"
    for laptop in laptops:
        laptop.request("presence", payload={"status": "away"})
        time.sleep(0.02)
    for news in gathered(watchers, 9):
        assert {user: told for user in users if (told := statuses(news, user))} == {}
    # Long after: at once.
    for phone in phones:
        phone.leave()
    for watcher in watchers:
        until(watcher, dict.fromkeys(users, "away"))
    for client in laptops + watchers:
        client.leave()
