package agent_test

import (
	"testing"

	"github.com/google/nftables"
)

// TestTellsOfForeignFirewalls: a firewall that somebody else brings to the host is told, because it
// can drop what policies allow.
func TestTellsOfForeignFirewalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, _ := f.start()
	f.allow(80, 1, "")
	f.eventually("the policy is enforced", func() bool { return len(a.Status().Policies) == 1 && f.open(80) })
	if got := a.Status().Host.Foreign; len(got) > 0 {
		t.Fatalf("nobody else filters here: %q", got)
	}
	var others *nftables.Conn
	if err := f.host.Do(func() (err error) { others, err = nftables.New(nftables.AsLasting()); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = others.CloseLasting() })
	drop := nftables.ChainPolicyDrop
	table := others.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "firewall"})
	others.AddChain(
		&nftables.Chain{Table: table, Name: "incoming", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &drop},
	)
	if err := others.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "chain incoming of table inet firewall filters input, with 0 rules; what none of them decides it drops"
	f.eventually("the firewall is told", func() bool { s := a.Status(); return len(s.Host.Foreign) == 1 && s.Host.Foreign[0] == want })
	others.DelTable(table)
	if err := others.Flush(); err != nil {
		t.Fatal(err)
	}
	f.eventually("it is gone", func() bool { return len(a.Status().Host.Foreign) == 0 })
}
