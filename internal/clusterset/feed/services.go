package feed

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

// An exported Service is reported as the endpoints that serve it, each with its own ports: the Pods
// that it selects, also those in the network of their Node, its load balancers and, for type
// NodePort, the Nodes. The cluster IP means nothing in other clusters.

// Export is a Service that is exported.
type Export struct {
	policy.NamespacedName
	// Selector selects the Pods behind it by their labels. An empty one selects none: then
	// Endpoints are what somebody has written down as such.
	Selector  map[string]string
	Endpoints []Endpoint
	Ports     []ExportedPort
	// Balancers are the addresses of its load balancers; OnNodes says that it has ports of Nodes.
	Balancers []netip.Addr
	OnNodes   bool
}

// ExportedPort is a port of a Service: its number, that of the Pods or its name there, and that of
// the Nodes.
type ExportedPort struct {
	Protocol   policy.Protocol
	Port       int32
	Target     int32
	TargetName string
	Node       int32
}

// Endpoint is an address that serves a Service without selector, and the ports at which it does.
type Endpoint struct {
	Address netip.Addr
	Ports   []ServedPort
}

// ServedPort is a port at which something is served.
type ServedPort struct {
	Protocol policy.Protocol
	Port     int32
}

// MaxEndpoints is how many written endpoints of one Service are reported.
const MaxEndpoints = 1000

type export struct {
	Export
	// parts are the endpoints that are reported, by the workload.
	parts map[wire.Ref]wire.Ref
}

// podName is a label that each Pod of a StatefulSet has for itself, and that the feed leaves out:
// Services of single Pods select by it.
const podName = "statefulset.kubernetes.io/pod-name"

// PutExport notes a Service that is exported.
func (f *Feed) PutExport(e *Export) {
	x := f.exports[e.Namespace][e.Name]
	if x == nil {
		x = &export{parts: map[wire.Ref]wire.Ref{}}
		if f.exports[e.Namespace] == nil {
			f.exports[e.Namespace] = map[string]*export{}
		}
		f.exports[e.Namespace][e.Name] = x
	}
	x.Export = *e
	f.part(x, wire.Ref{}, wire.PartOfBalancers, x.balancers())
	f.written(x)
	// What is behind a Service changes the entities.
	var workloads []wire.Ref
	for e := range f.entities.entities.All() {
		if e.ref.Kind != wire.Service {
			workloads = append(workloads, e.ref)
		}
	}
	for _, ref := range workloads {
		f.behind(x, ref)
	}
	for ref := range f.hosted {
		f.behind(x, ref)
	}
}

// DropExport notes that a Service is not exported any more.
func (f *Feed) DropExport(name policy.NamespacedName) {
	x := f.exports[name.Namespace][name.Name]
	if x == nil {
		return
	}
	for of := range x.parts {
		f.part(x, of, "", nil)
	}
	if delete(f.exports[name.Namespace], name.Name); len(f.exports[name.Namespace]) == 0 {
		delete(f.exports, name.Namespace)
	}
}

// TakeServed returns the Services that are or were exported and of which something has changed
// since the last time.
func (f *Feed) TakeServed() []policy.NamespacedName {
	out := slices.Collect(maps.Keys(f.served))
	clear(f.served)
	return out
}

