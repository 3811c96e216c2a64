import HubBase

/// Walks the fields of one object in place, in the format that its message has: `JSONFields` or its MessagePack twin.
///
/// For what is read once a request. A scan of a whole envelope knows its format and pays no branch for it.
package struct WireFields {
    private enum Walk {
        case json(JSONFields)
        case messagePack(MessagePackFields)
    }

    private var walk: Walk

    package init(_ outer: UnsafeRawBufferPointer, range: ByteRange, format: WireFormat, depthMax: Int) {
        switch format {
        case .json: walk = .json(JSONFields(outer, range: range, depthMax: depthMax))
        case .messagePack, .short:
            walk = .messagePack(MessagePackFields(outer, range: range, depthMax: depthMax, isShort: format == .short))
        }
    }

    /// The next field; nil after the last one. Throws `malformed` or `tooDeep`.
    package mutating func next() throws(WireError) -> (key: WireValue, value: WireValue)? {
        switch walk {
        case .json(var fields):
            let field = try fields.next()
            walk = .json(fields)
            return field.map { (WireValue($0.key), WireValue($0.value)) }
        case .messagePack(var fields):
            let field = try fields.next()
            walk = .messagePack(fields)
            return field.map { (WireValue($0.key), WireValue($0.value)) }
        }
    }
}

/// Walks the elements of one array; otherwise as `WireFields`.
package struct WireElements {
    private enum Walk {
        case json(JSONElements)
        case messagePack(MessagePackElements)
    }

    private var walk: Walk

    package init(_ outer: UnsafeRawBufferPointer, range: ByteRange, format: WireFormat, depthMax: Int) {
        switch format {
        case .json: walk = .json(JSONElements(outer, range: range, depthMax: depthMax))
        case .messagePack, .short:
            walk = .messagePack(MessagePackElements(outer, range: range, depthMax: depthMax, isShort: format == .short))
        }
    }

    package mutating func next() throws(WireError) -> WireValue? {
        switch walk {
        case .json(var elements):
            let element = try elements.next()
            walk = .json(elements)
            return element.map { WireValue($0) }
        case .messagePack(var elements):
            let element = try elements.next()
            walk = .messagePack(elements)
            return element.map { WireValue($0) }
        }
    }
}
