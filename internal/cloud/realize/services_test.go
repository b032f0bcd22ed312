package realize

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/rights"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/tier"
)

// rightsOverServices is what nephele iam-policy --services prints.
func rightsOverServices(t *testing.T) *iam.Policy {
	t.Helper()
	document, err := rights.Document(rights.Pins{Mode: rights.Enforce, Services: true, Cluster: labCluster, Account: "111122223333"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := iam.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// findServices makes every interface of a native service of the estate known by the name of the
// service, and those services an entity that somebody selects.
func (l *lab) findServices(selected []string) {
	l.Helper()
	nics, err := l.region(home).NetworkInterfaces()
	if err != nil {
		l.Fatal(err)
	}
	all := l.region(home).Services().List(native.Kinds()...)
	for _, s := range all {
		display, ids := cmp.Or(s.Tags["Name"], s.Display()), s.NICs()
		for _, m := range native.MembersOf(s.Ref(), all) {
			ids = append(ids, m.NICs()...)
		}
		if s.Parent != "" {
			continue // it is its cluster that is guarded
		}
		for i, id := range ids {
			at := slices.IndexFunc(nics, func(n aws.NetworkInterface) bool { return n.ID == id })
			vm := labVM{nic: id, id: s.ARN(), region: home, addr: nics[at].PrimaryIP().Addr, labels: map[string]string{"role": display}}
			name := display
			if i > 0 {
				vm.of, name = name, fmt.Sprintf("%s %d", name, i+1)
			}
			l.vms[name] = vm
		}
	}
	l.accounts.account.Services = map[plan.EntityRef]plan.VMRef{}
	for _, name := range selected {
		if l.vms[name].nic == "" {
			l.Fatalf("there is no service %s", name)
		}
		l.accounts.account.Services[plan.EntityRef{Namespace: labNamespace, Name: name}] = plan.VMRef{Region: home, ID: l.vms[name].id}
		l.putService(name)
	}
}

func (l *lab) putService(name string) {
	var all []netip.Addr
	for other, vm := range l.vms {
		if other == name || vm.of == name {
			all = append(all, vm.addr)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	l.engine.PutEntity(policy.Entity{EntityRef: entityRef(name), Labels: l.vms[name].labels, Addresses: all, Host: l.accounts.account.EnforcerKey})
}

// choose has a native service selected from now on, or not any more.
func (l *lab) choose(name string, selected bool) {
	l.since = l.options.Clock.Now()
	ref := plan.EntityRef{Namespace: labNamespace, Name: name}
	if selected {
		l.putService(name)
	} else {
		l.engine.DeleteEntity(entityRef(name))
	}
	l.accounts.change(func(a *Account) {
		services := map[plan.EntityRef]plan.VMRef{}
		for k, v := range a.Services {
			if k != ref {
				services[k] = v
			}
		}
		if selected {
			services[ref] = plan.VMRef{Region: home, ID: l.vms[name].id}
		}
		a.Services = services
	})
}

// onService is a policy that isolates the ingress of services but for one port of some peers.
func onService(name string, generation int64, port int32, peers []policy.Peer, services ...string) policy.Policy {
	p := clusterPolicy(name, generation, 5)
	p.AppliedTo = applied(services...)
	p.Ingress = []policy.Rule{{Action: policy.Allow, Peers: peers, Ports: ports(port)}}
	return p
}

// frontDrops leaves a balancer's own groups to decide, but for a block of addresses.
func frontDrops() policy.Policy {
	p := clusterPolicy("front-drops", 1, 4)
	p.AppliedTo = applied("front")
	p.Ingress = []policy.Rule{{Action: policy.Drop, Peers: block("203.0.113.0/24")}}
	return p
}

func noServicePolicies(l *lab) {
	for _, name := range []string{"web-in", "on-orders", "on-queue", "on-audit", "on-sales", "on-sessions", "on-scratch", "on-papers", "front-drops"} {
		l.engine.DeletePolicy("uid-" + name)
	}
}

// servedStories are lives of native services under policies.
func servedStories() []story {
	all := []string{"front", "orders", "audit", "sales", "queue"}
	return []story{
		{"services guarded", labConfig{services: all}, []event{
			{name: "guarded", do: func(l *lab) {
				l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders"))
				l.engine.PutPolicy(onService("on-queue", 1, 443, from("web", "ops"), "queue"))
				l.engine.PutPolicy(onService("on-sales", 1, 5432, from("web"), "sales"))
				l.engine.PutPolicy(frontDrops())
			}},
			{name: "their peers guarded as well", do: func(l *lab) { l.engine.PutPolicy(webIn()) }},
			{name: "edited, and one more", do: func(l *lab) {
				l.engine.PutPolicy(onService("on-orders", 2, 5432, from("web", "queue"), "orders"))
				l.engine.PutPolicy(onService("on-audit", 1, 5432, from("ops"), "audit", "orders"))
				l.engine.PutPolicy(onService("on-sales", 2, 5432, from("ops"), "sales"))
				l.relabel("ops-1", "web")
			}},
			{name: "all out", do: noServicePolicies},
		}},
		{"service modes", labConfig{services: all}, []event{
			{name: "guarded", do: func(l *lab) {
				l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders", "sales"))
				l.engine.PutPolicy(frontDrops())
			}},
			{name: "some released, one by breaking the glass", modes: map[string]plan.Mode{"orders": plan.Released, "sales": plan.Released, "front": plan.BreakGlass}},
			{name: "enforced again", modes: map[string]plan.Mode{}},
			{name: "the account deleted", release: true},
		}},
		{"caches and files guarded", labConfig{services: []string{"sessions", "scratch", "papers"}, follows: []string{"orders"}}, []event{
			{name: "guarded", do: func(l *lab) {
				l.engine.PutPolicy(onService("on-sessions", 1, 6379, from("web"), "sessions"))
				l.engine.PutPolicy(onService("on-scratch", 1, 11211, from("ops"), "scratch"))
				l.engine.PutPolicy(onService("on-papers", 1, 2049, from("web", "ops"), "papers"))
			}},
			{name: "edited, and their peers guarded", do: func(l *lab) {
				l.engine.PutPolicy(onService("on-sessions", 2, 6379, from("web", "scratch"), "sessions"))
				l.engine.PutPolicy(onService("on-papers", 2, 2049, from("ops"), "papers", "scratch"))
				l.engine.PutPolicy(webIn())
			}},
			{name: "one released", modes: map[string]plan.Mode{"sessions": plan.Released, "papers": plan.Released}},
			{name: "enforced again", modes: map[string]plan.Mode{}},
			{name: "all out", do: noServicePolicies},
		}},
		{"service selected later", labConfig{served: true, follows: []string{"orders"}}, []event{
			{name: "its peers guarded", do: func(l *lab) { l.engine.PutPolicy(webIn()) }},
			{name: "selected", do: func(l *lab) { l.choose("orders", true) }},
			{name: "guarded by a policy", do: func(l *lab) { l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders")) }},
			{name: "selected no longer", do: func(l *lab) { l.choose("orders", false) }},
			{name: "all out", do: noServicePolicies},
		}},
	}
}

// TestServicesGuarded: policies on native services of every kind whose groups can be set, with the
// documented rights: every packet has the verdict that the policies want, none has another one at
// any moment in between, and in the end all is as it was.
func TestServicesGuarded(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestServiceFaults plays the same lives undisturbed first")
	for _, s := range servedStories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if got := live(t, s); len(got.wrong) > 0 {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestServiceFaults disturbs single calls of these lives in every way.
func TestServiceFaults(t *testing.T) {
	t.Parallel()
	_, seed := seeded(t)
	m := &matrix{ways: disturbances()}
	t.Run("stories", func(t *testing.T) {
		for i, s := range servedStories() {
			c := m.column(s.name)
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, s, m.ways, len(servedStories()), rand.New(rand.NewPCG(seed, 100+uint64(i))))
			})
		}
	})
	t.Logf("seed %d; survived of runs\n%s", seed, m)
}

// TestServiceReplacesTwins: while nobody selects a database whose group names that of VMs under
// control, twins stand in its group. When it is selected it gets a group of ours, and its own one
// is again what its owner has made it.
func TestServiceReplacesTwins(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{served: true, follows: []string{"orders"}})
	own := l.rulesOf("orders")
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	if now := l.rulesOf("orders"); len(now) <= len(own) {
		t.Fatalf("there is no twin: %v", now)
	}
	l.choose("orders", true)
	l.publishDelta(l.engine.Commit())
	l.settle()
	l.as(l.wanted())
	if now := l.rulesOf("orders"); !slices.Equal(now, own) {
		t.Errorf("its own group is %v, was %v", now, own)
	}
	if held := l.holdings().NICs[l.vms["orders"].nic]; len(held) != 1 || held[0] == l.groupNamed("orders") {
		t.Errorf("it holds %v", held)
	}
	if tags := l.holdings().Tags[l.vms["orders"].id]; tags[cloud.TagFormer] != l.groupNamed("orders") || !strings.HasPrefix(tags[cloud.TagSignature], "v1 ") {
		t.Errorf("it remembers %v", tags)
	}
}

// TestDatabaseKeepsWhatIsPutOff: the groups of a database are set by calls that leave alone what
// its owner has put off to the next maintenance window, which may be a restart.
func TestDatabaseKeepsWhatIsPutOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{services: []string{"orders", "sales"}})
	l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders", "sales"))
	l.publish()
	l.start()
	l.settle()
	l.as(l.wanted())
	edits := map[string]int{}
	for _, c := range l.server.Journal().Calls(0) {
		if !strings.HasPrefix(c.Action, "ModifyDB") {
			continue
		}
		edits[c.Action]++
		for name := range c.Params {
			if name != "DBInstanceIdentifier" && name != "DBClusterIdentifier" && !strings.HasPrefix(name, "VpcSecurityGroupIds.") {
				t.Errorf("it sets %s", name)
			}
		}
	}
	if edits["ModifyDBInstance"] == 0 || edits["ModifyDBCluster"] == 0 {
		t.Errorf("the groups were not set: %v", edits)
	}
}

// TestServiceRightIsMissing: where a right over one kind of services is missing, its service stays
// as it is and says so, and everything else is enforced.
func TestServiceRightIsMissing(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{services: []string{"front", "orders", "queue"}})
	l.fault(ec2.Fault{Action: "ModifyDBInstance", Code: "AccessDenied", Message: "not authorized to perform rds:ModifyDBInstance", Status: 403, Times: -1})
	before := l.holdings().NICs
	l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders", "queue"))
	l.publish()
	l.start()
	l.until("the endpoint is realized, and the database says why it is not", func() bool {
		queue, found := l.policyOn("queue", "on-orders")
		orders, also := l.policyOn("orders", "on-orders")
		return found && also && queue.Realized && !orders.Realized && strings.Contains(orders.Message, "rds:ModifyDBInstance")
	})
	if now := l.holdings().NICs; !slices.Equal(now[l.vms["orders"].nic], before[l.vms["orders"].nic]) {
		t.Errorf("the database holds %v", now[l.vms["orders"].nic])
	}
}

// TestServicesUnreadSinceTheStart: a process that has never read the services keeps what a former
// one has done to them and let through to them, and does the rest. When they can be read again, all
// is given back.
func TestServicesUnreadSinceTheStart(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{services: []string{"front", "orders", "audit", "sales", "queue"}})
	before := l.holdings()
	out := clusterPolicy("web-out", 1, 6)
	out.AppliedTo = applied("web")
	out.Egress = []policy.Rule{{Action: policy.Allow, Peers: from("audit", "front", "queue"), Ports: ports(443, 5432)}}
	l.engine.PutPolicy(out)
	l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders", "sales"))
	l.engine.PutPolicy(onService("on-queue", 1, 443, from("web", "ops"), "queue"))
	l.engine.PutPolicy(frontDrops())
	l.publish()
	l.start()
	l.settle()
	l.as(l.wanted())
	l.halt()
	l.accounts.account.Provider = l.newProvider()
	for _, action := range []string{"DescribeDBInstances", "DescribeDBClusters", "DescribeLoadBalancers", "DescribeVpcEndpoints"} {
		l.server.Faults().Add(ec2.Fault{Action: action, Code: "AccessDenied", Message: "not authorized", Status: 403, Times: -1})
	}
	l.start()
	l.settle()
	l.as(l.wanted())
	l.engine.PutPolicy(webIn())
	l.publish()
	l.settle()
	l.as(l.wanted())
	l.server.Faults().Clear()
	noServicePolicies(l)
	l.engine.DeletePolicy("uid-web-out")
	l.publish()
	l.accounts.Trigger(labAccount)
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("not given back as it was:\n%s", d)
	}
}

