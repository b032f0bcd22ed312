package union

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

func made(name string, pods ...string) *setv1alpha1.Cluster {
	c := &setv1alpha1.Cluster{}
	c.Name, c.Spec.Addresses.Pods = name, pods
	return c
}

func addresses(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// served makes the entity a part of a Service, at an address.
func served(name, address string) func(*wire.Up) {
	return func(u *wire.Up) {
		u.Entities[0] = wire.Entity{Ref: wire.Ref{Kind: wire.Service, Namespace: "shop", Name: name}, Addresses: addresses(address), Ports: []wire.Port{{Name: "p", Protocol: "TCP", Port: 80}}}
	}
}

// TestForgedClaims: a member that somebody has taken over gets nothing into anybody's peers but its
// own addresses.
func TestForgedClaims(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*wire.Up)
		bounds func(*setv1alpha1.Cluster)
		why    string
	}{
		"an address of nobody's": {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("192.0.2.1") }, why: "spec.addresses.pods"},
		"everybody":              {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("0.0.0.0") }, why: "no address of a workload"},
		"one good, one forged":   {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("10.1.0.9", "10.2.0.1") }, why: "spec.addresses.pods"},
		"another member's":       {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("10.2.0.1") }, bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Pods = []string{"10.0.0.0/8"} }, why: "had it first"},
		"a link-local address":   {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("fe80::1") }, bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Pods = []string{"::/0", "10.1.0.0/16"} }, why: "no address of a workload"},
		"loopback":               {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("127.0.0.1") }, bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Pods = []string{"0.0.0.0/0"} }, why: "no address of a workload"},
		"multicast":              {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("224.0.0.1") }, bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Pods = []string{"0.0.0.0/0"} }, why: "no address of a workload"},
		"mapped":                 {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("::ffff:10.1.0.9") }, why: "an address that is none"},
		"a Pod with a Node's":    {change: func(u *wire.Up) { u.Entities[0].Addresses = addresses("10.9.0.1") }, bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Nodes = []string{"10.9.0.0/16"} }, why: "spec.addresses.pods"},
		"a Namespace":            {change: func(u *wire.Up) {}, bounds: func(c *setv1alpha1.Cluster) { c.Spec.Namespaces = []string{"dev-*", "own"} }, why: "spec.namespaces"},
		"a name of another":      {change: func(u *wire.Up) { u.Entities[0].Namespace = "../west/shop" }, why: "no name"},
		"a cluster's name": {change: func(u *wire.Up) {
			u.LabelSets[0].Labels = map[string]string{"app": "web", "clusterset.k8s.io/cluster-name": "west"}
		}, why: "not for members"},
		"a cluster's label": {change: func(u *wire.Up) {
			u.LabelSets[0].Labels = map[string]string{"app": "web", "set.nephele.io/env": "prod"}
		}, why: "not for members"},
		"an account by its label": {change: func(u *wire.Up) {
			u.LabelSets[0].Labels = map[string]string{"app": "web", "internal.antrea.io/service-account": "x"}
		}, why: "not for members"},
		"labels never told":                   {change: func(u *wire.Up) { u.Entities[0].Labels = 7 }, why: "not told"},
		"too many label sets":                 {change: func(u *wire.Up) { u.LabelSets[0].ID, u.Entities[0].Labels = 5001, 5001 }, why: "sets of labels"},
		"a quota":                             {change: func(u *wire.Up) {}, bounds: func(c *setv1alpha1.Cluster) { one := int32(1); c.Spec.Limits.Entities = &one }, why: "spec.limits.entities"},
		"a Service of another Namespace":      {change: served("db.web", "10.1.0.9"), bounds: func(c *setv1alpha1.Cluster) { c.Spec.Namespaces = []string{"own"} }, why: "spec.namespaces"},
		"a Service at an address of nobody's": {change: served("db.web", "192.0.2.1"), why: "spec.addresses.pods, nodes and loadBalancers"},
		"a Service at another's load balancer": {change: served("db._lb", "203.0.113.1"), bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.LoadBalancers = []string{"203.0.113.0/24"} },
			why: "had it first"},
		"a Service at a machine": {change: served("db.web", "10.9.0.1"), bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Machines = []string{"10.9.0.0/16"} },
			why: "loadBalancers"},
		"a written endpoint at another's machine": {change: served("db._at.10.2.0.9", "10.2.0.9"), bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Machines = []string{"10.2.0.0/16"} },
			why: "had it first"},
		"a written endpoint at nobody's": {change: served("db._at.192.0.2.1", "192.0.2.1"), why: "spec.addresses.machines"},
		"a written endpoint at oneself":  {change: served("db._at.127.0.0.1", "127.0.0.1"), why: "no address of a workload"},
		"a Service everywhere":           {change: served("db.web", "0.0.0.0"), why: "no address of a workload"},
		"a part of no Service":           {change: served("db", "10.1.0.9"), why: "no part of a Service"},
		"a Service without a name":       {change: served(".web", "10.1.0.9"), why: "no part of a Service"},
		"a Service at no port":           {change: func(u *wire.Up) { served("db.web", "10.1.0.9")(u); u.Entities[0].Ports = nil }, why: "without address or port"},
		"a Service beyond the quota":     {change: served("db.web", "10.1.0.9"), bounds: func(c *setv1alpha1.Cluster) { one := int32(1); c.Spec.Limits.Entities = &one }, why: "spec.limits.entities"},
		"no addresses at all":            {change: func(u *wire.Up) {}, bounds: func(c *setv1alpha1.Cluster) { c.Spec.Addresses.Pods = nil }, why: "spec.addresses.pods"},
	} {
		t.Run(name, func(t *testing.T) {
			u := New()
			west, east := made("west", "10.2.0.0/16"), made("east", "10.1.0.0/16")
			west.Spec.Addresses.LoadBalancers = []string{"203.0.113.0/28"}
			if c.bounds != nil {
				c.bounds(east)
			}
			u.PutCluster("west", nil, claims.Of(west, nil))
			u.PutCluster("east", nil, claims.Of(east, []*setv1alpha1.Cluster{west}))
			group := peers.Groups(&policy.Policy{Ingress: []policy.Rule{{Peers: []policy.Peer{{Scope: peers.ScopeClusterSet, PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}}}}}})[0]
			u.Want(group)
			service := peers.Services(&policy.Policy{Set: true, Egress: []policy.Rule{{ToServices: []policy.ServicePeer{{Namespace: "shop", Name: "db", Scope: peers.ScopeClusterSet}}}}})[0]
			u.Want(service)
			first := wire.Entity{Ref: wire.Ref{Kind: wire.Pod, Namespace: "own", Name: "first"}, Addresses: addresses("10.1.0.1"), Labels: 2}
			up := &wire.Up{Whole: true, Listed: true, LabelSets: []wire.LabelSet{{ID: 1, Labels: map[string]string{"app": "web"}}, {ID: 2, Labels: map[string]string{"app": "other"}}},
				Namespaces: []wire.Namespace{{Name: "shop"}, {Name: "own"}},
				Entities:   []wire.Entity{{Ref: wire.Ref{Kind: wire.Pod, Namespace: "shop", Name: "web"}, Addresses: addresses("10.1.0.9"), Labels: 1}}}
			c.change(up)
			up.Entities = append([]wire.Entity{first}, up.Entities...)
			told := append(u.Apply("east", up), u.Refused("east", 10)...)
			u.Commit()
			if got := slices.Concat(u.Part(group.ID, "east"), u.Part(service.ID, "east")); len(got) > 0 {
				t.Errorf("believed: %v", got)
			}
			if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, c.why) }) {
				t.Errorf("%q: nothing says %q", told, c.why)
			}
			// What it may say still counts.
			if name != "no addresses at all" && u.Counts("east").Entities != 1 {
				t.Errorf("%+v: want the one other Pod", u.Counts("east"))
			}
		})
	}
}

