package noderoutes

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// world is a region as a cloud keeps it, and what its owner wants.
type world struct {
	wish   Wish
	tables map[string]*cloud.RouteTable
	nics   map[string]*cloud.Forwarder
}

func (w *world) found() Found {
	var f Found
	for _, t := range w.tables {
		c := *t
		c.Routes = slices.Clone(t.Routes)
		f.Tables = append(f.Tables, c)
	}
	for _, n := range w.nics {
		f.Forwarders = append(f.Forwarders, *n)
	}
	return f
}

// do does an operation as the port promises.
func (w *world) do(op cloud.RouteOp) error {
	t := w.tables[op.Table]
	at := -1
	if t != nil {
		at = slices.IndexFunc(t.Routes, func(r cloud.Route) bool { return r.Destination == op.Destination })
	}
	switch op.Kind {
	case cloud.RouteOpForward:
		w.nics[op.Interface].Forwards = op.Forwards
	case cloud.RouteOpClaim:
		if t.Tags[cloud.TagNodeRoutes] != "" {
			return fmt.Errorf("%s is claimed already", op.Table)
		}
		t.Tags = map[string]string{cloud.TagNodeRoutes: op.Claim}
	case cloud.RouteOpUnclaim:
		t.Tags = nil
	case cloud.RouteOpPut:
		switch {
		case at < 0:
			t.Routes = append(t.Routes, cloud.Route{Destination: op.Destination, Interface: op.Interface})
		case t.Routes[at].Interface == "":
			return fmt.Errorf("%s leads to %s", op.Destination, t.Routes[at].Other)
		default:
			t.Routes[at].Interface = op.Interface
		}
	case cloud.RouteOpDelete:
		if at < 0 || t.Routes[at].Interface != op.Interface {
			return fmt.Errorf("%s is not there", op)
		}
		t.Routes = slices.Delete(t.Routes, at, at+1)
	}
	return nil
}

// expected is what a table should have, worked out route by route from what documentation says.
func (w *world) expected(t *cloud.RouteTable) map[netip.Prefix]string {
	out := map[netip.Prefix]string{}
	var mine []netip.Prefix
	mine = append(append(mine, w.wish.Tables[t.ID]...), w.wish.Former[t.ID]...)
	inside := func(p netip.Prefix, all []netip.Prefix) bool {
		for _, r := range all {
			if r.Overlaps(p) && r.Bits() <= p.Bits() {
				return true
			}
		}
		return false
	}
	for _, r := range t.Routes {
		if r.Interface == "" {
			out[r.Destination] = r.Other
		} else if !inside(r.Destination, mine) || len(w.wish.Tables[t.ID]) > 0 && len(w.wish.Nodes) == 0 {
			out[r.Destination] = r.Interface
		}
	}
	for _, n := range w.wish.Nodes {
		for _, c := range n.PodCIDRs {
			older := slices.ContainsFunc(w.wish.Nodes, func(o Node) bool {
				return o.Name != n.Name && (o.Created.Before(n.Created) || o.Created.Equal(n.Created) && o.Name < n.Name) &&
					slices.ContainsFunc(o.PodCIDRs, func(x netip.Prefix) bool { return x.Overlaps(c) })
			})
			if older || !inside(c, w.wish.Tables[t.ID]) {
				continue
			}
			for _, nic := range w.nics {
				if nic.NetworkID == t.NetworkID && (n.VM == "" || n.VM == nic.VMID) && slices.Contains(nic.Addresses, n.Addresses[0]) {
					if _, foreign := out[c]; !foreign || !strings.HasPrefix(out[c], "igw-") {
						out[c] = nic.ID
					}
				}
			}
		}
	}
	return out
}

