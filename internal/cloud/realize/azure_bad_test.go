package realize

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/policy"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

// cloudly changes the simulated cloud by hand.
func (l *azureLab) cloudly(change func(c *simazure.Cloud, now time.Time) error) {
	l.Helper()
	if err := l.world.ChangeAzure("", "", "test", func(c *simazure.Cloud, now time.Time) ([]string, error) { return nil, change(c, now) }); err != nil {
		l.Error(err)
	}
}

// failure is what the last report says is wrong with the account.
func (l *azureLab) failure() string {
	r, _ := l.realizer.Report(labAccount)
	if r.Err == nil {
		return ""
	}
	return r.Err.Error()
}

// TestAzureOddInterfaces lives the history of two policies beside all that interfaces and VMs can
// be: the verdicts are the evaluator's after every event, and all of it is what it was in the end.
func TestAzureOddInterfaces(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		subnet := func(name string) string { return azureVNet + "/subnets/" + name }
		at := func(id string) *simazure.Resource {
			for i := range b.State.Resources {
				if b.State.Resources[i].ID == id {
					return &b.State.Resources[i]
				}
			}
			t.Fatalf("there is no %s", id)
			return nil
		}
		group := "/subscriptions/" + azureSubscription + "/resourceGroups/shop/providers/Microsoft.Network/networkSecurityGroups/"
		// Ids in other cases.
		b.Machine("shop", "web-3", strings.ToUpper(azureVNet)+"/subnets/WEB", "10.1.1.13", strings.ToUpper(group+"web"))
		// A group that the interface and its subnet share.
		b.Machine("shop", "db-5", subnet("db"), "10.1.2.15", group+"subnet-db")
		// A Standard public address, and no group at all.
		public := b.Add("shop", "Microsoft.Network/publicIPAddresses", "ops-4-ip", map[string]any{"ipAddress": "52.1.1.4", "publicIPAllocationMethod": "Static"}, nil)
		at(public).Extra = map[string]any{"sku": map[string]any{"name": "Standard"}}
		_, nic := b.Machine("shop", "ops-4", subnet("ops"), "10.1.3.14", "")
		configuration, _ := at(nic).Properties["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any)
		configuration["publicIPAddress"] = map[string]any{"id": public}
		// A VM without an interface, and an interface without a VM.
		bare, _ := b.Machine("shop", "web-6", subnet("web"), "10.1.1.16", group+"web")
		at(bare).Properties["networkProfile"] = map[string]any{"networkInterfaces": []any{}}
	}})
	l.live(history())
}

// TestAzureScaleSet: policies are not enforced on an instance of a scale set in Uniform
// orchestration, which says why; for others it is a peer by its address, and nothing of the set is
// ever written.
func TestAzureScaleSet(t *testing.T) {
	t.Parallel()
	var nics []string
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		nics = b.ScaleSet("shop", "front", azureVNet+"/subnets/web", "", "10.1.1.50", "10.1.1.51")
	}})
	before := l.documents()
	l.relabel("front_0", "web")
	l.relabel("front_1", "ops")
	l.publish()
	l.start()
	l.engine.PutPolicy(webIn())
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.until("the instance says why it is not guarded", func() bool {
		p, found := l.policyOn("front_0", "web-in")
		return found && !p.Realized && strings.Contains(p.Message, "scale set in Uniform orchestration")
	})
	without := func(v verdicts) verdicts { return v.without("front_0").without("front_1") }
	l.until("the others are enforced", func() bool { return compare(without(l.actual()), without(l.wanted())) == "" })
	for p, want := range l.wanted() {
		// What the other end says of an instance as a peer.
		if in := strings.HasPrefix(p.from, "front"); in != strings.HasPrefix(p.to, "front") {
			if got := l.half(p, !in).Allowed; !got && want {
				t.Errorf("%s is cut at the other end", p)
			}
		}
	}
	for _, id := range nics {
		if key := strings.ToLower(id); l.documents()[key] != before[key] {
			t.Errorf("%s was changed", id)
		}
	}
	l.engine.DeletePolicy(webIn().UID)
	l.engine.DeletePolicy(dbNoShell().UID)
	l.publish()
	l.settle()
	l.unchanged(before)
}