// TestWiderBounds: a claim that was not believed is when its Cluster lets it.
func TestWiderBounds(t *testing.T) {
	u := New()
	u.PutCluster("east", nil, claims.Of(made("east"), nil))
	u.Apply("east", &wire.Up{Whole: true, Listed: true, Namespaces: []wire.Namespace{{Name: "shop"}}, Entities: []wire.Entity{{Ref: wire.Ref{Kind: wire.Pod, Namespace: "shop", Name: "web"}, Addresses: addresses("10.1.0.9")}}})
	if c := u.Counts("east"); c.Entities != 0 || c.Refused != 1 {
		t.Fatal(c)
	}
	u.PutCluster("east", nil, claims.Of(made("east", "10.1.0.0/16"), nil))
	if c := u.Counts("east"); c.Entities != 1 || c.Refused != 0 {
		t.Fatal(c)
	}
	// A listing without it takes it back.
	u.Apply("east", &wire.Up{Whole: true, Listed: true})
	if c := u.Counts("east"); c.Entities != 0 || c.Namespaces != 0 {
		t.Fatal(c)
	}
}

// TestLabelSetsAreBounded: a member that gives the same number to other labels again and again gets
// no more sets of labels than its quota, and loses none that it uses.
func TestLabelSetsAreBounded(t *testing.T) {
	u, few := New(), int32(3)
	east := made("east", "10.1.0.0/16")
	east.Spec.Limits.LabelSets = &few
	u.PutCluster("east", nil, claims.Of(east, nil))
	claim := func(name string, value string) []string {
		return u.Apply("east", &wire.Up{LabelSets: []wire.LabelSet{{ID: 1, Labels: map[string]string{"app": value}}},
			Entities: []wire.Entity{{Ref: wire.Ref{Kind: wire.Pod, Namespace: "shop", Name: name}, Addresses: addresses("10.1.0.9"), Labels: 1}}})
	}
	for i := range 20 {
		name := "x" + strings.Repeat("i", i)
		wrong := claim(name, name)
		if refused := len(wrong) > 0; refused != (i >= 6) {
			t.Errorf("%d: %v", i, wrong)
		}
	}
	if n := len(u.clusters["east"].sets); n != 6 {
		t.Errorf("%d sets", n)
	}
	u.Apply("east", &wire.Up{Whole: true, Listed: true})
	if n := len(u.clusters["east"].sets); n != 0 {
		t.Errorf("%d sets that nobody has", n)
	}
}

