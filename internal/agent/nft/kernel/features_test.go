package kernel

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// without makes a table take the kernel for one without a feature: transactions with some bytes in
// a message fail as there.
func without(t *testing.T, host *nfttest.Host, errno error, words ...string) *Table {
	t.Helper()
	var table *Table
	if err := host.Do(func() (err error) { table, err = Open(DefaultTable); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	whole := table.commit
	table.commit = func(list []netfilter.Message) error {
		for _, m := range list {
			for _, w := range words {
				if bytes.Contains(m.Attrs, []byte(w)) {
					return errno
				}
			}
		}
		return whole(list)
	}
	return table
}

// featureful is a program that needs all features.
func featureful() *ruleset.Program {
	origin := &ruleset.Origin{Kind: ruleset.OriginPolicy, Name: "no"}
	family := ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(ruleset.IPv4)}
	port := []ruleset.Match{family, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)}, {Kind: ruleset.MatchPort, Lo: 80, Hi: 80}}
	answer := []ruleset.Match{family, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.UDP)}, {Kind: ruleset.MatchSourcePort, Lo: 53, Hi: 53}}
	sticky := &nft.Balance{Backends: []netip.AddrPort{netip.MustParseAddrPort("10.244.1.2:80")}, Sticky: 10, KeepsSource: true}
	node := &nft.Node{Network: &nft.Network{Own: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, Keep: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}}
	balanced := &nft.Balanced{To: ruleset.NewLayered(map[nft.Frontend]*nft.Balance{{Address: netip.MustParseAddr("10.96.0.1"), Protocol: ruleset.TCP, Port: 80}: sticky, {Address: netip.IPv4Unspecified(), Protocol: ruleset.TCP, Port: 30080}: sticky})}
	out := ruleset.Released(new(nft.Compiler).Compile(nft.Input{Node: node, Balanced: balanced}).Program)
	out.Chains[string(ruleset.ToHost)] = &ruleset.Chain{Rules: []ruleset.Rule{
		{Matches: []ruleset.Match{{Kind: ruleset.MatchDead}}, Action: ruleset.Drop},
		{Matches: answer, Action: ruleset.Queue, Origin: &ruleset.Origin{Kind: ruleset.OriginNames}},
		{Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}}, Action: ruleset.Accept},
		{Matches: append([]ruleset.Match{{Kind: ruleset.MatchRouted}}, answer...), Action: ruleset.Accept},
		{Matches: port, Action: ruleset.Log, Origin: origin},
		{Matches: port, Action: ruleset.RejectReset, Origin: origin},
	}}
	return out
}

// TestKernelLacks plays kernels that lack a feature each: what is not required is left out and
// told, and everything else is in force; what is required is an error that names it.
func TestKernelLacks(t *testing.T) {
	server, client := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")
	for feature, c := range map[Feature]struct {
		words []string
		errno error
		want  nfttest.Result
	}{
		FeatureConnections: {[]string{expression("ct")}, unix.ENOENT, nfttest.Passed},
		FeatureSets:        {[]string{string(netfilter.Text(nil, unix.NFTA_SET_NAME, string(ruleset.Members4)))}, unix.EOPNOTSUPP, nfttest.Passed},
		FeatureLabels:      {[]string{string(netfilter.Number(nil, unix.NFTA_CT_KEY, unix.NFT_CT_LABELS))}, unix.EOPNOTSUPP, nfttest.Rejected},
		FeatureReject:      {[]string{expression("reject")}, unix.ENOENT, nfttest.Silent},
		FeatureLog:         {[]string{expression("log")}, unix.ENOENT, nfttest.Rejected},
		FeatureQueue:       {[]string{string(netfilter.Text(nil, unix.NFTA_TARGET_NAME, "NFQUEUE"))}, unix.ENOENT, nfttest.Rejected},
		FeatureCounters:    {[]string{expression("counter")}, unix.ENOENT, nfttest.Rejected},
		FeatureRoutes:      {[]string{expression("fib")}, unix.ENOENT, nfttest.Rejected},
		FeatureMasquerade:  {[]string{string(netfilter.Text(nil, unix.NFTA_CHAIN_TYPE, kindNAT)), expression("masq")}, unix.ENOENT, nfttest.Rejected},
		FeatureServices:    {[]string{expression("numgen"), expression("dynset"), expression("nat")}, unix.ENOENT, nfttest.Rejected},
	} {
		t.Run(string(feature), func(t *testing.T) {
			host, peer := nfttest.NewHost(t), nfttest.NewHost(t)
			nfttest.Connect(t, host, peer, []netip.Prefix{netip.PrefixFrom(server, 24)}, []netip.Prefix{netip.PrefixFrom(client, 24)})
			nfttest.Serve(t, host, 80, 81, server)
			table := without(t, host, c.errno, c.words...)
			_, err := table.Apply(featureful())
			if feature.Required() {
				if err == nil || !errors.Is(err, c.errno) || !strings.Contains(err.Error(), feature.String()) {
					t.Errorf("the error is %v", err)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if got := table.Lacks(); !slices.Equal(got, []Feature{feature}) {
					t.Errorf("it lacks %q", got)
				}
				if wrong, err := table.Verify(featureful()); err != nil || len(wrong) > 0 {
					t.Errorf("it differs in %q, %v", wrong, err)
				}
				table.Forget()
				if w, err := table.Apply(featureful()); err != nil || w.Messages > 0 {
					t.Errorf("once more: %+v, %v", w, err)
				}
			}
			for port, want := range map[uint16]nfttest.Result{80: c.want, 81: nfttest.Passed} {
				a := nfttest.Attempt{From: peer, Network: "tcp", Source: netip.AddrPortFrom(client, 20000+port), Destination: netip.AddrPortFrom(server, port)}
				limit := 5 * time.Second
				if want == nfttest.Silent {
					limit = 300 * time.Millisecond
				}
				if got, err := a.Run(limit); err != nil || got != want {
					t.Errorf("port %d: %s, %v, want %s", port, got, err, want)
				}
			}
		})
	}
}

// expression is the name of one as messages have it.
func expression(name string) string { return string(netfilter.Text(nil, unix.NFTA_EXPR_NAME, name)) }

// TestKernelLacksNothing has a transaction fail for another reason, which is told as it is.
func TestKernelLacksNothing(t *testing.T) {
	table := without(t, nfttest.NewHost(t), unix.EINVAL, string(netfilter.Text(nil, unix.NFTA_TABLE_NAME, DefaultTable)))
	if _, err := table.Apply(featureful()); !errors.Is(err, unix.EINVAL) || len(table.Lacks()) > 0 {
		t.Errorf("the error is %v, and it lacks %q", err, table.Lacks())
	}
	whole := without(t, nfttest.NewHost(t), nil)
	if _, err := whole.Apply(featureful()); err != nil || len(whole.Lacks()) > 0 {
		t.Errorf("a kernel with everything: %v, %q", err, whole.Lacks())
	}
}