// TestAzureRefusedInterfaces: a lock or a policy of Azure on one interface stops nobody else, its
// VM says so in the cloud's words, and it follows when it may.
func TestAzureRefusedInterfaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forbid func(c *simazure.Cloud, nic string)
		words  string
	}{
		"a lock": {func(c *simazure.Cloud, nic string) {
			c.SetLocks([]simazure.Lock{{Scope: nic, Name: "frozen", Level: "ReadOnly"}})
		}, "following scope(s) are locked"},
		"Azure Policy": {func(c *simazure.Cloud, nic string) {
			c.SetDenials([]simazure.Denial{{Assignment: "frozen", Scope: nic, Action: "Microsoft.Network/networkInterfaces/write"}})
		}, "was disallowed by policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAzureLab(t, azureConfig{})
			nic := l.vms["web-2"].nic
			before := l.documents()
			l.cloudly(func(cloud *simazure.Cloud, _ time.Time) error { c.forbid(cloud, nic); return nil })
			l.publish()
			l.start()
			l.engine.PutPolicy(webIn())
			l.publish()
			l.until("the VM says why it is not enforced", func() bool {
				p, found := l.policyOn("web-2", "web-in")
				return found && !p.Realized && strings.Contains(p.Message, c.words)
			})
			l.until("the others are enforced", func() bool { return compare(l.actual().without("web-2"), l.wanted().without("web-2")) == "" })
			l.engine.PutPolicy(dbNoShell())
			l.publish()
			l.until("a later policy is enforced, too", func() bool { return compare(l.actual().without("web-2"), l.wanted().without("web-2")) == "" })
			l.cloudly(func(c *simazure.Cloud, _ time.Time) error { c.SetLocks(nil); c.SetDenials(nil); return nil })
			l.settle()
			if diff := compare(l.actual(), l.wanted()); diff != "" {
				t.Errorf("allowed again:\n%s", diff)
			}
			l.engine.DeletePolicy(webIn().UID)
			l.engine.DeletePolicy(dbNoShell().UID)
			l.publish()
			l.settle()
			for id, doc := range before {
				if after := l.documents()[id]; after != doc {
					t.Errorf("%s:\n%s\nwas\n%s", id, after, doc)
				}
			}
		})
	}
}

// TestAzureFrozenGroup: where the resource group of the network is locked nothing is changed and
// nothing lost, the account or its VMs say why, and all follows when the lock is gone.
func TestAzureFrozenGroup(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{})
	l.publish()
	l.start()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.settle()
	enforced := l.actual()
	scope := "/subscriptions/" + azureSubscription + "/resourceGroups/shop"
	l.cloudly(func(c *simazure.Cloud, _ time.Time) error {
		c.SetLocks([]simazure.Lock{{Scope: scope, Name: "frozen", Level: "ReadOnly"}})
		return nil
	})
	l.engine.PutPolicy(webInEdited())
	l.publish()
	l.until("it is told", func() bool { return strings.Contains(l.failure()+l.refused(), "ScopeLocked") })
	if diff := compare(l.actual(), enforced); diff != "" {
		t.Errorf("while it is locked:\n%s", diff)
	}
	l.cloudly(func(c *simazure.Cloud, _ time.Time) error { c.SetLocks(nil); return nil })
	l.settle()
	if diff := compare(l.actual(), l.wanted()); diff != "" {
		t.Errorf("unlocked:\n%s", diff)
	}
}

// refused are the words of the first refusal of the last result: where the cloud refuses to change
// one object, the account goes on without it and has no failure of its own.
func (l *azureLab) refused() string {
	r, _ := l.realizer.Report(labAccount)
	if r.Result == nil || len(r.Result.Refusals) == 0 {
		return ""
	}
	return r.Result.Refusals[0].Message
}

// TestAzureGroupDeleted: a resource group with a VM, its interface and its network security group
// goes while the VM is being taken over. All others are enforced.
func TestAzureGroupDeleted(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		p := &b.State.Principals[0]
		second := p.Assignments[0]
		second.Scope = "/subscriptions/" + azureSubscription + "/resourceGroups/temp"
		p.Assignments = append(p.Assignments, second)
		group := b.SecurityGroup("temp", "temp", build.Rule("http", "Inbound", 110, "Allow", "Tcp", "", "", "80"))
		b.Machine("temp", "web-8", azureVNet+"/subnets/web", "10.1.1.18", group)
	}})
	l.publish()
	l.start()
	l.settle()
	var once sync.Once
	l.seen(func(c calls.Call) {
		if c.Action != "Microsoft.Network/networkInterfaces/write" {
			return
		}
		once.Do(func() {
			id, _ := document.ParseID("/subscriptions/" + azureSubscription + "/resourceGroups/temp")
			l.cloudly(func(c *simazure.Cloud, now time.Time) error {
				p := c.Principals()[0]
				p.Assignments = nil
				return c.DeleteGroup(simazure.Write{By: &p, Now: now}, id)
			})
		})
	})
	l.engine.PutPolicy(webIn())
	l.publish()
	others := func() (got, want verdicts) {
		got, want = verdicts{}, l.wanted().without("web-8")
		l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
			for p := range want {
				v, err := c.Verdicts().Allowed(l.flow(p))
				if err != nil {
					t.Errorf("%s: %v", p, err)
				}
				got[p] = v.Allowed
			}
		})
		return got, want
	}
	l.until("the others are enforced", func() bool { return compare(others()) == "" })
	l.until("the account is as wanted", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Err == nil && r.Result != nil && r.Result.Plan.Empty()
	})
}

