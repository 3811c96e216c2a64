/// A field's name as the writers want it. JSON's form holds it all, with the comma before and the colon behind, so that it's one copy of
/// a length that the compiler knows; the bare name lies inside it.
struct FieldLabel {
    let json: StaticString

    @inline(__always) private init(_ json: StaticString) { self.json = json }

    @inline(__always) var name: UnsafeRawPointer { UnsafeRawPointer(json.utf8Start) + 2 }
    @inline(__always) var nameCount: Int { json.utf8CodeUnitCount &- 4 }

    // Computed, so that each use sees the literal itself.
    @inline(__always) static var changes: FieldLabel { FieldLabel(#","changes":"#) }
    @inline(__always) static var channel: FieldLabel { FieldLabel(#","channel":"#) }
    @inline(__always) static var channels: FieldLabel { FieldLabel(#","channels":"#) }
    @inline(__always) static var `class`: FieldLabel { FieldLabel(#","class":"#) }
    @inline(__always) static var code: FieldLabel { FieldLabel(#","code":"#) }
    @inline(__always) static var connection: FieldLabel { FieldLabel(#","connection":"#) }
    @inline(__always) static var count: FieldLabel { FieldLabel(#","count":"#) }
    @inline(__always) static var cursor: FieldLabel { FieldLabel(#","cursor":"#) }
    @inline(__always) static var device: FieldLabel { FieldLabel(#","device":"#) }
    @inline(__always) static var devices: FieldLabel { FieldLabel(#","devices":"#) }
    @inline(__always) static var duplicate: FieldLabel { FieldLabel(#","duplicate":"#) }
    @inline(__always) static var event: FieldLabel { FieldLabel(#","event":"#) }
    @inline(__always) static var id: FieldLabel { FieldLabel(#","id":"#) }
    @inline(__always) static var `in`: FieldLabel { FieldLabel(#","in":"#) }
    @inline(__always) static var joined: FieldLabel { FieldLabel(#","joined":"#) }
    @inline(__always) static var key: FieldLabel { FieldLabel(#","key":"#) }
    @inline(__always) static var lastSeen: FieldLabel { FieldLabel(#","lastSeen":"#) }
    @inline(__always) static var left: FieldLabel { FieldLabel(#","left":"#) }
    @inline(__always) static var limits: FieldLabel { FieldLabel(#","limits":"#) }
    @inline(__always) static var members: FieldLabel { FieldLabel(#","members":"#) }
    @inline(__always) static var message: FieldLabel { FieldLabel(#","message":"#) }
    @inline(__always) static var messageBytes: FieldLabel { FieldLabel(#","messageBytes":"#) }
    @inline(__always) static var messageId: FieldLabel { FieldLabel(#","messageId":"#) }
    @inline(__always) static var mode: FieldLabel { FieldLabel(#","mode":"#) }
    @inline(__always) static var more: FieldLabel { FieldLabel(#","more":"#) }
    @inline(__always) static var node: FieldLabel { FieldLabel(#","node":"#) }
    @inline(__always) static var occupancy: FieldLabel { FieldLabel(#","occupancy":"#) }
    @inline(__always) static var offset: FieldLabel { FieldLabel(#","offset":"#) }
    @inline(__always) static var payload: FieldLabel { FieldLabel(#","payload":"#) }
    @inline(__always) static var ping: FieldLabel { FieldLabel(#","ping":"#) }
    @inline(__always) static var position: FieldLabel { FieldLabel(#","position":"#) }
    @inline(__always) static var previous: FieldLabel { FieldLabel(#","previous":"#) }
    @inline(__always) static var publications: FieldLabel { FieldLabel(#","publications":"#) }
    @inline(__always) static var reads: FieldLabel { FieldLabel(#","reads":"#) }
    @inline(__always) static var reason: FieldLabel { FieldLabel(#","reason":"#) }
    @inline(__always) static var recovered: FieldLabel { FieldLabel(#","recovered":"#) }
    @inline(__always) static var retry: FieldLabel { FieldLabel(#","retry":"#) }
    @inline(__always) static var retryAfter: FieldLabel { FieldLabel(#","retryAfter":"#) }
    @inline(__always) static var returnAfter: FieldLabel { FieldLabel(#","returnAfter":"#) }
    @inline(__always) static var sequence: FieldLabel { FieldLabel(#","sequence":"#) }
    @inline(__always) static var stale: FieldLabel { FieldLabel(#","stale":"#) }
    @inline(__always) static var status: FieldLabel { FieldLabel(#","status":"#) }
    @inline(__always) static var time: FieldLabel { FieldLabel(#","time":"#) }
    @inline(__always) static var tokenExpires: FieldLabel { FieldLabel(#","tokenExpires":"#) }
    @inline(__always) static var type: FieldLabel { FieldLabel(#","type":"#) }
    @inline(__always) static var updated: FieldLabel { FieldLabel(#","updated":"#) }
    @inline(__always) static var user: FieldLabel { FieldLabel(#","user":"#) }
    @inline(__always) static var users: FieldLabel { FieldLabel(#","users":"#) }
    @inline(__always) static var version: FieldLabel { FieldLabel(#","version":"#) }
}
