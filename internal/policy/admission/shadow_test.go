package admission

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

// TestNeverMatches: a rule that one before it leaves nothing is told with that rule; one that may
// still match something is not.
func TestNeverMatches(t *testing.T) {
	block := func(cidr string) []policy.Peer { return []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: cidr}}} }
	port := func(from, to int32) []policy.Port {
		return []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: from}, EndPort: &to}}
	}
	named := []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Name: "http"}}}
	onDB := []policy.AppliedTo{{Group: "db"}}
	type rules = []policy.Rule
	for name, c := range map[string]struct {
		rules rules
		never bool
	}{
		"after all":                {rules{{Name: "first"}, {Peers: block("10.0.0.0/8"), Ports: port(22, 22)}}, true},
		"a wider block":            {rules{{Name: "first", Peers: block("10.0.0.0/8")}, {Peers: block("10.1.0.0/16"), Ports: port(22, 22)}}, true},
		"a wider range":            {rules{{Name: "first", Ports: port(1, 1024)}, {Ports: port(80, 443), Peers: block("10.0.0.0/8")}}, true},
		"the same":                 {rules{{Name: "first", Ports: named}, {Ports: named, Action: policy.Drop}}, true},
		"a narrower block":         {rules{{Peers: block("10.1.0.0/16")}, {Peers: block("10.0.0.0/8")}}, false},
		"another block":            {rules{{Peers: block("10.0.0.0/8")}, {Peers: block("172.16.0.0/12")}}, false},
		"the other family":         {rules{{Peers: block("0.0.0.0/0")}, {Peers: block("2001:db8::/32")}}, false},
		"everybody after a block":  {rules{{Peers: block("0.0.0.0/0")}, {}}, false},
		"a range that reaches out": {rules{{Ports: port(80, 443)}, {Ports: port(443, 444)}}, false},
		"a name after a number":    {rules{{Ports: port(1, 65535)}, {Ports: named}}, false},
		"all after a port":         {rules{{Ports: port(22, 22)}, {}}, false},
		"nobody first":             {rules{{NoPeers: true}, {Ports: port(22, 22)}}, false},
		"applied to somebody else": {rules{{AppliedTo: onDB}, {Ports: port(22, 22)}}, false},
		"what layer 7 decides":     {rules{{L7Protocols: []policy.L7Protocol{{}}}, {Ports: port(22, 22)}}, false},
	} {
		for side, p := range map[string]*policy.Policy{"spec.ingress[1]": {Ingress: c.rules}, "spec.egress[1]": {Egress: c.rules}} {
			got := NeverMatches(p)
			if (len(got) == 1) != c.never || len(got) > 1 {
				t.Errorf("%s: %v", name, got)
				continue
			}
			if c.never && (got[0].Field != side || !strings.Contains(got[0].Error(), strings.Replace(side, "[1]", "[0]", 1)+` ("first"), which matches all that it matches`)) {
				t.Errorf("%s: %s", name, got[0].Error())
			}
		}
	}
	if got := NeverMatches(&policy.Policy{Ingress: rules{{}}, Egress: rules{{}}}); len(got) > 0 {
		t.Errorf("the two directions: %v", got)
	}
}
