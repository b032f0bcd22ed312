package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Verb is what a Step does.
type Verb uint8

// The verbs.
const (
	Add Verb = iota + 1
	Replace
	Remove
)

func (v Verb) String() string { return [...]string{"", "add", "replace", "remove"}[v] }

// Step is one change of the kernel. Exactly one of its objects is given.
type Step struct {
	Verb
	Device    *VXLAN
	End       *EndStep
	Route     *RouteStep
	Neighbour *NeighbourStep
	Forward   *ForwardStep
	Sealing   *Sealing
	Peer      *PeerStep
	Way       *Way
	Rule      *RuleStep
}

// EndStep brings a link to a Pod up, and gives it addresses that it lacks; or removes it.
type EndStep struct {
	Name string
	Add  []netip.Addr
}

// RouteStep is about a route.
type RouteStep struct {
	To netip.Prefix
	Route
}

// NeighbourStep is about the address of a link behind an address.
type NeighbourStep struct {
	Address netip.Addr
	MAC     MAC
}

// ForwardStep is about the Node behind an address of a link.
type ForwardStep struct {
	MAC MAC
	To  netip.Addr
}

// String is the step for people.
func (s Step) String() string {
	switch {
	case s.Device != nil:
		return fmt.Sprintf("%s the device of VXLAN %s, port %d, from %s, MTU %d", s.Verb, Device, s.Device.Port, s.Device.Local, s.Device.MTU)
	case s.End != nil && s.Verb == Remove:
		return fmt.Sprintf("remove the link %s to a Pod", s.End.Name)
	case s.End != nil:
		return fmt.Sprintf("bring up the link %s to a Pod, with %v", s.End.Name, s.End.Add)
	case s.Route != nil:
		text := fmt.Sprintf("%s the route to %s", s.Verb, s.Route.To)
		if s.Route.Via.IsValid() {
			text += " by " + s.Route.Via.String()
		}
		if s.Route.Link != "" {
			text += " over " + s.Route.Link
		}
		return text
	case s.Neighbour != nil:
		return fmt.Sprintf("%s the neighbour %s at %s", s.Verb, s.Neighbour.Address, s.Neighbour.MAC)
	case s.Forward != nil:
		return fmt.Sprintf("%s the way of %s to Node %s", s.Verb, s.Forward.MAC, s.Forward.To)
	}
	return cmp.Or(s.sealedText(), "nothing")
}

// Steps are what leads from what there is to what the plan wants.
func (p *Plan) Steps(is *State) []Step {
	steps := Difference(is, p.State)
	if p.besides {
		steps = slices.DeleteFunc(steps, func(s Step) bool { return s.sealedText() == "" })
	}
	if !p.Partial {
		return steps
	}
	return slices.DeleteFunc(steps, func(s Step) bool {
		return s.Verb == Remove || is.Device != nil && s.Device != nil || is.Sealing() != nil && s.Sealing != nil
	})
}

// Difference returns the steps from the present state to the wanted one. A dependency is added
// first and removed last: the devices, then their peers, then routes.
func Difference(is, want *State) []Step {
	out, last := sealedSteps(is, want)
	made := false
	switch {
	case want.Device == nil && is.Device != nil:
		last = append(last, Step{Verb: Remove, Device: is.Device})
	case want.Device == nil:
	case is.Device == nil:
		out, made = append(out, Step{Verb: Add, Device: want.Device}), true
	case !is.Device.sameTunnel(want.Device):
		// The kernel takes what was on the device with it.
		out, made = append(out, Step{Verb: Remove, Device: is.Device}, Step{Verb: Add, Device: want.Device}), true
	case !is.Device.equal(want.Device):
		out = append(out, Step{Verb: Replace, Device: want.Device})
	}
	neighbours, forwards := is.Neighbours, is.Forwards
	if made {
		neighbours, forwards = nil, nil
	}
	for _, mac := range slices.SortedFunc(maps.Keys(want.Forwards), compareMAC) {
		if to := want.Forwards[mac]; forwards[mac] != to {
			out = append(out, Step{Verb: verbOf(forwards, mac), Forward: &ForwardStep{mac, to}})
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(want.Neighbours), netip.Addr.Compare) {
		if mac := want.Neighbours[a]; neighbours[a] != mac {
			out = append(out, Step{Verb: verbOf(neighbours, a), Neighbour: &NeighbourStep{a, mac}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.Ends)) {
		now, end := is.Ends[name], want.Ends[name]
		missing := slices.DeleteFunc(slices.Clone(end.Addresses), func(a netip.Addr) bool { return slices.Contains(now.Addresses, a) })
		if !now.Up || len(missing) > 0 {
			out = append(out, Step{Verb: Replace, End: &EndStep{name, missing}})
		}
	}
	routes := maps.Clone(is.Routes)
	if made { // those over the device went with it
		maps.DeleteFunc(routes, func(_ netip.Prefix, r Route) bool { return r.Link == Device })
	}
	for _, to := range slices.SortedFunc(maps.Keys(want.Routes), netip.Prefix.Compare) {
		if r := want.Routes[to]; !sameRoute(routes, to, r) {
			out = append(out, Step{Verb: verbOf(routes, to), Route: &RouteStep{to, r}})
		}
	}
	for _, w := range slices.SortedFunc(maps.Keys(want.Ways), compareWays) {
		if w.Wrapped && (made || !is.Ways[w]) {
			out = append(out, Step{Verb: Add, Way: &w})
		}
	}
	for _, to := range slices.SortedFunc(maps.Keys(routes), netip.Prefix.Compare) {
		if _, wanted := want.Routes[to]; !wanted {
			out = append(out, Step{Verb: Remove, Route: &RouteStep{to, routes[to]}})
		}
	}
	if want.Device != nil { // else they go with the device
		for _, a := range slices.SortedFunc(maps.Keys(neighbours), netip.Addr.Compare) {
			if _, wanted := want.Neighbours[a]; !wanted {
				out = append(out, Step{Verb: Remove, Neighbour: &NeighbourStep{a, neighbours[a]}})
			}
		}
		for _, mac := range slices.SortedFunc(maps.Keys(forwards), compareMAC) {
			if _, wanted := want.Forwards[mac]; !wanted {
				out = append(out, Step{Verb: Remove, Forward: &ForwardStep{mac, forwards[mac]}})
			}
		}
	}
	return append(out, last...)
}

func compareMAC(a, b MAC) int { return cmp.Compare(string(a[:]), string(b[:])) }

func verbOf[K comparable, V any](there map[K]V, k K) Verb {
	if _, is := there[k]; is {
		return Replace
	}
	return Add
}

func (v *VXLAN) equal(o *VXLAN) bool {
	return v.sameTunnel(o) && v.MAC == o.MAC && v.MTU == o.MTU && slices.Equal(v.Addresses, o.Addresses)
}

// sameRoute reports whether a route is there. Over which link it leads is left to the kernel where
// that is not said.
func sameRoute(routes map[netip.Prefix]Route, to netip.Prefix, want Route) bool {
	is, there := routes[to]
	return there && is.Via == want.Via && is.Source == want.Source && (is.Link == want.Link || want.Link == "" && is.Link != Device)
}
