package aws_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	policies "github.com/nephele-io/nephele/internal/cloud/aws/rights"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/sim/iam"
)

// served is an account with a service of each kind, and two databases that look alike.
const served = `
accounts:
- id: "111122223333"
  regions:
  - name: us-west-2
    vpcs:
    - name: shop
      id: vpc-00000001
      cidrs: [10.1.0.0/16]
      groups:
      - {name: web, rules: ["tcp 80 from any"]}
      - {name: db, rules: ["tcp 5432 from any"]}
      - {name: twins, rules: ["tcp 3306 from any"]}
      vms:
      - {name: web-1, ip: 10.1.1.10, groups: [web]}
      targetGroups:
      - {name: web, protocol: HTTP, port: 8080, targets: [web-1], healthPort: 8081}
      - {name: plain, protocol: TCP, port: 9000, targets: [10.1.1.10], preserveClientIP: true}
      services:
      - {kind: application-load-balancer, name: front, groups: [web], listeners: [HTTP 80 to web], tags: {tier: edge}}
      - {kind: network-load-balancer, name: pass, listeners: [TCP_UDP 53 to plain]}
      - {kind: database, name: orders, engine: postgres, multiZone: true, groups: [db], tags: {team: shop}}
      - {kind: database, name: left, engine: mysql, groups: [twins]}
      - {kind: database, name: right, engine: mysql, groups: [twins]}
      - {kind: cache, name: pages, engine: memcached, groups: [db]}
      - {kind: endpoint, name: queue, service: com.amazonaws.us-west-2.sqs, groups: [db]}
      - {kind: function, name: resize, groups: [web]}
      - {kind: file-system, name: homes, groups: [db], tags: {team: home}}
`

func servedLab(t *testing.T, rights *iam.Policy) *lab {
	t.Helper()
	state := estatetest.Parse(t, served)
	state.Credentials[0].Policy = rights
	return newLab(t, sim.Options{State: state})
}

// readServices are the services of a snapshot by kind and name, each in short.
func readServices(s *cloud.Snapshot) map[string]string {
	out := map[string]string{}
	for _, x := range s.Services {
		var ports []string
		for _, p := range x.Ports {
			ports = append(ports, fmt.Sprintf("%s=%d", p.Name, p.Port))
		}
		name := x.Name
		if strings.HasPrefix(x.ID, "eni-") {
			name = "an interface"
		}
		text := fmt.Sprintf("%s; %v; %d interfaces, %d groups", strings.Join(ports, " "), x.Tags, len(x.Interfaces), len(x.GroupIDs))
		if x.Ambiguous != "" {
			text += "; ambiguous"
		}
		out[string(x.Kind)+" "+name] = text
	}
	return out
}

