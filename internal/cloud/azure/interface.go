package azure

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/nephele-io/nephele/internal/cloud"
)

const callInterface = "Microsoft.Network/networkInterfaces/write"

// SetInterfaceGroups gives an interface this network security group (none if empty) and these application security groups, on every IP configuration,
// in one PUT; everything else stays as it is at that moment. An interface that has them already is not written. If somebody writes it at the
// same time, it is a Conflict.
func (a *Account) SetInterfaceGroups(ctx context.Context, id, nsg string, asgs []string) error {
	at, err := a.place(id)
	if err != nil {
		return err
	}
	if at.kind != typeNIC {
		return &cloud.Error{Class: cloud.Terminal, Call: callInterface, Err: errors.New(id + " is not a network interface")}
	}
	client := a.network.NewInterfacesClient()
	now, err := client.Get(ctx, at.group, at.name, nil)
	if err != nil {
		return classify("Microsoft.Network/networkInterfaces/read", err, a.cfg.Now())
	}
	next, changed, err := withGroups(now.Interface, nsg, asgs)
	if err != nil || !changed {
		return err
	}
	if now.Etag == nil || *now.Etag == "" {
		return &cloud.Error{Class: cloud.Unavailable, Call: callInterface, Err: errors.New("the cloud has told no etag of the interface, without which it could be overwritten")}
	}
	conditional := policy.WithHTTPHeader(ctx, http.Header{"If-Match": []string{*now.Etag}})
	poller, err := client.BeginCreateOrUpdate(conditional, at.group, at.name, next, nil)
	if err == nil {
		// The condition is for the writing only.
		_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: max(a.cfg.PollEvery, time.Second)})
	}
	return classify(callInterface, err, a.cfg.Now())
}

// withGroups is an interface with other groups, and whether that is a change. What was read is not changed but for its properties.
func withGroups(n armnetwork.Interface, nsg string, asgs []string) (armnetwork.Interface, bool, error) {
	if n.Properties == nil || len(n.Properties.IPConfigurations) == 0 {
		return n, false, &cloud.Error{Class: cloud.Terminal, Call: callInterface, Err: errors.New("the interface has no IP configuration")}
	}
	changed := false
	was := ""
	if g := n.Properties.NetworkSecurityGroup; g != nil && g.ID != nil {
		was = *g.ID
	}
	if !strings.EqualFold(was, nsg) {
		changed = true
		n.Properties.NetworkSecurityGroup = nil
		if nsg != "" {
			n.Properties.NetworkSecurityGroup = &armnetwork.SecurityGroup{ID: to.Ptr(nsg)}
		}
	}
	for _, c := range n.Properties.IPConfigurations {
		if c == nil || c.Properties == nil {
			return n, false, &cloud.Error{Class: cloud.Terminal, Call: callInterface, Err: errors.New("the interface has an IP configuration without properties")}
		}
		var have []string
		for _, g := range c.Properties.ApplicationSecurityGroups {
			if g != nil && g.ID != nil {
				have = append(have, *g.ID)
			}
		}
		if sameIDs(have, asgs) {
			continue
		}
		changed = true
		c.Properties.ApplicationSecurityGroups = nil
		for _, id := range asgs {
			c.Properties.ApplicationSecurityGroups = append(c.Properties.ApplicationSecurityGroups, &armnetwork.ApplicationSecurityGroup{ID: to.Ptr(id)})
		}
	}
	return n, changed, nil
}

// sameIDs compares two sets of ids.
func sameIDs(a, b []string) bool {
	fold := func(all []string) []string {
		out := make([]string, len(all))
		for i := range all {
			out[i] = strings.ToLower(all[i])
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return slices.Equal(fold(a), fold(b))
}