func randomWorld(r *rand.Rand) *world {
	w := &world{tables: map[string]*cloud.RouteTable{}, nics: map[string]*cloud.Forwarder{}}
	w.wish = Wish{Cluster: "us", Tables: map[string][]netip.Prefix{}, Former: map[string][]netip.Prefix{}}
	pods := func() netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(244 + r.IntN(2)), byte(r.IntN(6)), 0}), 24)
	}
	all := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.245.0.0/16")}
	for i := range 1 + r.IntN(5) {
		id := fmt.Sprintf("eni-%d", i)
		w.nics[id] = &cloud.Forwarder{
			ID: id, VMID: fmt.Sprintf("i-%d", i), NetworkID: []string{"vpc-1", "vpc-1", "vpc-2"}[r.IntN(3)],
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 16, 0, byte(10 + i)})}, Forwards: r.IntN(2) == 0,
		}
		if r.IntN(3) == 0 {
			w.wish.TurnedOff = append(w.wish.TurnedOff, id)
		}
	}
	for i := range r.IntN(6) {
		n := Node{Name: fmt.Sprintf("node-%d", i), Created: time.Unix(int64(r.IntN(4)), 0), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 16, 0, byte(10 + i)})}}
		if r.IntN(2) == 0 {
			n.VM = fmt.Sprintf("i-%d", r.IntN(i+1))
		}
		for range 1 + r.IntN(2) {
			if c := pods(); !slices.ContainsFunc(n.PodCIDRs, c.Overlaps) {
				n.PodCIDRs = append(n.PodCIDRs, c)
			}
		}
		w.wish.Nodes = append(w.wish.Nodes, n)
	}
	for i := range 1 + r.IntN(3) {
		t := &cloud.RouteTable{ID: fmt.Sprintf("rtb-%d", i), NetworkID: "vpc-1"}
		if claim := []string{"", "", "us", "them"}[r.IntN(4)]; claim != "" {
			t.Tags = map[string]string{cloud.TagNodeRoutes: claim}
		}
		if r.IntN(4) > 0 {
			w.wish.Tables[t.ID] = all[:1+r.IntN(2)]
		}
		if r.IntN(2) == 0 {
			w.wish.Former[t.ID] = all[r.IntN(2):]
		}
		t.Routes = append(t.Routes, cloud.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Other: "igw-1"})
		for range r.IntN(5) {
			route := cloud.Route{Destination: pods(), Interface: fmt.Sprintf("eni-%d", r.IntN(6))}
			if r.IntN(4) == 0 {
				route.Interface, route.Other = "", "igw-1"
			}
			if r.IntN(5) == 0 {
				route.Destination = netip.MustParsePrefix("192.168.0.0/24")
			}
			if !slices.ContainsFunc(t.Routes, func(x cloud.Route) bool { return x.Destination == route.Destination }) {
				t.Routes = append(t.Routes, route)
			}
		}
		w.tables[t.ID] = t
	}
	return w
}

// TestRandomRoutes: the operations lead from any state to the wanted one; no packet is led to an
// interface that would not take it; what is somebody else's stays; and a process that ends between
// two operations leaves what the next one brings to the same end.
func TestRandomRoutes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for n := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, n))
		w := randomWorld(r)
		want := map[string]map[netip.Prefix]string{}
		for id, table := range w.tables {
			want[id] = w.expected(table)
			if table.Tags[cloud.TagNodeRoutes] == "them" {
				want[id] = map[netip.Prefix]string{}
				for _, x := range table.Routes {
					want[id][x.Destination] = x.Interface + x.Other
				}
			}
			if len(w.wish.Tables[id])+len(w.wish.Former[id]) == 0 {
				want[id] = nil
			}
		}
		crash := r.IntN(6)
		for round := 0; ; round++ {
			p := Compute(w.wish, w.found())
			if len(p.Ops) == 0 && round > 0 {
				break
			}
			if round > 7 {
				t.Fatalf("seed %d world %d: no end: %v", seed, n, p.Ops)
			}
			for i, op := range p.Ops {
				if round == 0 && i == crash {
					break
				}
				if err := w.do(op); err != nil {
					t.Fatalf("seed %d world %d: %s: %v", seed, n, op, err)
				}
				if nic := w.nics[op.Interface]; op.Kind == cloud.RouteOpPut && !nic.Forwards {
					t.Fatalf("seed %d world %d: %s leads to an interface that takes no such packets", seed, n, op)
				}
			}
			// What was intended is written down before anything is done.
			w.wish.TurnedOff = slices.Compact(slices.Sorted(slices.Values(append(w.wish.TurnedOff, p.Forwarders...))))
		}
		for id, routes := range want {
			if routes == nil {
				continue
			}
			got := map[netip.Prefix]string{}
			for _, x := range w.tables[id].Routes {
				got[x.Destination] = x.Interface + x.Other
			}
			if fmt.Sprint(got) != fmt.Sprint(routes) {
				t.Fatalf("seed %d world %d: table %s has %v, want %v; %+v", seed, n, id, got, routes, w.wish)
			}
			claim := w.tables[id].Tags[cloud.TagNodeRoutes]
			if asked := len(w.wish.Tables[id]) > 0; claim != "them" && (claim == "us") != asked {
				t.Fatalf("seed %d world %d: table %s is claimed by %q, asked for: %t", seed, n, id, claim, asked)
			}
		}
	}
}

