package azure

import (
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
)

// networkClients are the clients of the network's resources that the adapter uses. The factory of
// the SDK must not be kept instead: the linker would then keep the clients of all resources.
type networkClients struct {
	asgs       *armnetwork.ApplicationSecurityGroupsClient
	interfaces *armnetwork.InterfacesClient
	addresses  *armnetwork.PublicIPAddressesClient
	nsgs       *armnetwork.SecurityGroupsClient
	tags       *armnetwork.ServiceTagsClient
	networks   *armnetwork.VirtualNetworksClient
}

func newNetworkClients(subscription string, credential azcore.TokenCredential, o *arm.ClientOptions) (c networkClients, err error) {
	if c.asgs, err = armnetwork.NewApplicationSecurityGroupsClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of ApplicationSecurityGroups: %w", err)
	}
	if c.interfaces, err = armnetwork.NewInterfacesClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of Interfaces: %w", err)
	}
	if c.addresses, err = armnetwork.NewPublicIPAddressesClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of PublicIPAddresses: %w", err)
	}
	if c.nsgs, err = armnetwork.NewSecurityGroupsClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of SecurityGroups: %w", err)
	}
	if c.tags, err = armnetwork.NewServiceTagsClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of ServiceTags: %w", err)
	}
	if c.networks, err = armnetwork.NewVirtualNetworksClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of VirtualNetworks: %w", err)
	}
	return c, nil
}
