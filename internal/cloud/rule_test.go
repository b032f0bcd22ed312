package cloud_test

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

func TestRuleCanBecome(t *testing.T) {
	block := func(s string) cloud.Peer { return cloud.Peer{CIDR: netip.MustParsePrefix(s)} }
	kinds := [][]cloud.Peer{
		{block("192.0.2.0/24"), block("0.0.0.0/0")},
		{block("2001:db8::/32"), block("::/0")},
		{{GroupID: "sg-1"}, {GroupName: "web"}, {GroupID: "sg-2", GroupOwner: "1"}},
		{{PrefixListID: "pl-1"}, {PrefixListID: "pl-2", Except: "192.0.2.0/24"}},
	}
	for i, olds := range kinds {
		for k, news := range kinds {
			for _, o := range olds {
				for _, n := range news {
					old := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 1), Peer: o}
					if got := old.CanBecome(cloud.Rule{Direction: cloud.Ingress, Peer: n}); got != (i == k) {
						t.Errorf("%s becomes %s: %v", o, n, got)
					}
					if old.CanBecome(cloud.Rule{Direction: cloud.Egress, Peer: n}) {
						t.Errorf("%s turns round", old)
					}
				}
			}
		}
	}
}
