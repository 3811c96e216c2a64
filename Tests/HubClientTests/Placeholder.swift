import Testing
import HubClient
