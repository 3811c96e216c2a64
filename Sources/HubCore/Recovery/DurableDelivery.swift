import HubBase
import HubWire

/// One publication on its way to several loops, and in the memory of its channel: shared, never changed, one allocation for all of them.
package final class DurableDelivery: Sendable {
    package let channel: Name
    package let publication: PositionedPublication

    package init(channel: Name, publication: PositionedPublication) {
        self.channel = channel
        self.publication = publication
    }
}