// TestAzureTooManyRules: a policy that needs more rules than a network security group holds is
// refused with the numbers, before anything is called; the others are enforced.
func TestAzureTooManyRules(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{})
	l.publish()
	l.start()
	large := clusterPolicy("large", 1, 2)
	large.AppliedTo = applied("db")
	for i := range int32(1100) {
		large.Ingress = append(large.Ingress, policy.Rule{Action: policy.Allow, Peers: block(fmt.Sprintf("203.%d.%d.0/24", i/250, i%250)), Ports: ports(20_000 + 2*i)})
	}
	l.engine.PutPolicy(webIn())
	l.engine.PutPolicy(large)
	l.publish()
	l.settle()
	p, found := l.policyOn("db-1", "large")
	if !found || p.Realized || !strings.Contains(p.Message, "1,000") && !strings.Contains(p.Message, "1000") {
		t.Errorf("%+v", p)
	}
	l.engine.DeletePolicy(large.UID)
	l.publish()
	l.settle()
	if diff := compare(l.actual(), l.wanted()); diff != "" {
		t.Errorf("without it:\n%s", diff)
	}
}

// TestAzureOneMachineInTwoNetworks: the interfaces of a VM are in different networks, one of them
// with two configurations. Both are under the policies, each by a group of its own network, and
// both are what they were in the end.
func TestAzureOneMachineInTwoNetworks(t *testing.T) {
	t.Parallel()
	var second string
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		at := func(id string) *simazure.Resource {
			return &b.State.Resources[slices.IndexFunc(b.State.Resources, func(r simazure.Resource) bool { return r.ID == id })]
		}
		branch := strings.Replace(azureVNet, "virtualNetworks/shop", "virtualNetworks/branch", 1)
		group := b.SecurityGroup("shop", "both", build.Rule("all", "Inbound", 100, "Allow", "Tcp", "", "", ""))
		two, _ := b.Machine("shop", "web-5", azureVNet+"/subnets/web", "10.1.1.15", group)
		spare, nic := b.Machine("shop", "spare", branch+"/subnets/all", "10.2.1.15", group)
		second = strings.ToLower(nic)
		profile := at(two).Properties["networkProfile"].(map[string]any)
		profile["networkInterfaces"] = append(profile["networkInterfaces"].([]any), map[string]any{"id": nic, "properties": map[string]any{"primary": false}})
		b.State.Resources = slices.DeleteFunc(b.State.Resources, func(r simazure.Resource) bool { return r.ID == spare })
		list := at(nic).Properties["ipConfigurations"].([]any)
		at(nic).Properties["ipConfigurations"] = append(list, map[string]any{"name": "ipconfig2", "properties": map[string]any{"primary": false, "privateIPAddress": "10.2.1.16",
			"privateIPAllocationMethod": "Static", "privateIPAddressVersion": "IPv4", "subnet": map[string]any{"id": branch + "/subnets/all"}}})
	}})
	before := l.documents()
	l.publish()
	l.start()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.settle()
	if diff := compare(l.actual(), l.wanted()); diff != "" {
		t.Error(diff)
	}
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		for port, want := range map[int]bool{443: true, 9100: false} {
			v, err := c.Verdicts().Allowed(simazure.Flow{Src: simazure.End{Addr: netip.MustParseAddr("10.1.3.11")}, Dst: simazure.End{NIC: second}, Protocol: 6, Port: port})
			if err != nil || v.Allowed != want {
				t.Errorf("the second interface, port %d: %+v, %v", port, v, err)
			}
		}
	})
	if doc := strings.ToLower(l.documents()[second]); strings.Count(doc, "/applicationsecuritygroups/nephele-") != 2 {
		t.Errorf("the second interface is no member by both its configurations: %s", doc)
	}
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	l.unchanged(before)
}

// TestAzureFullGroup: a network security group with 1,000 rules is carried over where a policy
// takes something out of it, and is given back.
func TestAzureFullGroup(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		var rules []map[string]any
		for i := range 1000 {
			rules = append(rules, build.Rule(fmt.Sprintf("r%d", i), "Inbound", 100+i, "Allow", "Tcp", fmt.Sprintf("203.0.%d.%d", i/250, i%250), "", "22"))
		}
		b.Machine("shop", "db-6", azureVNet+"/subnets/ops", "10.1.3.16", b.SecurityGroup("shop", "full", rules...))
	}})
	before := l.documents()
	l.publish()
	l.start()
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.settle()
	if diff := compare(l.actual(), l.wanted()); diff != "" {
		t.Error(diff)
	}
	if p, found := l.policyOn("db-6", "db-no-shell"); !found || !p.Realized {
		t.Errorf("1,000 rules for one port are one of Azure's: %q", p.Message)
	}
	l.engine.DeletePolicy(dbNoShell().UID)
	l.publish()
	l.settle()
	l.unchanged(before)
}
