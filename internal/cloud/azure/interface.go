package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

const (
	callInterface     = "Microsoft.Network/networkInterfaces/write"
	callReadInterface = "Microsoft.Network/networkInterfaces/read"
	callReadPublic    = "Microsoft.Network/publicIPAddresses/read"
)

// setInterfaceGroups does OpSetInterfaceGroups. Of network security groups an interface has one:
// somebody else's if a view is named, else ours. Of the application security groups only ours are
// changed; all others stay, so that what they mean to others never changes.
func (a *Account) setInterfaceGroups(ctx context.Context, op cloud.Op) error {
	var foreign, ours []string
	for _, id := range op.GroupIDs {
		if group, view := resources.GroupOfView(id); view {
			foreign = append(foreign, group)
		} else if resources.IdentityOf(id) != "" && a.owns(id) {
			ours = append(ours, id)
		} else {
			return refuse(op, "%s is neither a group of ours nor what another group means to the interface", cloud.Words(id))
		}
	}
	switch {
	case len(op.GroupNames) > 0:
		return refuse(op, "the groups %s have no id yet", strings.Join(op.GroupNames, ", "))
	case len(foreign) > 1 || len(foreign) == 0 && len(ours) != 1:
		return refuse(op, "an interface has one network security group, not %d of ours and %d others", len(ours), len(foreign))
	}
	wanted := ""
	if len(foreign) > 0 {
		wanted = foreign[0]
	} else {
		wanted = ours[0]
	}
	return a.writeInterface(ctx, op.Target, func(n armnetwork.Interface) (armnetwork.Interface, bool, error) {
		var identities []string
		for _, g := range ours {
			identities = append(identities, resources.IdentityOf(g))
		}
		kept, err := a.othersOf(ctx, n)
		if err != nil {
			return n, false, err
		}
		nsg := wanted
		if len(foreign) > 0 && nsg != "" {
			if nsg, err = a.givenBack(ctx, &n, nsg); err != nil {
				return n, false, err
			}
		}
		return withGroups(n, nsg, append(kept, identities...))
	})
}

// givenBack is the network security group that an interface gets back, as the interface remembers
// it. One that its owner has deleted cannot be given back: without any, the platform lets in what
// Azure's default rules do, unless an address of the Basic kind is open to everybody. That is
// refused, in words that say what helps.
func (a *Account) givenBack(ctx context.Context, n *armnetwork.Interface, group string) (string, error) {
	at, err := a.place(group)
	if err != nil {
		return "", err
	}
	_, err = a.network.nsgs.Get(ctx, at.Group, at.Name, nil)
	if err == nil {
		return a.spellings.givenBackAs(n, group), nil
	}
	if err = classify(callReadNSG, err, a.cfg.Now()); cloud.ClassOf(err) != cloud.NotFound {
		return "", err
	}
	open, err := a.openWithoutGroup(ctx, n)
	if err != nil || open == "" {
		return "", err
	}
	return "", &cloud.Error{Class: cloud.Terminal, Call: callInterface, Err: fmt.Errorf(
		"the network security group %s that it had was deleted, and without one its address %s of the Basic kind would be open to everybody: "+
			"create a group of this name in the resource group %s, and the interface gets it back", at.Name, open, at.Group)}
}

// openWithoutGroup is a public address of the Basic kind of the interface; empty if it has none.
func (a *Account) openWithoutGroup(ctx context.Context, n *armnetwork.Interface) (string, error) {
	if n.Properties == nil {
		return "", nil
	}
	for _, c := range n.Properties.IPConfigurations {
		if c == nil || c.Properties == nil || c.Properties.PublicIPAddress == nil || c.Properties.PublicIPAddress.ID == nil {
			continue
		}
		at, err := a.place(*c.Properties.PublicIPAddress.ID)
		if err != nil {
			return "", err
		}
		p, err := a.network.addresses.Get(ctx, at.Group, at.Name, nil)
		if err != nil {
			return "", classify(callReadPublic, err, a.cfg.Now())
		}
		if p.SKU == nil || p.SKU.Name == nil || *p.SKU.Name == armnetwork.PublicIPAddressSKUNameBasic {
			return at.Name, nil
		}
	}
	return "", nil
}

// othersOf are the application security groups of an interface that are not ours. One whose name is
// like ours is looked at.
func (a *Account) othersOf(ctx context.Context, n armnetwork.Interface) ([]string, error) {
	var out []string
	if n.Properties == nil || len(n.Properties.IPConfigurations) == 0 || n.Properties.IPConfigurations[0] == nil || n.Properties.IPConfigurations[0].Properties == nil {
		return nil, nil // refused later
	}
	for _, g := range n.Properties.IPConfigurations[0].Properties.ApplicationSecurityGroups {
		if g == nil || g.ID == nil {
			continue
		}
		if resources.RulesOf(*g.ID) != "" {
			at, err := a.place(*g.ID)
			if err != nil {
				return nil, err
			}
			now, err := a.network.asgs.Get(ctx, at.Group, at.Name, nil)
			if err != nil {
				return nil, classify(callReadASG, err, a.cfg.Now())
			}
			if resources.PortTags(now.Tags)[cloud.TagCluster] == a.cfg.Cluster {
				continue
			}
		}
		out = append(out, *g.ID)
	}
	return out, nil
}

// SetInterfaceGroups gives an interface this network security group (none if empty) and these
// application security groups, on every IP configuration, in one PUT; everything else stays as it
// is at that moment. An interface that has them already is not written. If somebody writes it at
// the same time, it is a Conflict.
func (a *Account) SetInterfaceGroups(ctx context.Context, id, nsg string, asgs []string) error {
	return a.writeInterface(ctx, id, func(n armnetwork.Interface) (armnetwork.Interface, bool, error) { return withGroups(n, nsg, asgs) })
}

// writeInterface writes an interface as change makes it of what it is at that moment, if that is
// another one.
func (a *Account) writeInterface(ctx context.Context, id string, change func(armnetwork.Interface) (armnetwork.Interface, bool, error)) error {
	at, err := a.place(id)
	if err != nil {
		return err
	}
	if at.Kind != resources.TypeNIC {
		return &cloud.Error{Class: cloud.Terminal, Call: callInterface, Err: errors.New(id + " is not a network interface")}
	}
	client := a.network.interfaces
	now, err := client.Get(ctx, at.Group, at.Name, nil)
	if err != nil {
		return classify(callReadInterface, err, a.cfg.Now())
	}
	next, changed, err := change(now.Interface)
	if err != nil || !changed {
		return err
	}
	if now.Etag == nil || *now.Etag == "" {
		return &cloud.Error{Class: cloud.Unavailable, Call: callInterface, Err: errors.New("the cloud has told no etag of the interface, without which it could be overwritten")}
	}
	conditional := policy.WithHTTPHeader(ctx, http.Header{"If-Match": []string{*now.Etag}})
	poller, err := client.BeginCreateOrUpdate(conditional, at.Group, at.Name, next, nil)
	if err == nil {
		// The condition is for the writing only.
		_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: max(a.cfg.PollEvery, time.Second)})
	}
	return classify(callInterface, err, a.cfg.Now())
}

// withGroups is an interface with other groups, and whether that is a change. What was read is not
// changed but for its properties.
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