// Serving returns the endpoints of an exported Service, as members of its remote group are written.
func (f *Feed) Serving(name policy.NamespacedName) []string {
	x := f.exports[name.Namespace][name.Name]
	if x == nil {
		return nil
	}
	var out []string
	for _, ref := range x.parts {
		e := f.entities.of(ref)
		m := wire.RemoteMember{Addresses: e.addresses}
		for _, p := range e.ports {
			m.Ports = append(m.Ports, wire.Port{Name: peers.PortOf(name), Protocol: p.Protocol, Port: p.Port})
		}
		out = append(out, m.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// follow takes over for exported Services what has become of a workload.
func (f *Feed) follow(ref wire.Ref) {
	switch ref.Kind {
	case wire.Pod:
		for _, x := range f.exports[ref.Namespace] {
			f.behind(x, ref)
		}
	case wire.Node:
		for _, in := range f.exports {
			for _, x := range in {
				f.behind(x, ref)
			}
		}
	}
}

// behind makes a Pod or a Node a part of a Service if it is one, and no part otherwise.
func (f *Feed) behind(x *export, ref wire.Ref) {
	switch {
	case ref.Kind == wire.Pod && ref.Namespace == x.Namespace:
		f.part(x, ref, ref.Name, x.pod(cmp.Or(f.entities.of(ref), f.hosted[ref])))
	case ref.Kind == wire.Node:
		f.part(x, ref, wire.PartOfNode+ref.Name, x.node(f.entities.of(ref)))
	}
}

// part makes a workload a part of a Service, at these addresses and ports; nil if it is none.
func (f *Feed) part(x *export, of wire.Ref, name string, is *entity) {
	at, was := x.parts[of]
	if is == nil || len(is.addresses) == 0 || len(is.ports) == 0 {
		if was {
			f.drop(at)
			delete(x.parts, of)
			f.served[x.NamespacedName] = struct{}{}
		}
		return
	}
	ref := wire.Ref{Kind: wire.Service, Namespace: x.Namespace, Name: x.Name + "." + name}
	is.ref = ref
	x.parts[of] = ref
	if f.put(is) {
		f.served[x.NamespacedName] = struct{}{}
	}
}

// pod is a Pod as a part of the Service; nil if it is none.
func (x *export) pod(e *entity) *entity {
	if e == nil || len(x.Selector) == 0 {
		return nil
	}
	for k, v := range x.Selector {
		switch has, is := e.label(k); {
		case k == podName && v == e.ref.Name:
		case !is || has != v:
			return nil
		}
	}
	out := &entity{addresses: e.addresses}
	for _, p := range x.Ports {
		number := p.Target
		for _, named := range e.ports {
			if p.TargetName != "" && named.Name == p.TargetName && named.Protocol == string(p.Protocol) {
				number = named.Port
			}
		}
		out.ports = serving(out.ports, p.Protocol, number)
	}
	return out
}

func (e *entity) label(key string) (string, bool) {
	if e.set == nil {
		return "", false
	}
	v, is := e.set.labels[key]
	return v, is
}

// node is a Node as a part of the Service.
func (x *export) node(e *entity) *entity {
	if e == nil || !x.OnNodes {
		return nil
	}
	out := &entity{addresses: e.addresses}
	for _, p := range x.Ports {
		out.ports = serving(out.ports, p.Protocol, p.Node)
	}
	return out
}

// written makes the endpoints that somebody has written down the only ones of their kind.
func (f *Feed) written(x *export) {
	at := func(a netip.Addr) wire.Ref { return wire.Ref{Kind: wire.Service, Name: a.String()} }
	stay := map[wire.Ref]bool{}
	if len(x.Selector) == 0 {
		for _, e := range x.Endpoints[:min(len(x.Endpoints), MaxEndpoints)] {
			is := &entity{addresses: []netip.Addr{e.Address}}
			for _, p := range e.Ports {
				is.ports = serving(is.ports, p.Protocol, p.Port)
			}
			stay[at(e.Address)] = true
			f.part(x, at(e.Address), wire.PartOfSlice+e.Address.String(), is)
		}
	}
	for of := range x.parts {
		if of.Kind == wire.Service && !stay[of] {
			f.part(x, of, "", nil)
		}
	}
}

// balancers are the load balancers as a part of the Service.
func (x *export) balancers() *entity {
	out := &entity{addresses: x.Balancers[:min(len(x.Balancers), wire.MaxAddresses)]}
	for _, p := range x.Ports {
		out.ports = serving(out.ports, p.Protocol, p.Port)
	}
	return out
}

// serving adds a port, unless there is none of the number, or it is there.
func serving(all []wire.Port, protocol policy.Protocol, number int32) []wire.Port {
	p := wire.Port{Name: "p", Protocol: string(protocol), Port: number}
	if number < 1 || len(all) == wire.MaxPorts || slices.Contains(all, p) {
		return all
	}
	return append(all, p)
}
