import HubBase
import HubWire

/// What the shell must do for the members machine. Those with a `tag` of the machine's own space expect the store's answer to come back
/// through the input of the same name.
package enum MembersAction: Sendable, Equatable {
    // For the store.
    case change([MemberCount], channel: Name, known: MembersKnown, mayBeLate: Bool, tag: RequestTag)
    case refresh(channel: Name, role: MemberRole, known: MembersKnown, tag: RequestTag)
    case reap(node: Name, channel: Name, tag: RequestTag)
    case sweep(partition: Int, tag: RequestTag)
    case list(channel: Name, cursor: String, limit: Int, whole: Int, tag: RequestTag)

    // For the gateway's loops.
    /// One for each `follow`, in the order of its channels; nil where there's nothing to be had: the namespace keeps no members, or the store
    /// can't be asked. Whoever follows hears every `push` behind it, and none before.
    case followed([MembersPage?], tag: RequestTag)
    /// One for each `page`.
    case page(Result<MembersPage, WireError>, channel: Name, tag: RequestTag)
    /// For those who follow, on the loops whose bits are set.
    case push(MembersChange, loops: UInt64)
}
