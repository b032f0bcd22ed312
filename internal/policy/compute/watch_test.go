package compute_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestWatchScript replays the recorded script of changes and turns the deltas into the events of
// every watch.
func TestWatchScript(t *testing.T) {
	script, err := policytest.ReadScript(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	e := compute.New(compute.Options{})
	for _, doc := range script.Setup {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		err = policytest.ReadManifests(string(text), func(o policytest.Object) error {
			policytest.Put(e, o)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if d := e.Commit(); !d.Empty() {
		t.Fatalf("without policies there are computed objects: %+v", d)
	}
	got := map[string][]policytest.ScriptEvent{}
	for watch := range script.Watches {
		got[watch] = nil
	}
	steps := scriptSteps()
	for _, step := range script.Steps {
		change, ok := steps[step]
		if !ok {
			t.Fatalf("unknown step %q", step)
		}
		change(e)
		d := e.Commit()
		for _, key := range []string{"cloud-a", "cloud-b", "n1"} {
			collect(got, d, e.Listing(), key, step)
		}
	}
	for watch, want := range script.Watches {
		want = slices.DeleteFunc(slices.Clone(want), func(w policytest.ScriptEvent) bool { return w.Type == "BOOKMARK" })
		if diff := cmp.Diff(want, got[watch]); diff != "" && len(want)+len(got[watch]) > 0 {
			t.Errorf("%s (-want +got):\n%s", watch, diff)
		}
	}
}

// scriptSteps are the changes that the names of the script's steps stand for.
func scriptSteps() map[string]func(*compute.Engine) {
	vm := func(name, role, address, host string) func(*compute.Engine) {
		return func(e *compute.Engine) {
			e.PutEntity(policy.Entity{
				EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: name},
				Labels:    map[string]string{"role": role}, Host: host,
				Addresses: []netip.Addr{netip.MustParseAddr(address)},
			})
		}
	}
	role := func(r string) *policy.Selector { return &policy.Selector{MatchLabels: map[string]string{"role": r}} }
	p := policy.Policy{
		Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "uid-p", Priority: 1,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: role("db")}},
		Ingress: []policy.Rule{{
			Name: "r", Action: policy.Allow, Peers: []policy.Peer{{ExternalEntitySelector: role("web")}},
			Ports: []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 5432}}},
		}},
	}
	withPods := p
	withPods.Priority = 2
	withPods.Ingress = slices.Clone(p.Ingress)
	withPods.Ingress[0].Peers = append(slices.Clone(p.Ingress[0].Peers),
		policy.Peer{PodSelector: role("client"), NamespaceSelector: &policy.Selector{}})
	return map[string]func(*compute.Engine){
		"create policy":                 func(e *compute.Engine) { e.PutPolicy(p) },
		"add peer member web2":          vm("web2", "web", "10.0.1.2", "cloud-a"),
		"change peer ip":                vm("web2", "web", "10.0.1.22", "cloud-a"),
		"add applied member on cloud-a": vm("db3", "db", "10.0.2.3", "cloud-a"),
		"relabel db3 out":               vm("db3", "none", "10.0.2.3", "cloud-a"),
		"relabel web2 out":              vm("web2", "none", "10.0.1.22", "cloud-a"),
		"add pod peer to policy":        func(e *compute.Engine) { e.PutPolicy(withPods) },
		"move last cloud-b member away": vm("db2", "db", "10.0.2.2", "cloud-a"),
		"move back":                     vm("db2", "db", "10.0.2.2", "cloud-b"),
		"delete web1": func(e *compute.Engine) {
			e.DeleteEntity(policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "vms", Name: "web1"})
		},
		"delete policy": func(e *compute.Engine) { e.DeletePolicy("uid-p") },
	}
}

// collect appends the events that the three watches of a key see.
func collect(into map[string][]policytest.ScriptEvent, d *policy.Delta, l *policy.Listing, key, step string) {
	c := collector{into, l, key, step}
	for i := range d.AddressGroups {
		c.group(&d.AddressGroups[i], "addressgroups", "AddressGroup", l.AddressGroups)
	}
	for i := range d.AppliedToGroups {
		c.group(&d.AppliedToGroups[i], "appliedtogroups", "AppliedToGroup", l.AppliedToGroups)
	}
	for _, p := range d.Policies {
		c.policy(p)
	}
}

type collector struct {
	into      map[string][]policytest.ScriptEvent
	listing   *policy.Listing
	key, step string
}

func (c *collector) add(watch, kind, event string, object map[string]any) {
	object["kind"] = kind
	watch = c.key + "/" + watch
	c.into[watch] = append(c.into[watch], policytest.ScriptEvent{Step: c.step, Type: event, Object: object})
}

func (c *collector) group(g *policy.GroupDelta, watch, kind string, all []policy.ComputedGroup) {
	members := func(in []*policy.Member) []any {
		var out []any
		for _, m := range in {
			out = append(out, policytest.WireMember(g.Role, m))
		}
		return out
	}
	at := slices.IndexFunc(all, func(l policy.ComputedGroup) bool { return l.Name == g.Name })
	object := map[string]any{"metadata": map[string]any{"name": g.Name}}
	added, removed := g.For(c.key)
	switch {
	case slices.Contains(g.SpanRemoved, c.key):
		c.add(watch, kind, "DELETED", object)
	case slices.Contains(g.SpanAdded, c.key):
		object["groupMembers"] = members(slices.DeleteFunc(slices.Clone(all[at].Members), func(m *policy.Member) bool {
			return g.Role == policy.AppliedToGroup && !m.On(c.key)
		}))
		c.add(watch, kind, "ADDED", object)
	case at >= 0 && slices.Contains(all[at].Span, c.key) && len(added)+len(removed) > 0:
		if len(added) > 0 {
			object["addedGroupMembers"] = members(added)
		}
		if len(removed) > 0 {
			object["removedGroupMembers"] = members(removed)
		}
		c.add(watch, kind+"Patch", "MODIFIED", object)
	}
}

func (c *collector) policy(p policy.PolicyDelta) {
	all := c.listing.Policies
	at := slices.IndexFunc(all, func(s policy.PolicySpan) bool { return s.Source == p.Policy.Source })
	object := policytest.WirePolicy(p.Policy).(map[string]any)
	switch {
	case slices.Contains(p.SpanRemoved, c.key):
		c.add("networkpolicies", "NetworkPolicy", "DELETED", map[string]any{"sourceRef": object["sourceRef"]})
	case slices.Contains(p.SpanAdded, c.key):
		c.add("networkpolicies", "NetworkPolicy", "ADDED", object)
	case at >= 0 && slices.Contains(all[at].Span, c.key):
		c.add("networkpolicies", "NetworkPolicy", "MODIFIED", object)
	}
}
