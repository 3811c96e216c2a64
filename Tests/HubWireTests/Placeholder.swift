import Testing
import HubWire
