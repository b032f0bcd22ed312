package intent_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
)

type world = intenttest.World

func nicOf(r *intent.Region, vm string) *intent.NIC {
	return r.NICs[slices.IndexFunc(r.NICs, func(n *intent.NIC) bool { return n.VMID == vm })]
}

func vmOf(r *intent.Region, vm string) *intent.VM {
	return r.Order[slices.IndexFunc(r.Order, func(v *intent.VM) bool { return v.Ref.ID == vm })]
}

// allowed is what the interface of a VM shall allow by the policies that apply to it.
func allowed(w *world, vm string) [2]string {
	r := w.Region()
	rules := vmOf(r, vm).Applied
	rules, profile := r.WithFailsafe(rules, intent.ProfileOf(rules))
	p := r.Decided(nicOf(r, vm), rules, profile)
	return [2]string{intenttest.Say(p[0]), intenttest.Say(p[1])}
}

// TestAllowed: the algebra of policies, by what web allows in ingress, and in egress where that is
// what a row is about. web is 10.0.0.10, app 10.0.0.11 and db 10.0.0.12.
func TestAllowed(t *testing.T) {
	policy := func(rules ...string) func(*world) {
		return func(w *world) { w.Policy(string(rune('a'+len(w.Policies))), "web", rules...) }
	}
	tier := func(number int32, change func(*world)) func(*world) {
		return func(w *world) {
			change(w)
			w.Policies[len(w.Policies)-1].TierPriority = &number
		}
	}
	kubernetes := func(change func(*world)) func(*world) {
		return func(w *world) {
			change(w)
			p := w.Policies[len(w.Policies)-1]
			p.TierPriority, p.Priority, p.SourceRef.Type = nil, nil, v1beta2.K8sNetworkPolicy
		}
	}
	native := func(rules ...string) func(*world) { return func(w *world) { w.Native("sg-web", rules...) } }
	const anywhere = "0.0.0.0/0"
	for name, c := range map[string]struct {
		changes []func(*world)
		want    string
		egress  string
	}{
		"without policies its own groups decide": {[]func(*world){native("ingress tcp 22 from 10.9.0.0/16", "egress all to 10.8.0.0/16")}, "tcp 22 10.9.0.0/16", "any 10.8.0.0/16"},
		"all of its groups do": {[]func(*world){native("ingress tcp 22 from 10.9.0.0/16"), func(w *world) {
			w.NIC("web").GroupIDs = []string{"sg-db", "sg-web"}
			w.Native("sg-db", "ingress tcp 23 from 10.9.0.0/16")
		}}, "tcp 22-23 10.9.0.0/16", ""},
		"a rule that names a group means its members":            {[]func(*world){native("ingress tcp 22 from sg-app")}, "tcp 22 10.0.0.11", ""},
		"one that names a group that is gone means nobody":       {[]func(*world){native("ingress tcp 22 from sg-gone")}, "nothing", ""},
		"a rule that allows isolates its direction":              {[]func(*world){native("ingress tcp 22 from 10.9.0.0/16", "egress all to 10.8.0.0/16"), policy("allow ingress tcp 80 from app")}, "tcp 80 10.0.0.11", "any 10.8.0.0/16"},
		"even if it allows nobody":                               {[]func(*world){native("ingress tcp 22 from 10.9.0.0/16"), policy("allow ingress tcp 80 from gone")}, "nothing", ""},
		"a rule that drops takes out of what its groups allow":   {[]func(*world){native("ingress tcp 20-25 from 10.0.0.8/29"), policy("drop ingress tcp 22 from app")}, "tcp 20-21 10.0.0.8/29; tcp 22 10.0.0.8/31, 10.0.0.10, 10.0.0.12/30; tcp 23-25 10.0.0.8/29", ""},
		"and rejecting is dropping":                              {[]func(*world){native("ingress tcp 22 from 10.0.0.8/29"), policy("reject ingress tcp 22 from app")}, "tcp 22 10.0.0.8/31, 10.0.0.10, 10.0.0.12/30", ""},
		"what a policy allows before another drops it is":        {[]func(*world){policy("allow ingress tcp 80 from app"), policy("drop ingress any from anywhere")}, "tcp 80 10.0.0.11", ""},
		"what one drops before another allows it is not":         {[]func(*world){policy("drop ingress tcp 80 from app"), policy("allow ingress tcp 80 from app db")}, "tcp 80 10.0.0.12", ""},
		"the same holds of rules of a policy":                    {[]func(*world){policy("drop ingress tcp 80 from app", "allow ingress tcp 80 from app db")}, "tcp 80 10.0.0.12", ""},
		"a tier before goes before priorities":                   {[]func(*world){policy("allow ingress tcp 80 from app"), tier(50, policy("drop ingress any from app"))}, "nothing", ""},
		"what passes is for the next stage":                      {[]func(*world){native("ingress tcp 80 from " + anywhere), policy("pass ingress tcp 80 from app", "drop ingress any from anywhere")}, "tcp 80 10.0.0.11", ""},
		"that is Kubernetes' policies":                           {[]func(*world){policy("pass ingress tcp 80 from app db"), kubernetes(policy("allow ingress tcp 80 from app"))}, "tcp 80 10.0.0.11", ""},
		"what these let pass nobody asks the next":               {[]func(*world){kubernetes(policy("allow ingress tcp 80 from app")), tier(253, policy("drop ingress any from anywhere"))}, "tcp 80 10.0.0.11", ""},
		"the baseline drops what nobody decided":                 {[]func(*world){native("ingress tcp 22-23 from 10.9.0.0/16"), tier(253, policy("drop ingress tcp 22 from anywhere"))}, "tcp 23 10.9.0.0/16", ""},
		"and decides what passes":                                {[]func(*world){policy("pass ingress any from app"), tier(253, policy("allow ingress tcp 1 from app db"))}, "tcp 1 10.0.0.11, 10.0.0.12", ""},
		"blocks are addresses, and so are VMs that are not ours": {[]func(*world){func(w *world) { w.Deselect("app") }, policy("allow ingress tcp 80 from app 10.7.0.0/16")}, "tcp 80 10.7.0.0/16", ""},
		"a block leaves out its exceptions": {[]func(*world){policy("allow ingress tcp 80 from 10.7.0.0/16"), func(w *world) {
			b := &w.Policies[0].Rules[0].From.IPBlocks[0]
			b.Except = []v1beta2.IPNet{{IP: v1beta2.IPAddress{10, 7, 0, 0}, PrefixLength: 17}}
		}}, "tcp 80 10.7.128.0/17", ""},
		"ICMP is of both families":         {[]func(*world){policy("allow ingress icmp 8 from 10.7.0.0/16", "allow ingress icmp 128 from fd00::/8")}, "icmp type 8 10.7.0.0/16; icmpv6 type 128 fd00::/8", ""},
		"egress is no ingress":             {[]func(*world){native("ingress tcp 22 from 10.9.0.0/16"), policy("allow egress udp 53 to db")}, "tcp 22 10.9.0.0/16", "udp 53 10.0.0.12"},
		"a policy on app is none of web's": {[]func(*world){native("ingress tcp 22 from 10.9.0.0/16"), func(w *world) { w.Policy("a", "app", "allow ingress tcp 80 from db") }}, "tcp 22 10.9.0.0/16", ""},
		"a drop of a port leaves protocols in use": {[]func(*world){native("ingress all from 10.9.0.0/16"), policy("drop ingress tcp 0-65535 from 10.9.0.0/17")},
			"icmp 10.9.0.0/16; igmp 10.9.0.0/16; ip-in-ip 10.9.0.0/16; udp 10.9.0.0/16; ipv6-in-ip 10.9.0.0/16; gre 10.9.0.0/16; esp 10.9.0.0/16; ah 10.9.0.0/16; " +
				"eigrp 10.9.0.0/16; ospf 10.9.0.0/16; etherip 10.9.0.0/16; pim 10.9.0.0/16; vrrp 10.9.0.0/16; l2tp 10.9.0.0/16; sctp 10.9.0.0/16; udp-lite 10.9.0.0/16; mpls-in-ip 10.9.0.0/16; any 10.9.128.0/17", ""},

		"failsafe flows go before everything":      {[]func(*world){failsafe, policy("drop ingress any from anywhere")}, "tcp 22 192.0.2.0/24", ""},
		"isolate nothing":                          {[]func(*world){failsafe, native("ingress tcp 80 from 10.9.0.0/16", "egress all to 10.8.0.0/16"), policy("drop egress tcp 1 to 10.8.0.0/32")}, "tcp 22 192.0.2.0/24; tcp 80 10.9.0.0/16", ""},
		"and are nothing to a VM without policies": {[]func(*world){failsafe}, "nothing", ""},
		"a VM that is left to its agent is open where a policy isolates": {[]func(*world){native("egress tcp 1 to 10.8.0.0/16"), policy("allow ingress tcp 80 from app", "allow egress tcp 2 to db"), func(w *world) {
			w.Agents = map[intent.VMRef][2]bool{intenttest.VM("web"): {true, false}}
		}}, "any anywhere", "tcp 1 10.8.0.0/16"},
		"a prefix list is named as it is":           {[]func(*world){list("192.0.2.0/24"), native("ingress tcp 443 from pl-1")}, "tcp 443 192.0.2.0/24, pl-1", ""},
		"unless a policy takes a part of it":        {[]func(*world){list("192.0.2.0/24"), native("ingress tcp 443 from pl-1"), policy("drop ingress any from 192.0.2.0/25")}, "tcp 443 192.0.2.128/25", ""},
		"one that nobody can read goes with a part": {[]func(*world){native("ingress tcp 443 from pl-9"), policy("drop ingress any from 192.0.2.0/25")}, "nothing", ""},
	} {
		w := intenttest.New("web", "app", "db")
		for _, change := range c.changes {
			change(w)
		}
		got := allowed(w, "web")
		if got[0] != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got[0], c.want)
		}
		if c.egress != "" && got[1] != c.egress {
			t.Errorf("%s, egress:\n got %q\nwant %q", name, got[1], c.egress)
		}
	}
}

