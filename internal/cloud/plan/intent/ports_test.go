package intent_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
)

// TestNamedPorts: in ingress a name means what it means to the VM, and in egress what it means to
// each peer.
func TestNamedPorts(t *testing.T) {
	port := func(name string, number int32, protocol v1beta2.Protocol) v1beta2.NamedPort {
		return v1beta2.NamedPort{Name: name, Port: number, Protocol: protocol}
	}
	// with gives ports to the members of what was made last: the subjects, or the peers.
	subject := func(ports ...v1beta2.NamedPort) func(*world) {
		return func(w *world) { w.AppliedToGroups[0].GroupMembers[0].Ports = ports }
	}
	peers := func(ports ...v1beta2.NamedPort) func(*world) { // the i-th port is that of the i-th peer
		return func(w *world) {
			for i, p := range ports {
				w.AddressGroups[0].GroupMembers[i].Ports = []v1beta2.NamedPort{p}
			}
		}
	}
	both := func(changes ...func(*world)) func(*world) {
		return func(w *world) {
			for _, change := range changes {
				change(w)
			}
		}
	}
	number := func(w *world) { // the rule names port 80, too
		tcp, at := v1beta2.ProtocolTCP, intstr.FromInt32(80)
		r := &w.Policies[0].Rules[0]
		r.Services = append(r.Services, v1beta2.Service{Protocol: &tcp, Port: &at})
	}
	udp := func(w *world) {
		protocol := v1beta2.ProtocolUDP
		w.Policies[0].Rules[0].Services[0].Protocol = &protocol
	}
	many := func(w *world) {
		m := &w.AddressGroups[0].GroupMembers[0]
		for n := range int32(65) {
			m.Ports = append(m.Ports, port("http", 6000+n, "TCP"))
		}
	}
	nobody := func(w *world) { w.AddressGroups[0].GroupMembers = nil }
	for name, c := range map[string]struct {
		rule    string
		change  func(*world)
		want    string // in the direction of the rule
		problem string
	}{
		"the VM has the name":                        {"allow ingress http from app", subject(port("http", 8080, "TCP")), "tcp 8080 10.0.0.11", ""},
		"without a protocol it is TCP":               {"allow ingress http from app", subject(port("http", 8080, "")), "tcp 8080 10.0.0.11", ""},
		"one name may mean two ports":                {"allow ingress http from app", subject(port("http", 8080, "TCP"), port("http", 53, "UDP")), "tcp 8080 10.0.0.11; udp 53 10.0.0.11", ""},
		"but for the protocol of the rule":           {"allow ingress http from app", both(udp, subject(port("http", 8080, "TCP"), port("http", 53, "UDP"))), "udp 53 10.0.0.11", ""},
		"it has another one":                         {"allow ingress http from app", subject(port("metrics", 8080, "TCP")), "nothing", "NamedPortUnknown"},
		"a number beside the name holds as well":     {"allow ingress http from app", both(number, subject(port("http", 8080, "TCP"))), "tcp 80 10.0.0.11; tcp 8080 10.0.0.11", ""},
		"and does not excuse a name that means none": {"allow ingress http from app", both(number, subject(port("metrics", 8080, "TCP"))), "tcp 80 10.0.0.11", "NamedPortUnknown"},
		"it may be that very number":                 {"allow ingress http from app", both(number, subject(port("http", 80, "TCP"))), "tcp 80 10.0.0.11", ""},

		"each peer has its own number":                      {"allow egress http to app db", peers(port("http", 8080, "TCP"), port("http", 8081, "TCP")), "tcp 8080 10.0.0.11; tcp 8081 10.0.0.12", ""},
		"a peer without the name is not sent to":            {"allow egress http to app db", peers(port("http", 8080, "TCP")), "tcp 8080 10.0.0.11", ""},
		"nor is a block":                                    {"allow egress http to app 10.9.0.0/16", peers(port("http", 8080, "TCP")), "tcp 8080 10.0.0.11", ""},
		"but at a number that stands beside":                {"allow egress http to app 10.9.0.0/16", both(number, peers(port("http", 8080, "TCP"))), "tcp 80 10.0.0.11, 10.9.0.0/16; tcp 8080 10.0.0.11", ""},
		"the name of the subject says nothing":              {"allow egress http to app", both(subject(port("http", 1, "TCP")), peers(port("http", 8080, "TCP"))), "tcp 8080 10.0.0.11", ""},
		"no peer has the name":                              {"allow egress http to app", peers(port("metrics", 8080, "TCP")), "nothing", "InRule>NamedPortOfPeer"},
		"without peers there is nothing to allow":           {"allow egress http to app", nobody, "nothing", ""},
		"a name that means very many numbers is no name":    {"allow egress http to app", many, "nothing", "InRule>NamedPortVaries"},
		"a drop by name takes out of what the groups allow": {"drop egress http to app", both(peers(port("http", 81, "TCP")), func(w *world) { w.Native("sg-web", "egress tcp 80-81 to 10.0.0.10/31") }), "tcp 80 10.0.0.10/31; tcp 81 10.0.0.10", ""},
	} {
		w := intenttest.New("web", "app", "db")
		w.Policy("p", "web", c.rule)
		c.change(w)
		direction := 0
		if c.rule[len("allow "):][:1] == "e" || c.rule[len("drop "):][:1] == "e" {
			direction = 1
		}
		if got := allowed(w, "web")[direction]; got != c.want && c.problem == "" {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		web := vmOf(w.Region(), "web")
		if got := codes(web.Problems[web.Policies[0]]); got != c.problem {
			t.Errorf("%s: the problem is %q, want %q", name, got, c.problem)
		}
	}
}