// TestServiceForged: a user with the right to write tags of a service cannot choose what it is
// given back: a record that he rewrites, or plants before the take-over, is not believed.
func TestServiceForged(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{services: []string{"front", "orders"}})
	before := l.holdings()
	write := func(groups string) {
		t.Helper()
		err := l.region(home).Services().SetTags("AddTagsToResource", native.Ref{Kind: native.Database, Name: "orders"}, map[string]string{cloud.TagFormer: groups}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.since = l.options.Clock.Now()
		l.accounts.Trigger(labAccount)
	}
	write(l.groupNamed("audit")) // planted
	l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders"))
	l.publish()
	l.start()
	l.settle()
	l.as(l.wanted())
	write(l.groupNamed("audit")) // rewritten
	l.settle()
	noServicePolicies(l)
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("not given back as it was:\n%s", d)
	}
}

// TestServiceIsReadAgain: a database that was written to and cannot be read after that is left
// alone for as long, and no longer: nobody else has to read the account for it to be guarded again.
func TestServiceIsReadAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{services: []string{"front", "orders"}})
	l.engine.PutPolicy(onService("on-orders", 1, 5432, from("web"), "orders"))
	l.engine.PutPolicy(frontDrops())
	l.publish()
	l.start()
	l.settle()
	l.as(l.wanted())
	l.fault(ec2.Fault{Action: "DescribeDBInstances", Code: "Unavailable", Status: 503, Times: 4}) // the first one is before it is written to
	l.turn(map[string]plan.Mode{"orders": plan.Released})
	l.until("the database has its own group", func() bool {
		return slices.Equal(l.holdings().NICs[l.vms["orders"].nic], []string{l.groupNamed("orders")})
	})
	l.turn(map[string]plan.Mode{})
	l.until("it is guarded again", func() bool { return compare(l.actual(), l.wanted()) == "" })
	l.settle()
	l.as(l.wanted())
}