// TestForgedAccounts: what names no region of an account is nothing, and takes nothing back.
func TestForgedAccounts(t *testing.T) {
	u := New()
	for _, name := range []string{"east", "west"} {
		u.PutCluster(name, nil, claims.Of(made(name), nil))
		u.Apply(name, &wire.Up{Accounts: &[]string{"aws/1/a", "aws/1/a", "aws/1/b"}})
	}
	for _, forged := range [][]string{{"aws/1"}, {"aws/1/a/b"}, {"aws//a"}, {"aws/1/\x1b"}, {strings.Repeat("a", 300) + "/1/a"}, make([]string, wire.MostAccounts+1)} {
		if wrong := u.Apply("east", &wire.Up{Accounts: &forged}); len(wrong) == 0 {
			t.Errorf("%.80q is taken", forged)
		}
	}
	if got := u.Shared("east", "west"); !slices.Equal(got, []string{"aws/1/a", "aws/1/b"}) {
		t.Error(got)
	}
	u.Apply("east", &wire.Up{Accounts: &[]string{}})
	if got := u.Shared("east", "west"); len(got) > 0 {
		t.Error(got)
	}
}

// TestLargeRecords: what is believed of a member can be written, as large as one may be.
func TestLargeRecords(t *testing.T) {
	u := New()
	u.PutCluster("east", nil, claims.Of(made("east", "10.1.0.0/16"), nil))
	long := func(c string, n, i int) string { return strings.Repeat(c, n) + fmt.Sprint(1000+i) }
	u.Apply("east", &wire.Up{Whole: true, Namespaces: []wire.Namespace{{Name: "shop"}}})
	const pods = 60
	for i := range pods {
		labels := map[string]string{}
		for j := range 128 {
			labels[long("<", 300, j)] = long("&", 59, i)
		}
		e := wire.Entity{Ref: wire.Ref{Kind: wire.Pod, Namespace: "shop", Name: long("p", 200, i)}, Labels: i + 1}
		for j := range 16 {
			e.Addresses = append(e.Addresses, netip.AddrFrom4([4]byte{10, 1, byte(i), byte(j)}))
		}
		for j := range 64 {
			e.Ports = append(e.Ports, wire.Port{Name: long("n", 50, j), Protocol: "TCP", Port: int32(1 + j)})
		}
		if told := u.Apply("east", &wire.Up{LabelSets: []wire.LabelSet{{ID: i + 1, Labels: labels}}, Entities: []wire.Entity{e}, Listed: i == pods-1}); len(told) > 0 {
			t.Fatal(told)
		}
	}
	if n := u.Counts("east").Entities; n != pods {
		t.Fatalf("%d are believed: %v", n, u.Refused("east", 5))
	}
	entities := 0
	for _, part := range u.Records("east", 2) {
		for _, r := range part {
			entities += len(r.Entities)
			if err := wire.Write(io.Discard, r); err != nil {
				t.Error(err)
			}
		}
	}
	if entities != pods {
		t.Errorf("%d are in records, want %d", entities, pods)
	}
}