func failsafe(w *world) {
	w.Failsafe = []intent.FailsafeFlow{{Direction: cloud.Ingress, Services: []flow.Service{{Protocol: cloud.TCP, From: 22, To: 22}}, Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}
}

func list(entries ...string) func(*world) {
	return func(w *world) {
		l := cloud.PrefixList{ID: "pl-1", OwnerID: intenttest.Owner, MaxEntries: 9}
		for _, e := range entries {
			l.Entries = append(l.Entries, netip.MustParsePrefix(e))
		}
		w.Snap.PrefixLists = append(w.Snap.PrefixLists, l)
	}
}

// TestFailsafeInWords: failsafe flows are said as rules are.
func TestFailsafeInWords(t *testing.T) {
	for want, f := range map[string]intent.FailsafeFlow{
		"ingress tcp 22 from 192.0.2.0/24": {Direction: cloud.Ingress, Services: []flow.Service{{Protocol: cloud.TCP, From: 22, To: 22}}, Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		"egress udp 1-9 and icmp to 192.0.2.0/24, fd00::/8": {Direction: cloud.Egress, Services: []flow.Service{{Protocol: cloud.UDP, From: 1, To: 9}, flow.Whole(cloud.ICMP)},
			Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fd00::/8")}},
		"egress all protocols to 192.0.2.1/32": {Direction: cloud.Egress, Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNow: what groups allow now is by the interfaces that hold them, and what they will allow by
// those that natively belong to them.
func TestNow(t *testing.T) {
	w := intenttest.New("web", "app", "db")
	w.Take("web", []string{"ingress tcp 80 from ours-app", "ingress tcp 81 from sg-app"})
	w.Native("sg-web", "ingress tcp 82 from sg-app")
	w.Take("app", nil)
	r := w.Region()
	web := nicOf(r, "web")
	if got, want := intenttest.Say(r.Actual(web.GroupIDs, web.Network)[0]), "tcp 80 10.0.0.11"; got != want {
		t.Errorf("now: %q, want %q", got, want)
	}
	if got, want := intenttest.Say(r.Decided(web, nil, "")[0]), "tcp 82 10.0.0.11"; got != want {
		t.Errorf("when it is given back: %q, want %q", got, want)
	}
}

// TestNativeMeaning: groups with the same rules mean the same, and the direction that policies
// decide makes no difference.
func TestNativeMeaning(t *testing.T) {
	w := intenttest.New("a", "b", "c", "d")
	for _, name := range []string{"a", "b"} {
		w.Native("sg-"+name, "ingress tcp 80 from 10.0.0.0/8", "egress all to 0.0.0.0/0")
	}
	w.Native("sg-c", "ingress tcp 81 from 10.0.0.0/8", "egress all to 0.0.0.0/0")
	r := w.Region()
	both, egress := [2]bool{true, true}, [2]bool{false, true}
	of := func(open [2]bool, groups ...string) string { return r.NativeMeaning(groups, open) }
	if of(both, "sg-a") != of(both, "sg-b") || of(both, "sg-a") == of(both, "sg-c") || of(egress, "sg-a") != of(egress, "sg-c") {
		t.Error("groups are told apart by something else than their rules")
	}
	if of(both, "sg-a", "sg-b") != of(both, "sg-b", "sg-a") || of(both, "sg-d") != "" || of([2]bool{}, "sg-a") != "" {
		t.Error("groups that mean nothing mean something")
	}
	if m := of(both, "sg-a"); len(m) != 32 || !strings.HasPrefix(m, intent.ShortMark(m)) || len(intent.ShortMark(m)) != 12 {
		t.Errorf("the mark is %q", m)
	}
}
