package realize

import (
	"fmt"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

// tooMany are more addresses than an interface can have rules.
func tooMany() []policy.Peer {
	var out []policy.Peer
	for i := range 400 {
		out = append(out, policy.Peer{IPBlock: &policy.IPBlock{CIDR: fmt.Sprintf("192.0.%d.%d/32", i/100, 2*(i%100))}})
	}
	return out
}

// TestKeptOverRestarts: while no controller runs, one policy outgrows the quota and another that
// does not fit comes; others change. The first one stays in force as it was, on its VMs, the second
// never is, and the third follows beside it, in whatever life of the controller that is planned.
func TestKeptOverRestarts(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(webIn())
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.start()
	l.settle()
	before := l.actual()
	l.halt()

	big := webIn()
	big.Generation, big.Ingress[0].Peers = 2, tooMany()
	l.engine.PutPolicy(big)
	never := clusterPolicy("db-never", 1, 1)
	never.AppliedTo = applied("db")
	never.Ingress = []policy.Rule{{Action: policy.Allow, Peers: tooMany(), Ports: ports(5432)}}
	l.engine.PutPolicy(never)
	edited := dbNoShell()
	edited.Generation, edited.Ingress[0].Ports = 2, ports(8080)
	l.engine.PutPolicy(edited)
	l.publish()
	want := verdicts{}
	for p, pass := range before {
		if p.to == "db-1" && p.port == 22 && (p.from == "web-1" || p.from == "web-2") {
			pass = true // again, as the database's own group says
		}
		if p.to == "db-1" && p.port == 8080 && p.from != "db-1" && l.vms[p.from].nic != "" {
			pass = false
		}
		want[p] = pass
	}
	for life := range 3 {
		l.start()
		for range 2 {
			l.settle()
			if d := compare(l.actual(), want); d != "" {
				t.Errorf("life %d:\n%s", life, d)
			}
			l.accounts.observe(t.Context())
		}
		l.halt()
	}
}
