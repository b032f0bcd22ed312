package realize

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	azurelower "github.com/nephele-io/nephele/internal/cloud/azure/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/calls"
	"github.com/nephele-io/nephele/internal/sim/effect"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/tier"
)

const (
	azureTenant       = "11111111-2222-4333-8444-555555555555"
	azureSubscription = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	azureRegion       = "westeurope"
	azureShop         = "/subscriptions/" + azureSubscription + "/resourceGroups/shop/providers/Microsoft.Network/"
	azureVNet         = "/subscriptions/" + azureSubscription + "/resourceGroups/shop/providers/Microsoft.Network/virtualNetworks/shop"
)

// azureLab is the shop in a simulated subscription: the same engine, realizer and histories as in
// the lab of AWS.
type azureLab struct {
	*lab
	world   *simworld.World
	faults  *calls.Faults
	journal *calls.Journal
	native  map[probe][2]bool
	subnet  map[probe]bool // what the groups of subnets say
	quotas  *cloudv1.AzureQuotas
	former  map[string][]string
	mayLeak bool          // what is wrong in between is only counted
	bound   time.Duration // how long edits take to come into force

	mu       sync.Mutex
	old, now verdicts // between these every flow stays
	wrong    []string
	onCall   func(calls.Call)
}

// azureConfig is what tests choose.
type azureConfig struct {
	more func(*build.Builder)
	// maxPerWave is that of the account.
	maxPerWave int
	// account is the name of the account; empty is that of other labs.
	account string
	// clock is that of the realizer; nil means one on which waiting takes no time.
	clock clock.Clock
	// effects is how long edits take to come into force. With it the cloud has the realizer's
	// clock, and is looked at while that moves, too.
	effects effect.Delay
}

