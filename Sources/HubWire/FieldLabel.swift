/// A field's name as the writers want it. JSON's form holds it all, with the comma before and the colon behind, so that it's one copy of
/// a length that the compiler knows; the bare name lies inside it.
struct FieldLabel {
    let json: StaticString
    /// What stands for it in MessagePack's short form.
    let field: WireField

    @inline(__always) private init(_ json: StaticString, _ field: WireField) {
        self.json = json
        self.field = field
    }

    @inline(__always) var name: UnsafeRawPointer { UnsafeRawPointer(json.utf8Start) + 2 }
    @inline(__always) var nameCount: Int { json.utf8CodeUnitCount &- 4 }

    // Computed, so that each use sees the literal itself.
    @inline(__always) static var changes: FieldLabel { FieldLabel(#","changes":"#, .changes) }
    @inline(__always) static var channel: FieldLabel { FieldLabel(#","channel":"#, .channel) }
    @inline(__always) static var channels: FieldLabel { FieldLabel(#","channels":"#, .channels) }
    @inline(__always) static var `class`: FieldLabel { FieldLabel(#","class":"#, .class) }
    @inline(__always) static var code: FieldLabel { FieldLabel(#","code":"#, .code) }
    @inline(__always) static var connection: FieldLabel { FieldLabel(#","connection":"#, .connection) }
    @inline(__always) static var count: FieldLabel { FieldLabel(#","count":"#, .count) }
    @inline(__always) static var cursor: FieldLabel { FieldLabel(#","cursor":"#, .cursor) }
    @inline(__always) static var device: FieldLabel { FieldLabel(#","device":"#, .device) }
    @inline(__always) static var devices: FieldLabel { FieldLabel(#","devices":"#, .devices) }
    @inline(__always) static var duplicate: FieldLabel { FieldLabel(#","duplicate":"#, .duplicate) }
    @inline(__always) static var event: FieldLabel { FieldLabel(#","event":"#, .event) }
    @inline(__always) static var id: FieldLabel { FieldLabel(#","id":"#, .id) }
    @inline(__always) static var `in`: FieldLabel { FieldLabel(#","in":"#, .in) }
    @inline(__always) static var joined: FieldLabel { FieldLabel(#","joined":"#, .joined) }
    @inline(__always) static var key: FieldLabel { FieldLabel(#","key":"#, .key) }
    @inline(__always) static var lastSeen: FieldLabel { FieldLabel(#","lastSeen":"#, .lastSeen) }
    @inline(__always) static var left: FieldLabel { FieldLabel(#","left":"#, .left) }
    @inline(__always) static var limits: FieldLabel { FieldLabel(#","limits":"#, .limits) }
    @inline(__always) static var members: FieldLabel { FieldLabel(#","members":"#, .members) }
    @inline(__always) static var message: FieldLabel { FieldLabel(#","message":"#, .message) }
    @inline(__always) static var messageBytes: FieldLabel { FieldLabel(#","messageBytes":"#, .messageBytes) }
    @inline(__always) static var messageId: FieldLabel { FieldLabel(#","messageId":"#, .messageId) }
    @inline(__always) static var mode: FieldLabel { FieldLabel(#","mode":"#, .mode) }
    @inline(__always) static var more: FieldLabel { FieldLabel(#","more":"#, .more) }
    @inline(__always) static var node: FieldLabel { FieldLabel(#","node":"#, .node) }
    @inline(__always) static var occupancy: FieldLabel { FieldLabel(#","occupancy":"#, .occupancy) }
    @inline(__always) static var offset: FieldLabel { FieldLabel(#","offset":"#, .offset) }
    @inline(__always) static var payload: FieldLabel { FieldLabel(#","payload":"#, .payload) }
    @inline(__always) static var ping: FieldLabel { FieldLabel(#","ping":"#, .ping) }
    @inline(__always) static var position: FieldLabel { FieldLabel(#","position":"#, .position) }
    @inline(__always) static var previous: FieldLabel { FieldLabel(#","previous":"#, .previous) }
    @inline(__always) static var publications: FieldLabel { FieldLabel(#","publications":"#, .publications) }
    @inline(__always) static var reads: FieldLabel { FieldLabel(#","reads":"#, .reads) }
    @inline(__always) static var reason: FieldLabel { FieldLabel(#","reason":"#, .reason) }
    @inline(__always) static var recovered: FieldLabel { FieldLabel(#","recovered":"#, .recovered) }
    @inline(__always) static var retry: FieldLabel { FieldLabel(#","retry":"#, .retry) }
    @inline(__always) static var retryAfter: FieldLabel { FieldLabel(#","retryAfter":"#, .retryAfter) }
    @inline(__always) static var returnAfter: FieldLabel { FieldLabel(#","returnAfter":"#, .returnAfter) }
    @inline(__always) static var sequence: FieldLabel { FieldLabel(#","sequence":"#, .sequence) }
    @inline(__always) static var stale: FieldLabel { FieldLabel(#","stale":"#, .stale) }
    @inline(__always) static var status: FieldLabel { FieldLabel(#","status":"#, .status) }
    @inline(__always) static var time: FieldLabel { FieldLabel(#","time":"#, .time) }
    @inline(__always) static var tokenExpires: FieldLabel { FieldLabel(#","tokenExpires":"#, .tokenExpires) }
    @inline(__always) static var type: FieldLabel { FieldLabel(#","type":"#, .type) }
    @inline(__always) static var updated: FieldLabel { FieldLabel(#","updated":"#, .updated) }
    @inline(__always) static var user: FieldLabel { FieldLabel(#","user":"#, .user) }
    @inline(__always) static var users: FieldLabel { FieldLabel(#","users":"#, .users) }
    @inline(__always) static var version: FieldLabel { FieldLabel(#","version":"#, .version) }
}
