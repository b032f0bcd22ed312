package estate_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const shopYAML = `
accounts:
- id: "111122223333"
  regions:
  - name: eu-west-1
    vpcs:
    - name: shop
      cidrs: [10.1.0.0/16]
      subnets:
      - {name: a, cidr: 10.1.1.0/24}
      - {name: b, cidr: 10.1.2.0/24, zone: eu-west-1b}
      groups:
      - {name: alb, rules: [tcp 80 from any]}
      - {name: web, rules: [tcp 8080 from alb]}
      - {name: known, rules: [tcp 8080 from 10.1.1.50, tcp 8080 from 10.1.2.80]}
      - {name: db, rules: [tcp 5432 from web]}
      vms:
      - {name: client, subnet: a, ip: 10.1.1.50}
      - {name: web-1, subnet: b, groups: [web]}
      - {name: old-1, subnet: b, groups: [known]}
      targetGroups:
      - {name: web, protocol: HTTP, port: 8080, targets: [web-1]}
      - {name: raw, port: 8080, targets: [web-1, old-1]}
      - {name: plain, port: 8080, targets: [old-1], preserveClientIP: false}
      services:
      - {kind: application-load-balancer, name: front, groups: [alb], ip: [10.1.1.90, 10.1.2.90], listeners: [HTTP 80 to web]}
      - {kind: network-load-balancer, name: pass, subnets: [b], ip: 10.1.2.80, listeners: [TCP 80 to raw, TCP 81 to plain]}
      - {kind: database, name: orders, engine: postgres, groups: [db], multiZone: true}
      - {kind: database-cluster, name: sales, engine: aurora-mysql, members: 3, groups: [db]}
      - {kind: replication-group, name: sessions, engine: redis, members: 2, groups: [db]}
      - {kind: cache, name: pages, engine: memcached, members: 2, groups: [db]}
      - {kind: gateway-load-balancer, name: probe}
      - {kind: endpoint, name: queue, service: com.amazonaws.eu-west-1.sqs, groups: [db]}
      - {kind: function, name: resize, groups: [web]}
      - {kind: file-system, name: homes, groups: [db]}
`

func loadText(t *testing.T, text string) (aws.State, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "estate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := estate.Load(file)
	return s, err
}

