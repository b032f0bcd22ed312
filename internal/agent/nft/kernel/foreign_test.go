package kernel_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// TestForeign puts firewalls of others beside our table.
func TestForeign(t *testing.T) {
	host := nfttest.NewHost(t)
	table := open(t, host)
	if _, err := table.Apply(programs(1, 1)[0]); err != nil {
		t.Fatal(err)
	}
	want := func(filters ...kernel.Filter) {
		t.Helper()
		got, err := table.Foreign()
		if err != nil || cmp.Diff(filters, got) != "" {
			t.Errorf("%v %s", err, cmp.Diff(filters, got))
		}
	}
	want()
	var others *nftables.Conn
	if err := host.Do(func() (err error) { others, err = nftables.New(nftables.AsLasting()); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = others.CloseLasting() })
	drop, accept := nftables.ChainPolicyDrop, nftables.ChainPolicyAccept
	chain := func(family nftables.TableFamily, name string, kind nftables.ChainType, hook *nftables.ChainHook, policy *nftables.ChainPolicy) *nftables.Chain {
		x := others.AddTable(&nftables.Table{Family: family, Name: "t-" + name})
		return others.AddChain(&nftables.Chain{Table: x, Name: name, Type: kind, Hooknum: hook, Priority: nftables.ChainPriorityFilter, Policy: policy})
	}
	rule := func(c *nftables.Chain) {
		others.AddRule(&nftables.Rule{Table: c.Table, Chain: c, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}})
	}
	chain(nftables.TableFamilyINet, "empty", nftables.ChainTypeFilter, nftables.ChainHookInput, &accept)
	chain(nftables.TableFamilyIPv4, "closed", nftables.ChainTypeFilter, nftables.ChainHookInput, &drop)
	rule(chain(nftables.TableFamilyIPv6, "out", nftables.ChainTypeFilter, nftables.ChainHookOutput, &accept))
	rule(chain(nftables.TableFamilyIPv4, "routed", nftables.ChainTypeFilter, nftables.ChainHookForward, &drop))
	rule(chain(nftables.TableFamilyIPv4, "nat", nftables.ChainTypeNAT, nftables.ChainHookOutput, &accept))
	if err := others.Flush(); err != nil {
		t.Fatal(err)
	}
	want(kernel.Filter{Family: "ip", Table: "t-closed", Chain: "closed", Hook: "input", Drops: true},
		kernel.Filter{Family: "ip6", Table: "t-out", Chain: "out", Hook: "output", Rules: 1})
}
