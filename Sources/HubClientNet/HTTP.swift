import HubClient