func newAzureLab(t *testing.T, cfg azureConfig) *azureLab {
	t.Helper()
	l := &azureLab{faults: &calls.Faults{}, journal: calls.NewJournal(100_000), native: map[probe][2]bool{}, subnet: map[probe]bool{}, bound: cfg.effects.Bound}
	w, name, pause, now := newWarp(), cmp.Or(cfg.account, "shop"), time.Duration(0), time.Now
	if l.bound > 0 {
		w.tick, now = func() { l.look(calls.Call{Action: "time"}) }, w.Now
	}
	if cfg.clock == nil {
		cfg.clock, pause = w, time.Second
	}
	b := build.New(azureTenant, azureSubscription, azureRegion)
	b.State.Subscriptions[0].EmptyGroupsVoidRules = true
	raw, err := os.ReadFile("../../../config/azure/role.json")
	if err != nil {
		t.Fatal(err)
	}
	role, err := simazure.ParseRole(raw)
	if err != nil {
		t.Fatal(err)
	}
	client := b.Principal("nephele", "secret", simazure.Assignment{Scope: "/subscriptions/" + azureSubscription + "/resourceGroups/shop", Role: role})
	subnetGroup := b.SecurityGroup(
		"shop",
		"subnet-db",
		build.Rule("no-metrics", "Inbound", 100, "Deny", "Tcp", "", "", "9100"),
		build.Rule("rest", "Inbound", 200, "Allow", "", "", "", ""),
	)
	vnet := b.Network("shop", "shop", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"}, []string{"db", "10.1.2.0/24", subnetGroup}, []string{"ops", "10.1.3.0/24"})
	branch := b.Network("shop", "branch", []string{"10.2.0.0/16"}, []string{"all", "10.2.1.0/24"})
	b.Peer(vnet, branch)
	asgWeb := b.ApplicationGroup("shop", "asg-web")
	webGroup := b.SecurityGroup("shop", "web", build.Rule("no-branch", "Inbound", 100, "Deny", "Tcp", "10.2.0.0/16", "", "80"),
		build.Rule("http", "Inbound", 110, "Allow", "Tcp", "", "", "80"), build.Rule("https", "Inbound", 120, "Allow", "Tcp", "Internet", "10.1.1.11", "443"))
	dbRule := build.Rule("from-web", "Inbound", 100, "Allow", "Tcp", "", "", "5432")
	p := dbRule["properties"].(map[string]any)
	delete(p, "sourceAddressPrefix")
	p["sourceApplicationSecurityGroups"] = []any{map[string]any{"id": asgWeb}}
	dbGroup := b.SecurityGroup("shop", "db", dbRule, build.Rule("none", "Inbound", 200, "Deny", "", "VirtualNetwork", "", ""))
	b.Machine("shop", "web-1", vnet+"/subnets/web", "10.1.1.11", webGroup, asgWeb)
	b.Machine("shop", "web-2", vnet+"/subnets/web", "10.1.1.12", webGroup)
	b.Machine("shop", "db-1", vnet+"/subnets/db", "10.1.2.11", dbGroup)
	b.Machine("shop", "ops-1", vnet+"/subnets/ops", "10.1.3.11", "")
	b.Machine("shop", "web-9", branch+"/subnets/all", "10.2.1.11", webGroup)
	if cfg.more != nil {
		cfg.more(b)
	}
	if l.world, err = simworld.New(aws.State{Azure: &b.State}, simworld.Options{Clock: now, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	if err := l.world.SetEffects(cfg.effects); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(arm.NewHandler(arm.Config{World: l.world, Clock: now, Faults: l.faults, Journal: l.journal,
		OnCall: func(_ context.Context, c calls.Call) error { l.look(c); return nil }}))
	t.Cleanup(server.Close)
	l.lab = &lab{
		T:              t,
		engine:         compute.New(compute.Options{}),
		store:          watchstore.New(watchstore.Options{}),
		sink:           &reports{},
		audit:          &auditor{},
		vms:            map[string]labVM{},
		marksPermitted: true,
	}
	l.newProvider = func() cloud.Provider {
		a, err := azure.New(azure.Config{
			Credential: cloudv1.AzureCredential{
				SubscriptionID: azureSubscription,
				TenantID:       azureTenant,
				ClientID:       client,
				ClientKey:      "secret",
			},
			Account: cloud.AccountKey(labNamespace, name),
			Cluster: labCluster,
			Quotas:  l.quotas,
			Former:  l.former,
			Cloud: &cloudv1.AzureCloud{Authority: server.URL, ResourceManager: server.URL, Audience: "https://management.azure.com",
				CABundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))},
			MaxAttempts: 1,
			FirstRetry:  time.Millisecond,
			Now:         w.Now,
			Audit:       l.audit,
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	l.accounts = &labAccounts{subs: map[int]func(string){}, account: Account{
		Key: cloud.AccountKey(labNamespace, name), EnforcerKey: cloud.EnforcerKey(labNamespace, name), Provider: l.newProvider(), Regions: []string{azureRegion},
		Snapshots: map[string]*cloud.Snapshot{}, Entities: map[plan.EntityRef]plan.VMRef{}, MaxPerWave: cfg.maxPerWave, Lowerer: azurelower.Azure{},
	}}
	l.accounts.observe(t.Context())
	snap := l.accounts.account.Snapshots[azureRegion]
	if snap == nil {
		t.Fatal(l.accounts.account.Unread)
	}
	for _, vm := range snap.VMs {
		if len(vm.Interfaces) == 0 {
			continue
		}
		nic := snap.Interfaces[slices.IndexFunc(snap.Interfaces, func(n cloud.Interface) bool { return n.ID == vm.Interfaces[0] })]
		role, _, _ := strings.Cut(vm.Name, "-")
		l.vms[vm.Name] = labVM{nic: nic.ID, id: vm.ID, region: azureRegion, addr: nic.PrivateIPs[0], labels: map[string]string{"role": role}}
		l.accounts.account.Entities[plan.EntityRef{Namespace: labNamespace, Name: vm.Name}] = plan.VMRef{Region: azureRegion, ID: vm.ID}
		l.putEntity(vm.Name)
	}
	for _, p := range l.allProbes() {
		if l.address(p.from).Is6() || l.address(p.to).Is6() {
			continue
		}
		l.probes = append(l.probes, p)
		l.native[p] = [2]bool{l.half(p, true).Allowed, l.half(p, false).Allowed}
		l.subnet[p] = !slices.ContainsFunc(l.half(p, false).Steps, func(s simazure.Step) bool { return strings.HasSuffix(s.Group, "subnet-db") && !s.Allowed })
	}
	l.cluster = labObjects(t)
	l.options = Options{ClusterID: labCluster, Follower: enforcer.Follower{Source: storeSource{l.store}, Clock: cfg.clock}, Accounts: l.accounts, Lowerer: azurelower.Azure{},
		Sink: l.sink, Clock: cfg.clock, Log: logr.Discard(), ClaimPause: pause}
	return l
}

func (l *azureLab) flow(p probe) simazure.Flow {
	end := func(name string) simazure.End {
		if vm, ok := l.vms[name]; ok {
			return simazure.End{NIC: vm.nic}
		}
		return simazure.End{Addr: netip.MustParseAddr(name)}
	}
	return simazure.Flow{Src: end(p.from), Dst: end(p.to), Protocol: 6, Port: int(p.port)}
}

func (l *azureLab) half(p probe, out bool) (v simazure.Verdict) {
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		var err error
		if v, err = c.Verdicts().Half(l.flow(p), out); err != nil {
			l.Errorf("%s: %v", p, err)
		}
	})
	return v
}

func (l *azureLab) actual() verdicts {
	out := make(verdicts, len(l.probes))
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		for _, p := range l.probes {
			passes, err := c.Verdicts().Passes(l.flow(p))
			if err != nil {
				l.Errorf("%s: %v", p, err)
			}
			out[p] = passes
		}
	})
	return out
}

