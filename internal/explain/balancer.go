package explain

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// balancerNotes say of packets to the front end of a load balancer from whom its targets see them
// come, which is what a policy on the targets must allow. Which targets there are, and whether a
// target group preserves the addresses of clients, is not read.
func balancerNotes(packets []passage) []string {
	var out []string
	for _, p := range packets {
		s := p.dst.Service()
		if s == nil {
			continue
		}
		var note string
		switch s.Kind {
		case cloud.ApplicationLoadBalancer:
			note = "This is the way to the load balancer " + s.Name + " only. Its targets see its own addresses, not the client's: " +
				"a policy on them must allow the balancer, at the port of the traffic and at that of the health checks."
		case cloud.NetworkLoadBalancer, cloud.GatewayLoadBalancer:
			note = "This is the way to the load balancer " + s.Name + " only. Its targets see the client where their group preserves client addresses, " +
				"else the balancer: a policy on them must allow whichever it is, and the balancer for the health checks in both cases."
		default:
			continue
		}
		if !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}