// TestServicesOverTheWire: the services of an account with their names, tags, ports and interfaces,
// as the official clients read them; only the APIs of the kinds that are asked for are called.
func TestServicesOverTheWire(t *testing.T) {
	t.Parallel()
	l := servedLab(t, written(t, policies.Pins{Mode: policies.Plan, Services: true}))
	snap, err := l.provider.Show(cloud.ServiceKinds()).Observe(t.Context(), l.scope())
	if err != nil || len(snap.ServiceFaults) > 0 {
		t.Fatalf("%v %+v", err, snap.ServiceFaults)
	}
	got := readServices(snap)
	for name, want := range map[string]string{
		"ApplicationLoadBalancer front": "http=80 http-80=80; map[tier:edge]; ", "RDSInstance orders": "postgres=5432; map[team:shop]; 1 interfaces, 1 groups",
		"RDSInstance left": "mysql=3306; map[]; 0 interfaces, 1 groups; ambiguous", "RDSInstance right": "mysql=3306; map[]; 0 interfaces, 1 groups; ambiguous",
		"ElastiCacheCluster pages": "memcached=11211; map[]; 1 interfaces, 1 groups", "LambdaFunction resize": "; map[]; ", "EFSFileSystem homes": "nfs=2049; ",
	} {
		if !strings.HasPrefix(got[name], want) {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 9 {
		t.Errorf("%q", got)
	}
	for _, x := range snap.Services {
		if x.NetworkID != "vpc-00000001" || !strings.HasPrefix(x.ID, "arn:aws:") || x.Ambiguous == "" && len(x.Private) == 0 {
			t.Errorf("%+v", x)
		}
	}
	// Where interfaces tell whose they are, they tell the same as the API.
	bare, err := servedLab(t, written(t, policies.Pins{Mode: policies.Plan})).provider.Show([]cloud.ServiceKind{cloud.ApplicationLoadBalancer}).Observe(t.Context(), l.scope())
	if err != nil || len(bare.Services) != 1 || len(bare.ServiceFaults) != 1 {
		t.Fatalf("%v %+v", err, bare)
	}
	if i := slices.IndexFunc(snap.Services, func(x cloud.Service) bool { return x.Name == "front" }); i < 0 || snap.Services[i].ID != bare.Services[0].ID {
		t.Errorf("the balancer has the id %s by its interfaces", bare.Services[0].ID)
	}
	before := len(l.server.Journal().Calls(0))
	if _, err := l.provider.Show([]cloud.ServiceKind{cloud.RDSInstance}).Observe(t.Context(), l.scope()); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, c := range l.server.Journal().Calls(0)[before:] {
		asked[c.Action] = true
	}
	if !asked["DescribeDBInstances"] || asked["DescribeLoadBalancers"] || asked["ListFunctions"] || asked["DescribeVpcEndpoints"] {
		t.Errorf("%v", asked)
	}
}

// handsOn are the listeners of a load balancer in short.
func handsOn(s *cloud.Snapshot, name string) (out []string) {
	for _, x := range s.Services {
		if x.Name != name {
			continue
		}
		for _, l := range x.Listeners {
			for _, g := range l.Groups {
				text := fmt.Sprintf("%d %d to %s %t %s", l.Protocol, l.Port, g.Name, g.Preserved, g.Unknown)
				for _, t := range g.Targets {
					text += fmt.Sprintf(" [%s%v%s:%d/%d]", t.VMID[:min(2, len(t.VMID))], t.Addr, t.ServiceID, t.Port, t.HealthPort)
				}
				out = append(out, text)
			}
		}
	}
	return out
}

// TestTargetsOverTheWire: listeners with their target groups and targets, the sources that these
// see, and where their health is checked; without the rights the balancers are known all the same,
// and a remark names the missing right.
func TestTargetsOverTheWire(t *testing.T) {
	t.Parallel()
	document, err := policies.Document(policies.Pins{Mode: policies.Plan, Services: true})
	if err != nil {
		t.Fatal(err)
	}
	application, network := []string{"6 80 to web false  [i-invalid IP:8080/8081]"}, []string{"6 53 to plain true  [10.1.1.10:9000/9000]", "17 53 to plain true  [10.1.1.10:9000/9000]"}
	unread := func(list []string) (out []string) {
		for _, text := range list {
			out = append(out, text[:strings.Index(text, " to ")]+map[bool]string{true: " to web", false: " to plain"}[strings.Contains(text, " web")]+" false its targets were not read")
		}
		return out
	}
	for _, c := range []struct {
		lacks                string
		application, network []string
	}{
		{"", application, network},
		{"DescribeTargetGroups", unread(application), unread(network)},
		{"DescribeTargetHealth", unread(application), unread(network)},
		{"DescribeTargetGroupAttributes", application, unread(network)},
	} {
		text := string(document)
		if c.lacks != "" {
			text = strings.Replace(text, `"elasticloadbalancing:`+c.lacks+`"`, `"elasticloadbalancing:Nothing"`, 1)
		}
		rights, err := iam.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		l := servedLab(t, rights)
		provider := l.provider.Show(cloud.ServiceKinds())
		for range 2 {
			snap, err := provider.Observe(t.Context(), l.scope())
			if err != nil {
				t.Fatal(err)
			}
			if faults := snap.ServiceFaults; (len(faults) > 0) != (c.lacks != "") || len(faults) > 0 && (faults[0].API != "Elastic Load Balancing targets" ||
				!strings.Contains(faults[0].Right, c.lacks) || cloud.ClassOf(faults[0].Err) != cloud.Auth || len(faults[0].Kinds) > 0) {
				t.Errorf("without %s: %+v", c.lacks, faults)
			}
			if got := handsOn(snap, "pass"); !slices.Equal(got, c.network) {
				t.Errorf("without %s: %q, want %q", c.lacks, got, c.network)
			}
			if got := readServices(snap)["ApplicationLoadBalancer front"]; !strings.HasPrefix(got, "http=80 http-80=80; map[tier:edge]; ") {
				t.Errorf("without %s: %q", c.lacks, got)
			}
			if got := handsOn(snap, "front"); !slices.Equal(got, c.application) {
				t.Errorf("without %s: %q, want %q", c.lacks, got, c.application)
			}
		}
	}
}

// TestMissingRightOfService: one right that is missing is told, with its name; its services are
// known by their interfaces, and all others as before.
func TestMissingRightOfService(t *testing.T) {
	t.Parallel()
	document, err := policies.Document(policies.Pins{Mode: policies.Plan, Services: true})
	if err != nil {
		t.Fatal(err)
	}
	less, err := iam.Parse([]byte(strings.Replace(string(document), `"rds:DescribeDBInstances"`, `"rds:Nothing"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	l := servedLab(t, less)
	snap, err := l.provider.Show(cloud.ServiceKinds()).Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	if f := snap.ServiceFaults; len(f) != 1 || f[0].Right != "rds:DescribeDBInstances" || cloud.ClassOf(f[0].Err) != cloud.Auth {
		t.Errorf("%+v", f)
	}
	got := readServices(snap)
	if got["ApplicationLoadBalancer front"] == "" || got["RDSInstance orders"] != "" || !strings.HasPrefix(got["RDSInstance an interface"], "; map[]; 1 interfaces") {
		t.Errorf("%q", got)
	}
}

// TestServicesFollow: what an API says is not forgotten while it fails; where a database has moved
// to is known from its interface, by an event that names that, without a question to the API.
func TestServicesFollow(t *testing.T) {
	t.Parallel()
	l := servedLab(t, nil)
	p := l.provider.Show([]cloud.ServiceKind{cloud.RDSInstance})
	orders := func(s *cloud.Snapshot) *cloud.Service {
		t.Helper()
		i := slices.IndexFunc(s.Services, func(x cloud.Service) bool { return x.Name == "orders" })
		if i < 0 || len(s.Services[i].Private) != 1 {
			t.Fatalf("%+v", s.Services)
		}
		return &s.Services[i]
	}
	first, err := p.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	was := orders(first)
	before := len(l.server.Journal().Calls(0))
	l.failover("orders")
	next, err := p.(cloud.Refresher).Refresh(t.Context(), first, append(l.nics(), was.Interfaces...))
	if err != nil {
		t.Fatal(err)
	}
	is := orders(next)
	if is.Private[0] == was.Private[0] || is.ID != was.ID || is.Ports[0].Name != "postgres" {
		t.Errorf("was %+v, is %+v", was, is)
	}
	for _, c := range l.server.Journal().Calls(0)[before:] {
		if c.Action == "DescribeDBInstances" {
			t.Error("the API is asked because of an event")
		}
	}
	l.server.Faults().Add(ec2.Fault{Times: -1, Action: "DescribeDBInstances", Code: "InternalFailure", Status: 500})
	last, err := p.Observe(t.Context(), l.scope())
	if err != nil || len(last.ServiceFaults) != 1 || cloud.ClassOf(last.ServiceFaults[0].Err) != cloud.Unavailable {
		t.Fatalf("%v %+v", err, last)
	}
	if got := orders(last); got.Private[0] != is.Private[0] || got.Tags["team"] != "shop" {
		t.Errorf("%+v", got)
	}
}

// failover moves a database to its standby.
func (l *lab) failover(name string) {
	l.Helper()
	answer, err := http.Post(l.server.URL()+"/_sim/failover?kind=database&name="+name, "", nil)
	if err != nil {
		l.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		l.Fatal(err, answer.Status)
	}
}

// nics are the interfaces that there are.
func (l *lab) nics() (out []string) {
	for _, r := range l.server.World().State().Regions {
		for _, n := range r.NetworkInterfaces {
			out = append(out, n.ID)
		}
	}
	return out
}