// TestProblems: what cannot be routed is reported in a sentence that names it.
func TestProblems(t *testing.T) {
	pods, node := netip.MustParsePrefix, netip.MustParseAddr
	nic := func(id, vm, vpc, a string) cloud.Forwarder {
		return cloud.Forwarder{ID: id, VMID: vm, NetworkID: vpc, Addresses: []netip.Addr{node(a)}, Forwards: true}
	}
	p := Compute(Wish{
		Cluster: "us", Tables: map[string][]netip.Prefix{"rtb-1": {pods("10.244.0.0/16")}, "rtb-2": {pods("10.244.0.0/16")}},
		Nodes: []Node{
			{Name: "a", Created: time.Unix(1, 0), Addresses: []netip.Addr{node("172.16.0.1")}, PodCIDRs: []netip.Prefix{pods("10.244.1.0/24")}},
			{Name: "b", Created: time.Unix(2, 0), Addresses: []netip.Addr{node("172.16.0.2")}, PodCIDRs: []netip.Prefix{pods("10.244.1.128/25")}},
			{Name: "c", Created: time.Unix(3, 0), VM: "i-3", Addresses: []netip.Addr{node("172.16.0.3")}, PodCIDRs: []netip.Prefix{pods("10.244.3.0/24")}},
			{Name: "d", Created: time.Unix(4, 0), Addresses: []netip.Addr{node("172.16.0.4")}, PodCIDRs: []netip.Prefix{pods("10.99.0.0/24")}},
			{Name: "e", Created: time.Unix(5, 0), Addresses: []netip.Addr{node("172.16.0.5")}, PodCIDRs: []netip.Prefix{pods("10.244.5.0/24")}},
		},
	}, Found{
		Tables: []cloud.RouteTable{
			{ID: "rtb-1", NetworkID: "vpc-1", Tags: map[string]string{cloud.TagNodeRoutes: "us"}, Routes: []cloud.Route{{Destination: pods("10.244.5.0/24"), Other: "tgw-1"}}},
			{ID: "rtb-2", NetworkID: "vpc-1", Tags: map[string]string{cloud.TagNodeRoutes: "them"}},
		},
		Forwarders: []cloud.Forwarder{
			nic("eni-1", "i-1", "vpc-1", "172.16.0.1"), nic("eni-2", "i-2", "vpc-1", "172.16.0.2"), nic("eni-3", "i-3", "vpc-2", "172.16.0.3"),
			nic("eni-4", "i-4", "vpc-1", "172.16.0.4"), nic("eni-5", "i-5", "vpc-1", "172.16.0.5"),
		},
	})
	want := []string{
		"Node b: its podCIDR 10.244.1.128/25 overlaps 10.244.1.0/24 of Node a, which is older: it is not routed",
		"Node c: its interface is in vpc-2; route table rtb-1 of vpc-1 cannot lead there",
		"Node d: its podCIDR 10.99.0.0/24 is in none of the clusterCIDRs of the account: it is not routed",
		"route table rtb-1: 10.244.5.0/24 leads to tgw-1 already, and not to a Node: remove that route, or leave the range out of clusterCIDRs",
		"route table rtb-2: the control plane them writes its routes; nothing is changed (if that one is gone, remove the tag nephele.io/node-routes)",
	}
	if !slices.Equal(p.Problems, want) {
		t.Errorf("problems:\n%s", strings.Join(p.Problems, "\n"))
	}
	if ops := fmt.Sprint(p.Ops); ops != "[PutRoute rtb-1 10.244.1.0/24 to eni-1]" || !p.Claimed {
		t.Errorf("%s, claimed %t", ops, p.Claimed)
	}
}