// wanted is what the policies in the engine mean, by its own evaluator, with the groups that the
// VMs had at first and the groups of subnets.
func (l *azureLab) wanted() verdicts {
	e := evaluate.New(l.engine.Listing())
	out := verdicts{}
	for _, p := range l.probes {
		v := e.Evaluate(evaluate.Flow{Source: l.endpoint(p.from), Destination: l.endpoint(p.to), Protocol: policy.TCP, Port: p.port})
		out[p] = l.lab.half(p.from, v.Egress, l.native[p][0]) && l.lab.half(p.to, v.Ingress, l.native[p][1]) && l.subnet[p]
	}
	return out
}

// look checks after every call that no flow is open or closed that is neither before nor in the
// end.
func (l *azureLab) look(c calls.Call) {
	l.mu.Lock()
	also := l.onCall
	l.mu.Unlock()
	if also != nil {
		also(c)
	}
	if strings.HasSuffix(c.Action, "/read") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.old == nil {
		return
	}
	got := l.actual()
	for p, is := range got {
		if is && !l.old[p] && !l.now[p] || !is && l.old[p] && l.now[p] {
			l.wrong = append(l.wrong, fmt.Sprintf("after %s: %s: passes = %t, before %t, in the end %t", c.Action, p, is, l.old[p], l.now[p]))
		}
	}
}

// seen has every call told from now on, when it is done and not answered yet.
func (l *azureLab) seen(tell func(calls.Call)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onCall = tell
}

// expect starts to watch a change from what is to what will be wanted.
func (l *azureLab) expect(old, now verdicts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.old, l.now = old, now
}

// documents are the interfaces and groups as the cloud shows them, without what changes by itself.
func (l *azureLab) documents() map[string]string {
	out := map[string]string{}
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		p := c.Principals()[0]
		p.Assignments = nil
		s := c.State()
		for i := range s.Resources {
			at, _ := document.ParseID(s.Resources[i].ID)
			doc, err := c.Get(&p, at)
			if err != nil {
				l.Error(err)
				continue
			}
			raw, err := json.Marshal(doc)
			if err != nil {
				l.Error(err)
			}
			out[strings.ToLower(s.Resources[i].ID)] = withoutEtags(l.T, raw)
		}
	})
	return out
}

func withoutEtags(t *testing.T, raw []byte) string {
	t.Helper()
	var back any
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "etag")
			for _, x := range v {
				strip(x)
			}
		case []any:
			for _, x := range v {
				strip(x)
			}
		}
	}
	strip(back)
	out, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestAzureHistory lives the same histories as on AWS: the simulator's verdict is the evaluator's
// after every event and stays between in between, nothing is written once all is as wanted, and in
// the end every interface is what it was, byte for byte.
func TestAzureHistory(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestAzureFaults lives the same histories undisturbed first")
	for _, s := range azureStories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := newAzureLab(t, azureConfig{maxPerWave: s.cfg.maxPerWave})
			l.live(s.events)
		})
	}
}

