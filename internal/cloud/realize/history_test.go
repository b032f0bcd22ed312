package realize

import (
	"net/netip"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
)

func role(names ...string) *policy.Selector {
	return &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "role", Operator: "In", Values: names}}}
}

func applied(roles ...string) []policy.AppliedTo {
	return []policy.AppliedTo{{ExternalEntitySelector: role(roles...)}}
}

func from(roles ...string) []policy.Peer {
	return []policy.Peer{{ExternalEntitySelector: role(roles...)}}
}

func block(cidr string) []policy.Peer {
	return []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: cidr}}}
}

func ports(numbers ...int32) []policy.Port {
	var out []policy.Port
	for _, n := range numbers {
		out = append(out, policy.Port{Protocol: policy.TCP, Port: &policy.PortRef{Number: n}})
	}
	return out
}

func clusterPolicy(name string, generation int64, priority float64) policy.Policy {
	return policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: name, UID: "uid-" + name, Generation: generation, Priority: priority}
}

// webIn isolates the ingress of the web servers.
func webIn() policy.Policy {
	p := clusterPolicy("web-in", 1, 10)
	p.AppliedTo = applied("web")
	p.Ingress = []policy.Rule{
		{Action: policy.Allow, Peers: block("0.0.0.0/0"), Ports: ports(80, 443)},
		{Action: policy.Allow, Peers: from("ops"), Ports: ports(22)},
	}
	return p
}

// webInEdited closes port 80, opens 8080 to the web servers themselves, and cuts their way to an
// address block.
func webInEdited() policy.Policy {
	p := webIn()
	p.Generation = 2
	p.Ingress = []policy.Rule{
		{Action: policy.Allow, Peers: block("0.0.0.0/0"), Ports: ports(443)},
		{Action: policy.Allow, Peers: from("ops"), Ports: ports(22)},
		{Action: policy.Allow, Peers: from("web"), Ports: ports(8080)},
	}
	p.Egress = []policy.Rule{{Action: policy.Drop, Peers: block("198.51.100.0/24")}}
	return p
}

// webInMoved has another port instead of 443, and 8080 grows to a range: rules become others in
// place.
func webInMoved() policy.Policy {
	p := webInEdited()
	p.Generation = 3
	p.Ingress[0].Ports = ports(8443)
	last := int32(8090)
	p.Ingress[2].Ports[0].EndPort = &last
	return p
}

// dbNoShell drops what the database's own groups allow, and leaves its ingress open otherwise.
func dbNoShell() policy.Policy {
	p := clusterPolicy("db-no-shell", 1, 5)
	p.AppliedTo = applied("db")
	p.Ingress = []policy.Rule{{Action: policy.Drop, Peers: from("web", "ops"), Ports: ports(22)}}
	return p
}

// event is one step of a history. It changes policies or modes: the realizer hears of these by two
// ways, and nobody says which of them is faster.
type event struct {
	name string
	// do changes the engine; it may be nil.
	do func(*lab)
	// modes holds the modes of the VMs from now on, by name; nil leaves them as they are.
	modes map[string]plan.Mode
	// release is set if the account is deleted.
	release bool
	// midway is what happens when the cloud has been changed so many times because of the
	// event, while the plan is on its way.
	midway func(*lab)
	after  int
}

// history is the life of two policies.
func history() []event {
	return []event{
		{name: "two policies in", do: func(l *lab) {
			l.engine.PutPolicy(webIn())
			l.engine.PutPolicy(dbNoShell())
		}},
		{name: "one edited", do: func(l *lab) { l.engine.PutPolicy(webInEdited()) }},
		{name: "other ports", do: func(l *lab) { l.engine.PutPolicy(webInMoved()) }},
		{name: "a VM changes its label", do: func(l *lab) { l.relabel("ops-1", "web") }},
		{name: "all out", do: out},
	}
}

func out(l *lab) {
	for _, p := range []policy.Policy{webIn(), dbNoShell(), inside(), noShell()} {
		l.engine.DeletePolicy(p.UID)
	}
}

// inside lets the VMs of the shop talk to one another only, in both directions.
func inside() policy.Policy {
	p := clusterPolicy("inside", 1, 20)
	p.AppliedTo = applied("web", "db", "ops")
	p.Ingress = []policy.Rule{{Action: policy.Allow, Peers: from("web", "db", "ops"), Ports: ports(22, 5432, 8080)}}
	p.Egress = []policy.Rule{{Action: policy.Allow, Peers: from("web", "db", "ops")}, {Action: policy.Allow, Peers: block("203.0.113.0/24"), Ports: ports(443)}}
	return p
}

// noShell drops SSH from everywhere, but for what is failsafe.
func noShell() policy.Policy {
	p := clusterPolicy("no-shell", 1, 1)
	p.AppliedTo = applied("web", "db", "ops")
	p.Ingress = []policy.Rule{{Action: policy.Drop, Ports: ports(22)}}
	return p
}

// story is a history with what it happens to.
type story struct {
	name   string
	cfg    labConfig
	events []event
}