// FuzzInterest: whatever a member asks for, it gets nothing of a Namespace that is not visible, and
// nothing panics.
func FuzzInterest(f *testing.F) {
	f.Add([]byte(`{"p":{},"a":{}}`))
	f.Add([]byte(`{"s":"secret","p":{"x":[{"k":"app","o":"NotIn","v":["web"]}]},"w":true}`))
	f.Add([]byte(`{"n":{"l":{"a!b":""}},"e":true}`))
	f.Add([]byte(`{"c":"secret/default","m":{"l":{"app":"key"}}}`))
	f.Add([]byte(`{"p":{"x":[{"k":"app","o":"In","v":[" "]}]},"a":{"x":[{"k":"internal.antrea.io/visible","o":"DoesNotExist"}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var i wire.Interest
		if json.Unmarshal(raw, &i) != nil {
			return
		}
		if g, err := peers.OfInterest(&i); err == nil || errors.Is(err, peers.ErrNewer) {
			i.Group = g.ID
		}
		u, east := New(), made("east", "10.1.0.0/16")
		east.Spec.VisibleNamespaces, east.Spec.Addresses.Nodes = []string{"shop"}, []string{"10.9.0.0/16"}
		u.PutCluster("east", nil, claims.Of(east, nil))
		u.PutCluster("west", nil, claims.Of(made("west"), nil))
		all := map[string]string{"app": "key"}
		u.Apply("east", &wire.Up{Whole: true, Listed: true, LabelSets: []wire.LabelSet{{ID: 1, Labels: all}}, Namespaces: []wire.Namespace{{Name: "shop"}, {Name: "secret"}}, Entities: []wire.Entity{
			{Ref: wire.Ref{Kind: wire.Pod, Namespace: "shop", Name: "a"}, Labels: 1, Addresses: addresses("10.1.0.1")},
			{Ref: wire.Ref{Kind: wire.Pod, Namespace: "secret", Name: "a"}, Labels: 1, Addresses: addresses("10.1.0.2")},
			{Ref: wire.Ref{Kind: wire.Pod, Namespace: "untold", Name: "a"}, Labels: 1, Addresses: addresses("10.1.0.3")},
			{Ref: wire.Ref{Kind: wire.Node, Name: "a"}, Labels: 1, Addresses: addresses("10.9.0.1")},
		}})
		u.Apply("west", &wire.Up{Whole: true, Listed: true, Interests: []wire.Interest{i}})
		u.Commit()
		for _, of := range u.Interests("west") {
			if got := u.Part(of.Group.ID, "east"); len(got) > 1 || len(got) == 1 && got[0] != "10.1.0.1" {
				t.Errorf("it has learnt %v", got)
			}
		}
		u.Apply("west", &wire.Up{GoneInterests: []string{i.Group}})
		if u.Commit(); len(u.names)+len(u.asked) > 0 {
			t.Errorf("%v is computed for nobody", u.names)
		}
	})
}
