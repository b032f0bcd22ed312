package kernel_test

import (
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestRemotePeersOnNodes: what a policy of the hub means of another cluster is what passes on a
// Node, at the cluster of the destination, which judges what comes in, and at that of the source,
// which judges what leaves; over relabelling in the other cluster. So it is with a Service that the
// other cluster exports, whose Pods serve it at the one port.
func TestRemotePeersOnNodes(t *testing.T) {
	c := newCluster(t)
	var compiler nft.Compiler
	web := policy.Peer{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}, NamespaceSelector: &policy.Selector{}, Scope: peers.ScopeClusterSet}
	rule := policy.Rule{Name: "r", Action: policy.Allow, Peers: []policy.Peer{web}, Ports: []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 80}}}}
	service := policy.NamespacedName{Namespace: "x", Name: "db"}
	for _, way := range []string{"ingress", "egress", "service"} {
		egress := way != "ingress"
		p := policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "hub-p", UID: "u", Tier: "application", Priority: 5, Set: true,
			AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{MatchLabels: map[string]string{"pod": "a"}}, NamespaceSelector: &policy.Selector{MatchLabels: map[string]string{"ns": "x"}}}}}
		if p.Ingress = []policy.Rule{rule, {Name: "rest", Action: policy.Drop}}; egress {
			p.Ingress, p.Egress = nil, p.Ingress
		}
		if way == "service" {
			p.Egress[0].Peers, p.Egress[0].Ports = nil, nil
			p.Egress[0].ToServices = []policy.ServicePeer{{Namespace: service.Namespace, Name: service.Name, Scope: peers.ScopeClusterSet}}
		}
		w := newCaseWorld(homes(c.Lab))
		elsewhere := []string{"x/c", "y/b"} // Pods of the other cluster, of which this one knows no more than addresses
		for _, name := range append(elsewhere, "z/b") {
			delete(w.pods, name)
		}
		e := &caseEngine{engine: compute.New(compute.Options{}), store: watchstore.New(watchstore.Options{})}
		if err := e.tell(w); err != nil {
			t.Fatal(err)
		}
		e.engine.PutPolicy(peers.Localize(p))
		book := remote.New(peers.Allows)
		for at, chosen := range [][]string{{"x/c"}, {"y/b"}, {"x/c", "y/b"}, {}} {
			part := wire.Part{Group: peers.Groups(&p)[0].ID, Cluster: "other", Whole: true}
			for _, name := range chosen {
				m := wire.RemoteMember{Addresses: w.places[name].addresses}
				if way == "service" {
					m.Ports = []wire.Port{{Name: peers.PortOf(service), Protocol: "TCP", Port: 80}}
				}
				part.Add = append(part.Add, m.String())
			}
			if err := book.Apply(&part); err != nil {
				t.Fatal(err)
			}
			change, _ := book.Take()
			for _, entity := range change.Put {
				e.engine.PutEntity(entity)
			}
			for _, ref := range change.Gone {
				e.engine.DeleteEntity(ref)
			}
			e.store.Publish(convert.Delta(e.engine.Commit()))
			computed, err := e.computed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			result := compiler.Compile(nft.Input{Computed: computed, Node: w.node()})
			if len(result.Refusals) > 0 {
				t.Fatal(result.Refusals)
			}
			if _, err := c.table.Apply(result.Program); err != nil {
				t.Fatal(err)
			}
			if err := c.Node.Handle.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			for _, other := range elsewhere {
				for _, six := range []bool{false, true} {
					for _, port := range []int32{80, 81} {
						f := caseFlow{from: other, to: "x/a", port: port, six: six}
						if egress {
							f.from, f.to = f.to, f.from
						}
						want := port == 80 && slices.Contains(chosen, other)
						limit := patient
						if !want {
							limit = soon
						}
						a := nfttest.Attempt{From: w.places[f.from].host, Network: "tcp", Source: netip.AddrPortFrom(w.addressOf(f.from, six), uint16(c.port.Add(1))),
							Destination: netip.AddrPortFrom(w.addressOf(f.to, six), uint16(port))}
						running.Go(func() {
							if got, err := a.Run(limit); err != nil || (got == nfttest.Passed) != want {
								t.Errorf("%s, step %d: %+v (%s): %s, %v, want it to pass: %t", way, at, f, a, got, err, want)
							}
						})
					}
				}
			}
			running.Wait()
		}
	}
}