// live makes all events happen, and checks everything on the way and in the end.
func (l *azureLab) live(events []event) {
	l.Helper()
	before := l.documents()
	l.publish()
	l.start()
	l.settle()
	was := l.wanted()
	for _, e := range events {
		if e.do != nil {
			e.do(l.lab)
		}
		if e.modes != nil {
			modes := maps.Clone(e.modes)
			if m, told := modes["web-2"]; told {
				modes["web-9"] = m
			}
			l.modes = modes
		}
		l.deleted = l.deleted || e.release
		d := l.engine.Commit()
		now := l.wanted()
		if slices.Contains(slices.Collect(maps.Values(l.modes)), plan.Planned) {
			now = was // every VM is planned for then, and stays as it is
		}
		l.expect(was, now) // before the realizer is told anything
		l.publishDelta(d)
		l.tellAccount()
		what := ""
		if !eventually(func() bool { l.revive(); what = l.unsettled(); return what == "" }) {
			l.Fatalf("%s: not settled: %s", e.name, what)
		}
		if l.bound > 0 {
			<-l.options.Clock.After(l.bound)
		}
		if diff := compare(l.actual(), now); diff != "" {
			r, _ := l.realizer.Report(labAccount)
			l.Fatalf("%s:\n%s\n%v\n%v", e.name, diff, r.Result.Refusals, r.Blocked)
		}
		was = now
	}
	if len(l.wrong) > 0 && !l.mayLeak {
		for _, r := range l.sink.list() {
			if r.Result != nil && os.Getenv("SHOW") != "" {
				l.Log(printed(r.Result.Plan))
			}
		}
		l.Errorf("in between:\n%s", strings.Join(l.wrong[:min(len(l.wrong), 10)], "\n"))
	}
	l.halt()
	l.unchanged(before)
	l.audited()
}

// audited compares the record of changes with what the cloud has seen.
func (l *azureLab) audited() {
	l.Helper()
	recorded := map[string]int{}
	for _, at := range l.audit.list() {
		recorded[at.Name]++
		if at.Reason == "" || at.Account != labAccount || len(at.Objects) == 0 || at.Region == "" || at.outcome == nil {
			l.Errorf("the record does not say enough: %+v", at)
		}
	}
	for name, n := range l.journal.Counts() {
		if (strings.HasSuffix(name, "/write") || strings.HasSuffix(name, "/delete")) && recorded[name] < n {
			l.Errorf("the cloud has seen %d of %s, the record says %d", n, name, recorded[name])
		}
	}
}

// TestAzureWrites: a change of a policy is one write of each network security group that it
// concerns, whatever comes and goes by it.
func TestAzureWrites(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{})
	l.publish()
	l.start()
	l.engine.PutPolicy(webInEdited())
	l.publish()
	l.settle()
	const write = "Microsoft.Network/networkSecurityGroups/write"
	before := l.journal.Counts()[write]
	was := l.wanted()
	l.engine.PutPolicy(webInMoved())
	delta := l.engine.Commit()
	l.expect(was, l.wanted())
	l.publishDelta(delta)
	l.settle()
	if diff := compare(l.actual(), l.wanted()); diff != "" || len(l.wrong) > 0 {
		t.Errorf("%s\n%v", diff, l.wrong)
	}
	// The web servers are a class in each of the two networks.
	if n := l.journal.Counts()[write] - before; n != 2 {
		t.Errorf("%d writes, want one of each of two groups", n)
	}
}

