import Testing
import HubGateway