// stories are what the matrix of faults is made of: each is realized with every call disturbed in
// every way.
func stories() []story {
	several := func() []event {
		return []event{
			{name: "all VMs taken over by two policies", do: func(l *lab) {
				l.engine.PutPolicy(inside())
				l.engine.PutPolicy(dbNoShell())
			}},
			{name: "three labels and a policy change together", do: func(l *lab) {
				l.relabel("web-1", "ops")
				l.relabel("ops-1", "web")
				l.relabel("db-1", "web")
				l.engine.PutPolicy(webInEdited())
			}},
			{name: "all out", do: out},
		}
	}
	all := func(m plan.Mode) map[string]plan.Mode {
		return map[string]plan.Mode{"web-1": m, "web-2": m, "db-1": m, "ops-1": m}
	}
	return []story{
		{"two policies", labConfig{}, history()},
		{"several VMs", labConfig{}, several()},
		{"in waves", labConfig{maxPerWave: 1}, several()},
		{"modes", labConfig{}, []event{
			{name: "only planned for", modes: all(plan.Planned)},
			{name: "two policies", do: func(l *lab) { l.engine.PutPolicy(webIn()); l.engine.PutPolicy(dbNoShell()) }},
			{name: "enforced", modes: map[string]plan.Mode{}},
			{name: "only planned for again", modes: all(plan.Planned)},
			{name: "edited meanwhile", do: func(l *lab) { l.engine.PutPolicy(webInEdited()) }},
			// A released interface has no interface under control in its own groups' rules; see
			// docs/decisions/0003-dependents.md for the others.
			{name: "two released, two enforced", modes: map[string]plan.Mode{"web-1": plan.Released, "ops-1": plan.Released}},
			{name: "the glass of the others broken", modes: map[string]plan.Mode{
				"web-1": plan.Released, "ops-1": plan.Released, "web-2": plan.BreakGlass, "db-1": plan.BreakGlass}},
			{name: "enforced again", modes: map[string]plan.Mode{}},
			{name: "all released", modes: all(plan.Released)},
			{name: "all out", do: out},
			{name: "to be enforced, if there were anything", modes: map[string]plan.Mode{}},
		}},
		{"two regions", labConfig{regions: []string{home, away}}, []event{
			{name: "a policy in both", do: func(l *lab) { l.engine.PutPolicy(everywhere()) }},
			{name: "another one", do: func(l *lab) { l.engine.PutPolicy(dbNoShell()) }},
			{name: "all out", do: out},
		}},
		{"changed midway", labConfig{}, []event{
			{name: "two released while all are taken over", do: func(l *lab) { l.engine.PutPolicy(inside()); l.engine.PutPolicy(dbNoShell()) },
				after: 9, midway: func(l *lab) { l.turn(map[string]plan.Mode{"web-1": plan.Released, "ops-1": plan.Released}) }},
			{name: "other credentials while these come back", modes: map[string]plan.Mode{}, after: 3, midway: func(l *lab) { l.exchange() }},
			{name: "only planned for while a policy changes", do: func(l *lab) { l.engine.PutPolicy(webInEdited()) },
				after: 2, midway: func(l *lab) { l.turn(all(plan.Planned)) }},
			{name: "moved meanwhile", do: func(l *lab) { l.engine.PutPolicy(webInMoved()) }},
			{name: "enforced again, with other credentials on the way", modes: map[string]plan.Mode{}, after: 1, midway: func(l *lab) { l.exchange() }},
			{name: "the account deleted while labels change", do: func(l *lab) { l.relabel("web-1", "ops"); l.relabel("ops-1", "web") },
				after: 2, midway: func(l *lab) { l.release() }},
		}},
		{"peered, IPv6, failsafe", labConfig{estate: "testdata/twins.yaml", failsafe: []plan.FailsafeFlow{{
			Direction: cloud.Ingress, Services: []plan.Service{{Protocol: cloud.TCP, From: 22, To: 22}},
			Peers: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:ffff::/48")},
		}}}, []event{
			{name: "both networks taken over", do: func(l *lab) {
				l.engine.PutPolicy(inside())
				l.engine.PutPolicy(noShell())
			}},
			{name: "labels and a policy change together", do: func(l *lab) {
				l.relabel("web-2", "ops")
				l.relabel("ops-2", "web")
				l.engine.PutPolicy(webInEdited())
			}},
			{name: "one network less", do: func(l *lab) {
				l.engine.DeletePolicy(inside().UID)
			}},
			{name: "all out", do: out},
		}},
		{"a database that follows", labConfig{follows: []string{"db", "watched"}, stay: []string{"db-1"}}, []event{
			{name: "the web servers taken over", do: func(l *lab) { l.engine.PutPolicy(webIn()) }},
			{name: "one more, by its label", do: func(l *lab) { l.relabel("ops-1", "web") }},
			{name: "an edit", do: func(l *lab) { l.engine.PutPolicy(webInEdited()) }},
			{name: "all out", do: out},
		}},
		{"account deleted", labConfig{}, []event{
			{name: "taken over", do: func(l *lab) { l.engine.PutPolicy(inside()) }},
			{name: "deleted", release: true},
		}},
	}
}

// relabel gives a VM's entity another role.
func (l *lab) relabel(name, role string) {
	vm := l.vms[name]
	vm.labels = map[string]string{"role": role}
	l.vms[name] = vm
	l.putEntity(name)
}
