import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// A read position is a last value that never goes back, also where Redis does (decision 0320): on a real Redis whose data go back while a command
/// link is lost.
@Suite(.serialized) struct ReadsTakenBackTests {
    typealias Scene = RenewalTests.Scene
    static let channel = RenewalTests.channel

    private static func move(_ scene: Scene, _ offset: UInt64, on node: Node, by user: Name = "alice") -> UInt64? {
        let tag = node.markRead(offset, by: user, in: channel)
        #expect(scene.fixture.run { node.moved[tag] != nil })
        return try? node.moved[tag]?.get()
    }

    /// Five messages, alice has read one; what Redis falls back to.
    private static func begin() -> Scene {
        let scene = Scene()
        for number in 1...5 { _ = scene.publish("\(number)", "m\(number)", on: scene.one) }
        #expect(move(scene, 1, on: scene.one) == 1)
        scene.keep()
        return scene
    }

    /// Whether Redis has these read positions, soon.
    private static func has(_ scene: Scene, _ marks: [Name: UInt64]) -> Bool {
        for _ in 0..<100 {
            if scene.marks() == marks { return true }
            scene.fixture.pass(.milliseconds(50))
        }
        return false
    }

    /// What was heard of readers on a node, in order.
    private static func heard(_ node: Node) -> [UInt64] {
        (node.signs[channel] ?? []).compactMap { sign in sign.payload.withUnsafeBytes { Payload.readOffset($0) } }
    }

    @Test("what was acknowledged and taken back counts again, is told, and isn't undercut by what its reader says next")
    func acknowledged() {
        let scene = Self.begin()
        #expect(Self.move(scene, 5, on: scene.one) == 5)
        #expect(Self.move(scene, 3, on: scene.one, by: "bob") == 3)
        scene.goBack()
        #expect(scene.marks() == ["alice": 1])
        _ = scene.two.subscribe(Self.channel)
        scene.cut(scene.one)
        #expect(scene.fixture.run(limit: .seconds(20)) { scene.one.health.count == 3 && scene.one.isUp })
        #expect(Self.move(scene, 2, on: scene.one) == 5)
        #expect(Self.has(scene, ["alice": 5, "bob": 3]))
        #expect(scene.fixture.run { Set(Self.heard(scene.two)) == [3, 5] })
        #expect(scene.one.renewals.isEmpty && scene.two.resyncs(Self.channel) == [])
    }

    @Test("the first words of a reader over the new link go behind what the node knows of them")
    func first() {
        let scene = Self.begin()
        // More than go at once, so that some wait.
        var users: [Name] = []
        for number in 0..<400 {
            users.append(Name(trusted: Array("reader-\(number)".utf8)))
            _ = scene.one.markRead(5, by: users[number], in: Self.channel)
        }
        #expect(Self.move(scene, 5, on: scene.one) == 5)
        scene.goBack()
        scene.cut(scene.one)
        #expect(scene.fixture.run(limit: .seconds(20)) { scene.one.health.contains { if case .down = $0 { true } else { false } } })
        var tags: [RequestTag] = []
        #expect(
            scene.fixture.run(limit: .seconds(20)) {
                if tags.isEmpty, scene.one.isUp { tags = users.map { scene.one.markRead(2, by: $0, in: Self.channel) } }
                return !tags.isEmpty && tags.allSatisfy { scene.one.moved[$0] != nil }
            })
        for tag in tags { #expect(scene.one.moved[tag] == .success(5)) }
    }

    @Test("what passed on a channel that a node carries it writes again, though another one acknowledged it, which may be gone")
    func carried() {
        let scene = Self.begin()
        _ = scene.two.subscribe(Self.channel)
        #expect(Self.move(scene, 5, on: scene.one) == 5)
        #expect(scene.fixture.run { Self.heard(scene.two) == [5] })
        scene.goBack()
        scene.cut(scene.two)
        scene.settle()
        #expect(Self.has(scene, ["alice": 5]))
        #expect(Self.move(scene, 2, on: scene.two) == 5)
    }

    @Test("where messages were taken back too, a position counts as far as they survived")
    func renewed() {
        let scene = Self.begin()
        for number in 6...9 { _ = scene.publish("\(number)", "m\(number)", on: scene.one) }
        #expect(Self.move(scene, 8, on: scene.one) == 8)
        scene.goBack()
        scene.cut(scene.one)
        #expect(scene.fixture.run(limit: .seconds(20)) { !scene.one.renewals.isEmpty })
        #expect(Self.has(scene, ["alice": 5]))
        #expect(Self.move(scene, 4, on: scene.two) == 5)
        // A channel that began anew knows nothing of what was read before.
        scene.client.text("FLUSHALL")
        scene.cut(scene.one, scene.two)
        scene.settle()
        _ = scene.publish("new", "new", on: scene.one)
        #expect(scene.marks() == [:])
        #expect(Self.move(scene, 1, on: scene.one) == 1)
    }

    @Test("somebody else's key where the positions were is left as it is")
    func foreign() {
        let scene = Self.begin()
        #expect(Self.move(scene, 5, on: scene.one) == 5)
        let key = Scene.key(KeySpace.Kind.reads)
        _ = scene.call("DEL", key: key)
        _ = scene.call("HSET", "alice", "mine", key: key)
        let before = scene.call("DUMP", key: key)
        scene.cut(scene.one)
        scene.settle()
        #expect(scene.call("DUMP", key: key) == before && scene.one.foreign == [String(decoding: key, as: UTF8.self)])
    }
}
