import HubBase
