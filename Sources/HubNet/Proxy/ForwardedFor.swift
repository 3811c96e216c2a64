import HubBase

/// Finds the client in what proxies wrote into a request's head.
///
/// Each proxy appends the address that it saw, so the list is read from its end: as long as an address is a trusted proxy's, the one before it is
/// believed. The first that isn't is the client; what stands before that is only what the client said of itself.
package struct ForwardedFor {
    let proxies: TrustedProxies

    package init(_ proxies: TrustedProxies) { self.proxies = proxies }

    /// The client of a request that came from `sender`, by the header of this hub's choice; `sender` itself where that isn't trusted, or where
    /// the header says nothing, something unreadable or something hidden ("unknown", "_x", RFC 7239 §6).
    package func client(of request: borrowing HTTPRequest, from sender: IPAddress) -> IPAddress {
        guard proxies.trusts(sender) else { return sender }
        var found = sender
        for header in request.headers.reversed() where ASCII.equals(header.name.bytes(in: request.head), ignoringCase: headerName) {
            let value = header.value.bytes(in: request.head)
            let elements = proxies.header == .xForwardedFor ? Self.plainElements(value) : Self.elements(value)
            for element in elements.reversed() {
                let node = proxies.header == .xForwardedFor ? element : Self.forParameter(element)
                guard let node, let address = Self.address(node) else { return found }
                found = address
                guard proxies.trusts(found) else { return found }
            }
        }
        return found
    }

    /// Whether there's anything to read.
    package func isPresent(in request: borrowing HTTPRequest) -> Bool { request.header(headerName) != nil }

    private var headerName: StaticString { proxies.header == .xForwardedFor ? "x-forwarded-for" : "forwarded" }

    /// What stands between commas, trimmed, empty ones left out.
    static func plainElements(_ value: UnsafeRawBufferPointer) -> [UnsafeRawBufferPointer] {
        split(value, at: UInt8(ascii: ","), mindsQuotes: false).parts
    }

    /// What stands between commas that aren't in quotes (RFC 7239 §4). A quote that is never closed counts for nothing: a client that opens one
    /// must not swallow what its proxy appends.
    static func elements(_ value: UnsafeRawBufferPointer) -> [UnsafeRawBufferPointer] {
        let (parts, isOpen) = split(value, at: UInt8(ascii: ","), mindsQuotes: true)
        return isOpen ? plainElements(value) : parts
    }

    private static func split(_ value: UnsafeRawBufferPointer, at separator: UInt8, mindsQuotes: Bool) -> (
        parts: [UnsafeRawBufferPointer], isOpen: Bool
    ) {
        var parts: [UnsafeRawBufferPointer] = []
        var start = 0
        var isQuoted = false
        var isEscaped = false
        for place in 0...value.count {
            if place == value.count || (value[place] == separator && !isQuoted) {
                let part = ASCII.trimmed(UnsafeRawBufferPointer(rebasing: value[start..<place]))
                if !part.isEmpty { parts.append(part) }
                start = place + 1
            } else if isEscaped {
                isEscaped = false
            } else if mindsQuotes && value[place] == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if isQuoted && value[place] == UInt8(ascii: "\\") {
                // A quoted pair (RFC 9110 §5.6.4): the next byte means itself.
                isEscaped = true
            }
        }
        return (parts, isQuoted)
    }

    /// The value of `for` in one forwarded-element, without its quotes; nil when there's none.
    static func forParameter(_ element: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        for pair in split(element, at: UInt8(ascii: ";"), mindsQuotes: true).parts {
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")),
                ASCII.equals(UnsafeRawBufferPointer(rebasing: pair[..<equals]), ignoringCase: "for")
            else { continue }
            var value = UnsafeRawBufferPointer(rebasing: pair[(equals + 1)...])
            if value.count >= 2, value.first == UInt8(ascii: "\""), value.last == UInt8(ascii: "\"") {
                value = UnsafeRawBufferPointer(rebasing: value.dropFirst().dropLast())
            }
            return value
        }
        return nil
    }

    /// An address with or without a port: "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80". An escaped byte in it
    /// makes it unreadable; no address needs one.
    static func address(_ node: UnsafeRawBufferPointer) -> IPAddress? {
        if node.first == UInt8(ascii: "[") {
            guard let end = node.firstIndex(of: UInt8(ascii: "]")), isPort(node[(end + 1)...]) else { return nil }
            let inner = UnsafeRawBufferPointer(rebasing: node[1..<end])
            return inner.contains(UInt8(ascii: ":")) ? IPAddress(literal: inner) : nil
        }
        if let address = IPAddress(literal: node) { return address }
        guard let colon = node.firstIndex(of: UInt8(ascii: ":")), isPort(node[colon...]) else { return nil }
        return IPAddress(literal: UnsafeRawBufferPointer(rebasing: node[..<colon]))
    }

    /// Nothing, or a colon and one to five digits.
    private static func isPort(_ bytes: Slice<UnsafeRawBufferPointer>) -> Bool {
        bytes.isEmpty
            || (bytes.first == UInt8(ascii: ":") && (2...6).contains(bytes.count) && bytes.dropFirst().allSatisfy(ASCII.isDigit))
    }
}