// TestFailoverLeavesNoGap: a database that fails over comes back with another interface and another
// address. The interface holds our groups at once, so nothing opens, and after one event the policy
// names the new address as well.
func TestFailoverLeavesNoGap(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{services: []string{"front", "orders", "audit"}})
	before := l.holdings()
	out := clusterPolicy("web-out", 1, 6)
	out.AppliedTo = applied("web")
	out.Egress = []policy.Rule{{Action: policy.Allow, Peers: from("audit"), Ports: ports(5432)}}
	l.engine.PutPolicy(out)
	l.engine.PutPolicy(onService("on-audit", 1, 5432, from("web"), "audit"))
	l.publish()
	l.start()
	l.settle()
	l.as(l.wanted())
	held := l.holdings().NICs[l.vms["audit"].nic]
	was := l.vms["audit"]
	after, err := l.region(home).Services().Failover(native.Ref{Kind: native.Database, Name: "audit"})
	if err != nil {
		t.Fatal(err)
	}
	nics, err := l.region(home).NetworkInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	now := was
	now.nic = after.NICs()[0]
	now.addr = nics[slices.IndexFunc(nics, func(n aws.NetworkInterface) bool { return n.ID == now.nic })].PrimaryIP().Addr
	l.vms["audit"] = now
	if got := l.holdings().NICs[now.nic]; now.nic == was.nic || now.addr == was.addr || len(held) == 0 || !slices.Equal(got, held) {
		t.Fatalf("the interface %s at %s holds %v; %s at %s held %v", now.nic, now.addr, got, was.nic, was.addr, held)
	}
	l.putService("audit")
	news := l.engine.Commit()
	want := l.wanted()
	for p, open := range l.actual() {
		if open && !want[p] {
			t.Errorf("opened by the failover: %s", p)
		}
	}
	l.publishDelta(news)
	l.accounts.Trigger(labAccount) // the event
	l.settle()
	l.as(l.wanted())
	l.engine.DeletePolicy("uid-web-out")
	noServicePolicies(l)
	l.publish()
	l.settle()
	left := l.holdings()
	before.NICs[now.nic] = before.NICs[was.nic]
	delete(before.NICs, was.nic)
	if d := gocmp.Diff(before, left); d != "" {
		t.Errorf("not given back as it was:\n%s", d)
	}
}
