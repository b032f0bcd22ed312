package agent

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/agent/nft"
)

// frontends returns where the Services are reached that wanted policies, or former ones that may
// have to stay, have as peers; nil if none are known.
func (a *Agent) frontends() map[string][]nft.Frontend {
	if a.options.Services == nil || a.wanted == nil {
		return nil
	}
	var node []netip.Addr
	if a.options.Pods != nil {
		node = a.options.Pods.Addresses()
	}
	policies := slices.AppendSeq(slices.Clone(a.wanted.Policies), maps.Values(a.compilation.good))
	if a.held() {
		policies = append(policies, a.probing.trial.former.Policies...)
	}
	return a.options.Services.Of(node, policies...)
}

func sameFrontends(a, b map[string][]nft.Frontend) bool {
	return (a == nil) == (b == nil) && maps.EqualFunc(a, b, func(x, y []nft.Frontend) bool { return slices.Equal(x, y) })
}

// balanced is where connections to Services go; nil if the agent does not lead them.
func (a *Agent) balanced() *nft.Balanced {
	if a.options.Balancing == nil || a.options.Network == nil {
		return nil
	}
	return a.options.Balancing.Current()
}

// led takes in that connections go where the program says. What goes elsewhere by what the kernel
// has learned before is forgotten: clients that stay with an endpoint, and connections of UDP,
// which have no end.
func (a *Agent) led(now *nft.Balanced) {
	former := a.force.leads
	a.force.leads = now
	if now == nil || now.Unknown || former == now {
		return
	}
	if former == nil || former.Unknown || now.Loses(former) {
		if n, err := a.options.Table.ForgetClients(now); err != nil {
			a.options.Log.Error(err, "Some clients may stay with endpoints that are gone")
		} else if n > 0 {
			a.options.Log.V(1).Info("Clients of endpoints that are gone were forgotten", "clients", n)
		}
	}
	if a.options.Connections == nil || !now.MovesDatagrams(former) {
		return
	}
	if n, err := a.options.Connections.ForgetDatagrams(former, now); err != nil {
		a.options.Log.Error(err, "Some connections of UDP may go on to endpoints that are gone")
	} else if n > 0 {
		a.options.Log.V(1).Info("Connections of UDP to endpoints that are gone were forgotten", "connections", n)
	}
}