func shop(t *testing.T) (*world.World, *world.Region) {
	t.Helper()
	s, err := loadText(t, shopYAML)
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Region("111122223333", "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

func vpcOf(t *testing.T, r *world.Region) string {
	t.Helper()
	all, err := r.VPCs()
	if err != nil {
		t.Fatal(err)
	}
	return all[0].ID
}

// TestServicesOfAnEstate: every kind has the interfaces that it has in the cloud.
func TestServicesOfAnEstate(t *testing.T) {
	w, r := shop(t)
	want := map[native.Kind]int{ // interfaces of all services of the kind
		native.AppBalancer: 2, native.NetBalancer: 1, native.GatewayBalancer: 2, native.Database: 4, native.DatabaseCluster: 0,
		native.Cache: 4, native.ReplicationGroup: 0, native.Endpoint: 2, native.Function: 2, native.FileSystem: 0, native.MountTarget: 2,
	}
	nics := map[string]bool{}
	for _, k := range native.Kinds() {
		n := 0
		for _, s := range r.Services().List(k) {
			for _, id := range s.NICs() {
				nics[id] = true
				n++
			}
		}
		if n != want[k] {
			t.Errorf("%s: %d interfaces, want %d", k, n, want[k])
		}
	}
	all, err := r.NetworkInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	addrs := map[netip.Addr]bool{}
	for _, n := range all {
		if n.RequesterManaged != nics[n.ID] {
			t.Errorf("%s (%s): managed by the cloud: %v, of a service: %v", n.ID, n.Description, n.RequesterManaged, nics[n.ID])
		}
		if a := n.PrimaryIP().Addr; addrs[a] {
			t.Errorf("two interfaces have %s", a)
		} else {
			addrs[a] = true
		}
	}
	// What a world says of itself makes the same world again.
	again, err := world.New(w.State(), world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := again.Region("111122223333", "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range native.Kinds() {
		for i, s := range r.Services().List(k) {
			if o := other.Services().List(k)[i]; !slices.Equal(o.NICs(), s.NICs()) || !slices.Equal(o.Groups, s.Groups) {
				t.Errorf("%s %s was %+v and is %+v", k, s.Name, s, o)
			}
		}
	}
	// Ids depend on the estate alone.
	_, same := shop(t)
	if a, b := r.Services().List(native.Database), same.Services().List(native.Database); !slices.Equal(a[0].NICs(), b[0].NICs()) {
		t.Errorf("the same estate gives the interfaces %v and %v", a[0].NICs(), b[0].NICs())
	}
}

// TestThroughBalancers follows flows over both hops.
func TestThroughBalancers(t *testing.T) {
	w, r := shop(t)
	vpc := vpcOf(t, r)
	through := func(to string, port int) packet.Passage {
		t.Helper()
		p, ok, err := w.Through(packet.Flow{
			Src: packet.End{VPC: vpc, Addr: netip.MustParseAddr("10.1.1.50")}, Dst: packet.End{VPC: vpc, Addr: netip.MustParseAddr(to)}, Protocol: 6, Port: port,
		})
		if err != nil || !ok {
			t.Fatalf("to %s port %d: %v %v", to, port, ok, err)
		}
		return p
	}
	p := through("10.1.1.90", 80)
	if target := p.Targets[0]; !p.Allowed || !p.Entry.Allowed || p.Preserved || target.From.String() != "10.1.1.90" || !target.Verdict.Allowed || !target.Health.Allowed || target.Port != 8080 {
		t.Errorf("application load balancer: %+v", p)
	}
	// Both targets see the client; the health checks come from the balancer.
	p = through("10.1.2.80", 80)
	web, old := p.Targets[0], p.Targets[1]
	if web.NIC == "" || web.Verdict.Allowed || web.Health.Allowed || web.InUse {
		t.Errorf("a target that knows neither client nor balancer: %+v", web)
	}
	if !p.Preserved || !p.Allowed || old.From.String() != "10.1.1.50" || !old.Verdict.Allowed || !old.Health.Allowed || !old.InUse {
		t.Errorf("a target that knows both: %+v", p)
	}
	if p = through("10.1.2.80", 81); p.Preserved || !p.Allowed || p.Targets[0].From.String() != "10.1.2.80" {
		t.Errorf("without preserved clients: %+v", p)
	}
	for to, port := range map[string]int{"10.1.1.90": 81, "10.1.1.50": 80} {
		_, ok, err := w.Through(packet.Flow{
			Src: packet.End{VPC: vpc, Addr: netip.MustParseAddr("10.1.2.99")}, Dst: packet.End{VPC: vpc, Addr: netip.MustParseAddr(to)}, Protocol: 6, Port: port,
		})
		if ok || err != nil {
			t.Errorf("%s port %d is taken for a front end: %v", to, port, err)
		}
	}
}

// TestUnhealthyTargets: a rule that cuts the health checks takes a target out of use while another
// one is healthy.
func TestUnhealthyTargets(t *testing.T) {
	w, r := shop(t)
	vpc := vpcOf(t, r)
	groups, err := r.SecurityGroups()
	if err != nil {
		t.Fatal(err)
	}
	known := groups[slices.IndexFunc(groups, func(g aws.SecurityGroup) bool { return g.Name == "known" })]
	for _, rule := range known.Rules {
		if rule.CIDR.String() == "10.1.2.80/32" {
			if _, err := r.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: known.ID, RuleIDs: []string{rule.ID}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, _, err := w.Through(packet.Flow{
		Src: packet.End{VPC: vpc, Addr: netip.MustParseAddr("10.1.1.50")}, Dst: packet.End{VPC: vpc, Addr: netip.MustParseAddr("10.1.2.80")}, Protocol: 6, Port: 80,
	})
	if err != nil {
		t.Fatal(err)
	}
	// No target is healthy, so all are in use, and the flow still arrives at one.
	if old := p.Targets[1]; old.Health.Allowed || !old.InUse || !p.Allowed {
		t.Errorf("all unhealthy: %+v", p)
	}
	raw := ""
	for _, g := range r.Services().TargetGroups() {
		if strings.HasPrefix(g.Name, "raw/") {
			raw = g.Name
		}
	}
	states, err := r.Services().Health(raw)
	if err != nil || len(states) != 2 || states[0].State != "unhealthy" || states[1].State != "unhealthy" {
		t.Errorf("states %+v, %v", states, err)
	}
}

// TestFailover: a database comes back with another interface and address, a cluster with another
// writer.
func TestFailover(t *testing.T) {
	w, r := shop(t)
	before, err := r.Services().Get(native.Ref{Kind: native.Database, Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	addr := w.LookUp(before.HostName())
	after, err := r.Services().Failover(before.Ref())
	if err != nil {
		t.Fatal(err)
	}
	now := w.LookUp(after.HostName())
	if len(addr) != 1 || len(now) != 1 || addr[0] == now[0] || after.NICs()[0] == before.NICs()[0] || !slices.Equal(after.Groups, before.Groups) {
		t.Errorf("before %+v at %v, after %+v at %v", before, addr, after, now)
	}
	if _, err := r.NetworkInterfaces(before.NICs()[0]); err == nil {
		t.Error("the old interface is still there")
	}
	cluster := native.Ref{Kind: native.DatabaseCluster, Name: "sales"}
	x, err := r.Services().Get(cluster)
	if err != nil {
		t.Fatal(err)
	}
	writer, readers := w.LookUp(x.HostName()), w.LookUp(x.ReaderHost())
	if _, err := r.Services().Failover(cluster); err != nil {
		t.Fatal(err)
	}
	if w2, r2 := w.LookUp(x.HostName()), w.LookUp(x.ReaderHost()); len(writer) != 1 || len(readers) != 2 || len(w2) != 1 || len(r2) != 2 || w2[0] == writer[0] || !slices.Contains(readers, w2[0]) {
		t.Errorf("writer %v then %v, readers %v then %v", writer, w2, readers, r2)
	}
	if _, err := r.Services().Failover(native.Ref{Kind: native.Database, Name: "sales-1"}); err == nil {
		t.Error("a member was failed over by itself")
	}
}

// TestDocumentedServices: the services of docs/examples/estate can be loaded into its estate.
func TestDocumentedServices(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../../docs/examples/estate/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	whole, services := read("estate.yaml"), read("services.yaml")
	s, err := loadText(t, strings.Replace(whole, "    - name: ops\n", services+"    - name: ops\n", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := world.New(s, world.Options{}); err != nil {
		t.Fatal(err)
	}
	have := map[native.Kind]bool{}
	for _, r := range s.Regions {
		for _, x := range r.Services {
			have[x.Kind] = true
		}
	}
	for _, k := range native.Kinds() {
		if !have[k] && k != native.GatewayBalancer {
			t.Errorf("the example has no %s", k)
		}
	}
}

// TestServicesAtOnce changes, reads and judges services from many goroutines; it is for the race
// detector.
func TestServicesAtOnce(t *testing.T) {
	w, r := shop(t)
	vpc := vpcOf(t, r)
	groups, err := r.SecurityGroups()
	if err != nil {
		t.Fatal(err)
	}
	balancers := r.Services().List(native.AppBalancer)
	cluster, err := r.Services().Get(native.Ref{Kind: native.DatabaseCluster, Name: "sales"})
	if err != nil {
		t.Fatal(err)
	}
	flow := packet.Flow{
		Src: packet.End{VPC: vpc, Addr: netip.MustParseAddr("10.1.1.50")}, Dst: packet.End{VPC: vpc, Addr: netip.MustParseAddr("10.1.2.80")}, Protocol: 6, Port: 80,
	}
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for n := range 20 {
				_, err1 := r.Services().SetGroups("SetSecurityGroups", balancers[0].Ref(), []string{groups[(k+n)%len(groups)].ID})
				_, err2 := r.Services().Failover(cluster.Ref())
				_, err3 := r.Services().Scale(balancers[0].Ref(), 1+n%3)
				_, ok, err4 := w.Through(flow)
				if err := errors.Join(err1, err2, err3, err4); err != nil || !ok {
					t.Errorf("%v %v", ok, err)
				}
				if got := w.LookUp(cluster.HostName()); len(got) != 1 {
					t.Errorf("the writer is at %v", got)
				}
				if err := r.Services().SetTags("AddTags", balancers[0].Ref(), map[string]string{"n": strconv.Itoa(n)}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	state := w.State()
	if err := state.Check(); err != nil {
		t.Error(err)
	}
}

func TestServicesThatAreNone(t *testing.T) {
	base := strings.Split(shopYAML, "      services:\n")[0]
	for text, want := range map[string]string{
		"{kind: satellite, name: x}":                                               "there is no kind",
		"{kind: database, name: 1x, engine: mysql}":                                "not of the form",
		"{kind: database, name: x, groups: [nobody]}":                              "no group named",
		"{kind: database, name: x, subnets: [c]}":                                  "no subnet named",
		"{kind: application-load-balancer, name: x, listeners: [HTTP 80 to none]}": "listeners[0]",
		"{kind: database, name: x, ip: nowhere}":                                   "expected an address",
		"{kind: database, name: x, colour: red}":                                   "unknown field",
	} {
		if _, err := loadText(t, base+"      services:\n      - "+text+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	twice := "      - {kind: database, name: x, engine: mysql}\n"
	if _, err := loadText(t, base+"      services:\n"+twice+twice); err == nil || !strings.Contains(err.Error(), "appears twice") {
		t.Errorf("twice the same: %v", err)
	}
}
