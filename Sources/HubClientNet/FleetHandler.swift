import HubBase
import HubClient
import HubNet
import HubWire

/// What an application of a `ClientFleet` hears. Called on the fleet's thread; it may call the fleet from within.
package protocol FleetHandler: AnyObject {
    /// How this client connects: path, query, headers (TLS is the route's affair). Asked at every attempt, so that a token can be a new one.
    func opening(for client: Int, to url: HubURL) -> ClientOpening
    /// The hub says that the token has expired. False: there's no other one, the client ends.
    func renewToken(for client: Int) -> Bool
    /// `message` is valid during the call only.
    func received(_ received: ClientMachine.Received, _ message: UnsafeRawBufferPointer, client: Int)
    /// A request of the application's own has no answer: it ran out of time, or the connection ended first.
    func unanswered(_ request: PendingRequest, isTimeout: Bool, client: Int)
    /// `wasOpen`: it had been welcomed.
    func ended(_ end: TransportEnd, _ after: ClientMachine.AfterEnd, wasOpen: Bool, client: Int)
    func timerFired(kind: UInt32, value: UInt64)
    /// Somebody woke the loop: a signal.
    func woken()
    /// The last moment of a turn to send something.
    func turnEnding()
}
