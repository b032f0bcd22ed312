package realize

import (
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

// webInEdited closes port 80, opens 8080 to the web servers themselves, and cuts their way to an address block.
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

// dbNoShell drops what the database's own groups allow, and leaves its ingress open otherwise.
func dbNoShell() policy.Policy {
	p := clusterPolicy("db-no-shell", 1, 5)
	p.AppliedTo = applied("db")
	p.Ingress = []policy.Rule{{Action: policy.Drop, Peers: from("web", "ops"), Ports: ports(22)}}
	return p
}

// event is one step of a history; it changes the engine.
type event struct {
	name string
	do   func(*lab)
}

// history is the life of two policies.
func history() []event {
	return []event{
		{"two policies in", func(l *lab) {
			l.engine.PutPolicy(webIn())
			l.engine.PutPolicy(dbNoShell())
		}},
		{"one edited", func(l *lab) { l.engine.PutPolicy(webInEdited()) }},
		{"a VM changes its label", func(l *lab) { l.relabel("ops-1", "web") }},
		{"all out", func(l *lab) {
			l.engine.DeletePolicy(webIn().UID)
			l.engine.DeletePolicy(dbNoShell().UID)
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
