package live

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// TestPut takes in what flow logs have told: it is answered as all else, disagreements are alarms,
// a tenant sees what has an end of his and not whose account saw it, and what is older than memory
// is given back.
func TestPut(t *testing.T) {
	s := New(NewOwners(), 0, begun)
	now := begun.Add(2 * time.Hour)
	entry := func(ago time.Duration, differs string, port uint16) *Entry {
		at := now.Add(-ago).Truncate(time.Minute)
		return &Entry{
			Start: at, First: at, Last: at.Add(59 * time.Second), Enforcer: "cloud/ops/account", Direction: "In", Client: netip.MustParseAddr("192.0.2.7"), Server: netip.MustParseAddr("10.0.0.1"),
			ServerOwner: Owner{Kind: "ExternalEntity", Namespace: "shop", Name: "vm", Enforcer: "cloud/ops/account"}, Protocol: 6, Port: port, Verdict: "Allow", Differs: differs,
			Cause: Cause{Cause: "Policy", Type: "AntreaNetworkPolicy", Namespace: "shop", Name: "db", UID: "u", Direction: "In", Rule: "web"}, Connections: 2, Bytes: 100,
		}
	}
	entries := []*Entry{entry(10*time.Minute, "", 80), entry(10*time.Minute, "", 80), entry(20*time.Minute, "Cut", 81), entry(5*time.Minute, "RefusedByCloud", 82), entry(90*time.Minute, "", 83)}
	if older := s.Put("cloud/ops/account", entries, false, now); len(older) != 1 || older[0] != entries[4] {
		t.Errorf("%d are older", len(older))
	}
	if s.Stats().Losses.Forgotten != 1 {
		t.Error("what is kept nowhere is not counted")
	}
	for who, c := range map[string]struct {
		sight Sight
		want  string
	}{
		"everybody":                {all, "[82 2 RefusedByCloud cloud/ops/account 80 4  cloud/ops/account 81 2 Cut cloud/ops/account]"},
		"the tenant":               {Sight{Namespace: func(n string) bool { return n == "shop" }}, "[82 2 RefusedByCloud  80 4   81 2 Cut ]"},
		"of the account":           {Sight{Namespace: func(n string) bool { return n == "ops" }}, "[]"},
		"of a Namespace \"cloud\"": {Sight{Namespace: func(n string) bool { return n == "cloud" }}, "[]"},
	} {
		answer, err := s.Query(&analysis.FlowQuerySpec{}, c.sight, nil, now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range answer.Flows {
			got = append(got, fmt.Sprintf("%d %d %s %s", x.Port, x.Connections, x.Differs, x.Enforcer))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", who, got, c.want)
		}
	}
	if d := s.Disagreements(now); len(d) != 1 || d[0].Differs != "Cut" || d[0].Port != 81 {
		t.Errorf("%+v", d)
	}
	bad := allowed(netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("10.0.0.1"), 80, 0)
	bad.Differs = "Cut"
	if refused, err := s.Add("worker", report(now, bad), concernsAll, now); refused != 1 || err != nil {
		t.Errorf("an agent tells of what only a cloud drops: %d refused, %v", refused, err)
	}
}
