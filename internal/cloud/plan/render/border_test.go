package render_test

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// TestObstruction: the policy that allows a flow, and the rules of the filter in the way.
func TestObstruction(t *testing.T) {
	t.Parallel()
	grant := func(s flow.Service, prefixes ...string) flow.Grant {
		var set addrset.Set
		for _, p := range prefixes {
			set = set.Union(addrset.OfPrefixes(netip.MustParsePrefix(p)))
		}
		return flow.Grant{Service: s, All: set}
	}
	const ends = "; Nephele does not change what filters a subnet"
	all := []plan.Obstruction{
		{ACL: "acl-1", Entries: []string{"100"}, Direction: cloud.Ingress, Subnet: "subnet-1", Policies: []plan.PolicyRef{web},
			Denied: []flow.Grant{grant(flow.Service{Protocol: cloud.TCP, From: 80, To: 81}, "10.0.0.0/16", "10.2.0.0/16"), grant(flow.Whole(cloud.UDP), "10.0.0.0/16")}},
		{ACL: "acl-1", Name: "edge\n", Direction: cloud.Egress, Subnet: "/vnets/v/subnets/back", Policies: []plan.PolicyRef{web, global},
			Denied: []flow.Grant{grant(flow.Service{Protocol: cloud.ICMP, From: 8 << 8, To: 8<<8 | 0xff}, "0.0.0.0/0")}},
		{ACL: "acl-2", Entries: []string{"100", "200"}, Direction: cloud.Egress, Subnet: "s", Policies: []plan.PolicyRef{global}, Denied: []flow.Grant{grant(flow.Any(), "::/0")}},
	}
	want := []string{
		"AntreaNetworkPolicy vms/web allows ingress tcp 80-81 from 10.0.0.0/16, tcp 80-81 from 10.2.0.0/16, udp from 10.0.0.0/16, " +
			"and rule 100 of acl-1 does not let it into the subnet subnet-1" + ends,
		"AntreaNetworkPolicy vms/web, AntreaClusterNetworkPolicy global allow egress icmp type 8 to 0.0.0.0/0, and the end of edge does not let it out of the subnet back" + ends,
		"AntreaClusterNetworkPolicy global allows egress any protocol to ::/0, and rules 100, 200 of acl-2 do not let it out of the subnet s" + ends,
	}
	for i, o := range all {
		if got := render.Obstruction(o); got != want[i] {
			t.Errorf("got  %q\nwant %q", got, want[i])
		}
	}
	if got := render.Obstructions(all[:2]); got != want[0]+"; "+want[1] {
		t.Errorf("both: %q", got)
	}
}

// TestObstructedServices: services are put together where the same addresses are denied.
func TestObstructedServices(t *testing.T) {
	t.Parallel()
	tcp := func(from, to uint16) flow.Service { return flow.Service{Protocol: cloud.TCP, From: from, To: to} }
	some, more := addrset.OfPrefixes(netip.MustParsePrefix("10.0.0.0/8")), addrset.OfPrefixes(netip.MustParsePrefix("10.0.0.0/7"))
	both := some.Union(addrset.AllIPv6())
	for want, denied := range map[string][]flow.Grant{
		"tcp 1-9 from 10.0.0.0/8":                                      {{Service: tcp(1, 5), All: some}, {Service: tcp(6, 9), All: some}},
		"tcp 1-5 from 10.0.0.0/8, tcp 6-9 from 10.0.0.0/7":             {{Service: tcp(1, 5), All: some}, {Service: tcp(6, 9), All: more}},
		"tcp 1-5 from 10.0.0.0/8, tcp 7-9 from 10.0.0.0/8":             {{Service: tcp(1, 5), All: some}, {Service: tcp(7, 9), All: some}},
		"tcp 1 from 10.0.0.0/8, udp 2 from 10.0.0.0/8":                 {{Service: tcp(1, 1), All: some}, {Service: flow.Service{Protocol: cloud.UDP, From: 2, To: 2}, All: some}},
		"any protocol from 10.0.0.0/8":                                 {{Service: tcp(0, 79), All: some}, {Service: tcp(80, 65535), All: some}, {Service: flow.Any(), All: some}},
		"any protocol from 10.0.0.0/8, any protocol from ::/0":         {{Service: flow.Whole(cloud.ICMP), All: some}, {Service: flow.Any(), All: both}},
		"tcp 0-79 from 10.0.0.0/8, any other protocol from 10.0.0.0/8": {{Service: tcp(0, 79), All: some}, {Service: flow.Any(), All: some}},
		"tcp from 10.0.0.0/8, any other protocol from 10.0.0.0/7":      {{Service: flow.Whole(cloud.TCP), All: some}, {Service: flow.Any(), All: more}},
	} {
		o := plan.Obstruction{ACL: "acl-1", Entries: []string{"100"}, Direction: cloud.Ingress, Subnet: "s", Policies: []plan.PolicyRef{web}, Denied: denied}
		got := render.Obstruction(o)
		if want = "AntreaNetworkPolicy vms/web allows ingress " + want + ", and rule 100 of acl-1 does not let it into the subnet s; Nephele does not change what filters a subnet"; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