// TestAzureDrift: what somebody changes by hand is put right, and what a denied or a locked change
// leaves is not half done.
func TestAzureDrift(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{})
	l.publish()
	l.start()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.settle()
	want := l.actual()
	edit := func(name string, change func(properties map[string]any)) {
		t.Helper()
		err := l.world.ChangeAzure("", "", "test", func(c *simazure.Cloud, now time.Time) ([]string, error) {
			p := c.Principals()[0]
			p.Assignments = nil
			s := c.State()
			for i := range s.Resources {
				at, _ := document.ParseID(s.Resources[i].ID)
				if !strings.Contains(strings.ToLower(s.Resources[i].ID), name) {
					continue
				}
				doc, err := c.Get(&p, at)
				if err != nil {
					return nil, err
				}
				change(doc["properties"].(map[string]any))
				_, err = c.Put(simazure.Write{By: &p, Now: now}, at, doc)
				return nil, err
			}
			return nil, fmt.Errorf("there is no %s", name)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	group := "networksecuritygroups/nephele-"
	for name, e := range map[string]struct {
		what   string
		change func(map[string]any)
	}{
		"a Deny before our rules": {group, func(p map[string]any) {
			p["securityRules"] = append(p["securityRules"].([]any), build.Rule("mine", "Inbound", 99+1000, "Deny", "Tcp", "", "", "80"))
		}},
		"an Allow of everything": {group, func(p map[string]any) {
			p["securityRules"] = append(p["securityRules"].([]any), build.Rule("mine", "Inbound", 4000, "Allow", "", "", "", ""))
		}},
		"the last Deny gone": {group, func(p map[string]any) {
			p["securityRules"] = slices.DeleteFunc(p["securityRules"].([]any), func(r any) bool {
				return strings.HasSuffix(r.(map[string]any)["name"].(string), "in-deny")
			})
		}},
		"all rules gone":     {group, func(p map[string]any) { p["securityRules"] = []any{} }},
		"an interface freed": {"networkinterfaces/web-2-nic", func(p map[string]any) { delete(p, "networkSecurityGroup") }},
		"an interface unnamed": {"networkinterfaces/web-1-nic", func(p map[string]any) {
			at := p["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any)
			// Groups of others are not ours to give back.
			at["applicationSecurityGroups"] = slices.DeleteFunc(at["applicationSecurityGroups"].([]any), func(g any) bool {
				return strings.Contains(strings.ToLower(g.(map[string]any)["id"].(string)), "/nephele-")
			})
		}},
	} {
		edit(e.what, e.change)
		l.since = l.options.Clock.Now()
		l.accounts.observe(t.Context())
		l.settle()
		if diff := compare(l.actual(), want); diff != "" {
			t.Fatalf("%s:\n%s", name, diff)
		}
	}
}

// TestAzureUntouchable: an interface whose own group cannot be said exactly stays as it is, and the
// status says why; everything else goes on. A policy that Azure cannot hold is refused.
func TestAzureUntouchable(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		rule := build.Rule("odd", "Inbound", 100, "Deny", "Tcp", "", "", "80")
		rule["properties"].(map[string]any)["sourcePortRange"] = "1024-2048"
		group := b.SecurityGroup("shop", "odd", rule)
		b.Machine("shop", "web-7", azureVNet+"/subnets/web", "10.1.1.77", group)
	}})
	before := l.documents()
	l.publish()
	l.start()
	l.engine.PutPolicy(webIn())
	ping := clusterPolicy("ping", 1, 3)
	ping.AppliedTo = applied("db")
	eight := int32(8)
	ping.Ingress = []policy.Rule{{Action: policy.Allow, Peers: from("ops"), Protocols: []policy.RuleProtocol{{ICMP: &policy.ICMPMatch{Type: &eight}}}}}
	l.engine.PutPolicy(ping)
	l.publish()
	l.settle()
	nic := l.vms["web-7"].nic
	if after := l.documents()[nic]; after != before[nic] {
		t.Errorf("the interface was changed:\n%s\nwas\n%s", after, before[nic])
	}
	if db := l.vms["db-1"].nic; l.documents()[db] != before[db] {
		t.Error("a VM was taken over for a policy that cannot be held")
	}
	if web := l.vms["web-1"].nic; l.documents()[web] == before[web] {
		t.Error("the others did not go on")
	}
	r, _ := l.realizer.Report(labAccount)
	text := fmt.Sprintf("%+v", r.Result)
	for _, want := range []string{"rule odd: it tells source ports apart", "network security groups match no types and codes"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing says %q", want)
		}
	}
}

// TestAzureBehindGateways lives histories in a network with a gateway: to an office whose prefix a
// resource tells, and with routes that it has learned and nobody can read. What the tag
// VirtualNetwork lets through of either stays so in the directions that no policy decides.
func TestAzureBehindGateways(t *testing.T) {
	t.Parallel()
	for _, s := range azureStories() {
		if s.name != "two policies" && s.name != "several VMs" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := newAzureLab(t, azureConfig{maxPerWave: s.cfg.maxPerWave, more: func(b *build.Builder) {
				reference := func(id string) map[string]any { return map[string]any{"id": id} }
				gateway := b.Add("shop", "Microsoft.Network/virtualNetworkGateways", "gateway", map[string]any{
					"gatewayType": "Vpn", "enableBgp": true, "ipConfigurations": []any{map[string]any{"name": "a", "properties": map[string]any{"subnet": reference(azureVNet + "/subnets/GatewaySubnet")}}},
				}, nil)
				office := b.Add("shop", "Microsoft.Network/localNetworkGateways", "office", map[string]any{"localNetworkAddressSpace": map[string]any{"addressPrefixes": []any{"198.51.100.0/24"}}}, nil)
				b.Add("shop", "Microsoft.Network/connections", "to-office", map[string]any{"virtualNetworkGateway1": reference(gateway), "localNetworkGateway2": reference(office)}, nil)
				b.State.LearnedRoutes = map[string][]netip.Prefix{gateway: {netip.MustParsePrefix("203.0.113.0/24")}}
			}})
			open := map[string]int{}
			for p, halves := range l.native {
				if halves[1] && l.vms[p.from].nic == "" {
					open[p.from]++
				}
			}
			if open["198.51.100.7"] == 0 || open["203.0.113.7"] == 0 {
				t.Fatalf("what is behind the gateway gets in nowhere: %v", open)
			}
			l.live(s.events)
		})
	}
}
