"""Faults between clients and nodes, and of a node that stands alone, under load. docs/faults.md has the table."""

import asyncio
import signal

import pytest

from faultload import World, scenario, until
from faultrelay import FaultRelay


@pytest.mark.parametrize("is_embedded", [False, True], ids=["redis", "embedded"])
@scenario
async def test_connections_that_break_between_a_message_and_its_ack_publish_it_once(start, tmp_path, is_embedded):
    async with World(start, tmp_path, nodes=1 if is_embedded else 2, is_embedded=is_embedded) as world:
        doors = [await FaultRelay(node).open() for node in world.nodes]
        try:
            crowd = await world.crowd(doors=doors)
            for number in range(12):
                door = doors[number % len(doors)]
                # What clients send arrives, what is answered doesn't; then the connections are reset.
                door.is_deaf = True
                await asyncio.sleep(0.2)
                door.cut(refuse=False)
                door.is_deaf = False
                await crowd.acknowledges(10)
            verdict = await crowd.verdict()
        finally:
            for door in doors:
                await door.close()
        # Some were taken the first time, which their retries were told.
        assert any(is_duplicate for *_, is_duplicate in crowd.acks) and verdict["retried"] > 0
        assert verdict["recovered"] > 0
        verdict.assert_nothing_announced()


@scenario
async def test_a_request_s_channels_come_in_one_piece_though_one_is_read_from_history_and_others_are_not(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd()
        hot = await crowd.add("hot", channels=crowd.channels[:1])
        # Reading history takes its time; what the node has in memory doesn't.
        for relay in world.relays:
            relay.delay = 0.1
        # How many read it, chance says.
        absent = [bot for bot in crowd.bots if hot.channels[0] in bot.channels][:6]
        assert absent
        for _ in range(4):
            for bot in absent:
                bot.holds_off = 1.0
                bot.drop()
            # More in this channel than nodes remember.
            for _ in range(100):
                await hot.publish(hot.channels[0])
                await asyncio.sleep(0.01)
            await until(lambda: all(bot.is_back for bot in absent), "they are back")
        verdict = await crowd.verdict()
        assert verdict["recovered"] >= 4 * len(absent) * 3
        verdict.assert_nothing_announced()


@scenario
async def test_a_killed_node_that_stood_alone_begins_anew_and_says_so(start, tmp_path):
    async with World(start, tmp_path, nodes=1, is_embedded=True) as world:
        crowd = await world.crowd()
        first_epochs = {channel: crowd.last[channel].split(".")[0] for channel in crowd.channels}
        world.nodes[0].signal(signal.SIGKILL)
        await world.restart_node(0)
        await crowd.acknowledges()
        verdict = await crowd.verdict(is_lossy=True)
        for channel in crowd.channels:
            assert crowd.last[channel].split(".")[0] != first_epochs[channel]
        assert {(name, channel) for name, channel, _ in verdict.told} == {(bot.name, channel) for bot in crowd.bots for channel in bot.channels}
        assert {reason for *_, reason in verdict.told} == {"epochChanged"}
