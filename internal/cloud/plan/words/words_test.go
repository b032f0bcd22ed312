package words_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// said is a reason, made as the layers make it, and its sentence.
type said struct {
	why  *reason.Reason
	want string
}

var (
	why     = reason.Why
	limits  = cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5}
	orWord  = `; "nephele plan" tells with which word it goes on all the same`
	forWord = ". Force it before you confirm anything, because a confirmation counts for one plan alone" +
		". It goes on, closing first, with: kubectl annotate cloudprovideraccount shop -n vms nephele.io/force=\"abcd by $(kubectl auth whoami -o jsonpath={.status.userInfo.username})\" --overwrite"
	cannotTell = "so it stays under control as it is, until the annotation nephele.io/former-groups of the account says what is to be given back: eni-1=GROUP,GROUP"
)

func lacking(l reason.Lack) *reason.Reason {
	r := why(reason.RulesShort)
	r.Lack = &l
	return r
}

// about is a reason about a flow of one or more interfaces.
func about(code reason.Code, d cloud.Direction, s flow.Service, addrs string, nics ...string) *reason.Reason {
	r := why(code, nics...)
	r.Flow = &reason.Flow{Direction: d, Service: s}
	for cidr := range strings.FieldsSeq(addrs) {
		r.Flow.Addrs = r.Flow.Addrs.Union(addrset.OfPrefixes(netip.MustParsePrefix(cidr)))
	}
	return r
}

func tcp(port uint16) flow.Service { return flow.Service{Protocol: cloud.TCP, From: port, To: port} }

// pauses are flows of interfaces that may pause, each behind the one before.
func pauses(nics ...string) (out *reason.Reason) {
	for i := len(nics) - 1; i >= 0; i-- {
		out = about(reason.MayPause, cloud.Ingress, tcp(80), "10.0.0.7/32", nics[i]).From(out)
	}
	return out
}

// sentences has at least one row for every code; see TestEveryCodeIsSaid.
var sentences = []said{
	{nil, ""},

	// Why a policy cannot be expressed.
	{why(reason.PeerDomainName, "*.example.com"), "the peer is a domain name (*.example.com); security groups know addresses only"},
	{why(reason.PeerService, "shop", "db"), "the peer is the Service shop/db; security groups know addresses only"},
	{why(reason.PeerLabelSet), "the peer is a label set of another cluster; security groups know addresses only"},
	{why(reason.Layer7), "security groups do not see layer 7 protocols"},
	{why(reason.InRule, "http", "ingress").Counting(2).From(why(reason.Layer7)), `the ingress rule "http": security groups do not see layer 7 protocols`},
	{why(reason.InRule, "", "egress").Counting(0).From(why(reason.Layer7)), "the egress rule 0: security groups do not see layer 7 protocols"},
	{why(reason.InRule, "", "ingress").Counting(-1).From(why(reason.Layer7)), "a rule for ingress: security groups do not see layer 7 protocols"},
	{why(reason.BadPrefixLength, "10.0.0.0").Counting(33), "the ipBlock 10.0.0.0/33 is not valid; a prefix has at most 32 bits for IPv4, and 128 for IPv6"},
	{why(reason.BadAddress).Counting(5), "an ipBlock has an address of 5 bytes; it has 4 for IPv4, and 16 for IPv6"},
	{why(reason.SourcePort).Counting(53), "security groups do not match source ports (53)"},
	{why(reason.NamedPortOfPeer, "pg"), `named port "pg" is not a port of any of the peers; use the number, or name the port at the peer's entity`},
	{why(reason.NamedPortVaries, "pg").Counting(8), `named port "pg" means more than 8 numbers to the peers; use the numbers`},
	{why(reason.NamedPortUnknown, "pg"), `named port "pg" is not a port of this VM's entity`},
	{why(reason.ServiceUnguarded, "vms/db").Quoting("it is of RDS"),
		"vms/db is a native service whose security groups cannot be set: it is of RDS. Let policies on its peers say what may flow"},
	{why(reason.InterfaceUnguarded, "vms/eni").Quoting("it is of an instance"), "vms/eni is a network interface that no policy can apply to: it is of an instance"},
	{why(reason.IGMPDetails), "security groups do not match IGMP types and multicast groups"},
	{why(reason.BadPortRange).Counting(90, 80), "port range 90-80 is not valid"},
	{why(reason.UnknownProtocol, "DCCP"), `protocol "DCCP" is not known`},
	{why(reason.Unsupported).Quoting("AWS matches no ports of SCTP"), "AWS matches no ports of SCTP"},
	{why(reason.GroupUnknown, "ag-1"), "the address group ag-1 is not known yet"},

	// Why an interface cannot be controlled.
	{why(reason.ModePlanned, "i-1"), "the VM i-1 is only planned for (mode plan)"},
	{why(reason.ModeBraked, "i-1"), "the VM i-1 waits for a confirmation of the account (condition Braked)"},
	{why(reason.ModeReleased, "i-1", "off"), "the VM i-1 is released (mode off)"},
	{why(reason.CloudRefuses, "eni-1").Quoting("not authorized"), "the cloud refuses to change the interface eni-1: not authorized"},
	{why(reason.NetworkClaimed, "vpc-1", "other"), "the network vpc-1 is claimed by the controller other (tag nephele.io/claimed-by)"},
	{why(reason.HeldElsewhere, "eni-1", "other", "vms/shop"), "the interface eni-1 is held by the controller other for the account vms/shop"},
	{why(reason.OfService, "eni-1"), "the interface eni-1 belongs to a service of the cloud, its groups cannot be set"},
	{why(reason.Untouchable, "eni-1").Quoting("it is of a scale set"), "the interface eni-1 cannot be taken over: it is of a scale set"},
	{why(reason.TooManyTags, "eni-1").Counting(1, 50, 50), "the interface eni-1 needs 1 tag to remember its groups, it has 50 of at most 50"},
	{why(reason.RecordGone, "eni-1"), "its record of former groups, the tag nephele.io/former-groups, is gone; " + cannotTell},
	{why(reason.RecordUnsigned, "eni-1").From(why(reason.ConfirmedGone, "sg-9")),
		"its record of former groups, the tag nephele.io/former-groups, is not signed by this cluster; " + cannotTell + " (the annotation names sg-9, which does not exist)"},
	{why(reason.ConfirmedAbroad, "sg-9"), "the annotation names sg-9, which is of another network"},
	{why(reason.ConfirmedOurs, "sg-9"), "the annotation names sg-9, which is one of Nephele's own"},

	// Why an interface is not taken over, or stays as it is.
	{why(reason.ReferredAbroad, "vpc-2", "222", "sg-1", "pcx-1", "eni-1"),
		"rules in the network vpc-2 of the account 222 refer to the group sg-1 over the peering pcx-1, and would no longer match the interface eni-1: " +
			"let them name addresses, or give the VM another group instead"},
	{why(reason.DependentLoses, "sg-2", "eni-2", "i-2", "sg-1", "eni-1").From(why(reason.NotSelected)),
		"the group sg-2 of the interface eni-2 refers to the group sg-1, and the interface eni-1 would no longer match it; " +
			"eni-2 cannot be taken over itself (it belongs to no selected VM): " +
			"select its VM, let sg-2 allow addresses instead of the group, or say by spec.dependents of the account what becomes of it"},
	{why(reason.DependentLoses, "sg-2", "eni-2", "", "sg-1", "eni-1").From(why(reason.OfService, "eni-2")),
		"the group sg-2 of the interface eni-2 refers to the group sg-1, and the interface eni-1 would no longer match it; " +
			"eni-2 cannot be taken over itself (the interface eni-2 belongs to a service of the cloud, its groups cannot be set): " +
			"let sg-2 allow addresses instead of the group, or say by spec.dependents of the account what becomes of it"},
	{why(reason.FollowNoRoom, "sg-1").Counting(58, 3, 60),
		"the group sg-1 has the tag nephele.io/follow and 58 rules of its own, and no room for 3 rules more, which would name the VMs that give up the group that its rules name: " +
			"raise the quota of 60 rules per group, or let its rules name addresses"},
	{why(reason.TakeOverShort, "eni-1").From(lacking(reason.Lack{Quota: reason.QuotaGroupsPerInterface, Needed: 1, Available: 0})),
		"taking over the interface eni-1 with its present rules: it needs 1 group on one interface, and 0 are left of the quota"},
	{lacking(reason.Lack{Quota: reason.QuotaRulesPerGroup, Direction: "ingress", Family: "IPv4", Needed: 401, Available: 300, Limits: limits}),
		"it needs 401 ingress rules for IPv4 on one interface, and 5 groups of at most 60 rules hold 300"},
	{lacking(reason.Lack{Quota: reason.QuotaRulesPerGroup, Direction: "egress", Family: "IPv6", Needed: 2, Available: 1, AtLeast: true,
		Limits: cloud.Limits{RulesPerGroup: 1, GroupsPerInterface: 1}}),
		"it needs at least 2 egress rules for IPv6 on one interface, and 1 group of at most 1 rule holds 1"},
	{lacking(reason.Lack{Quota: reason.QuotaRulesPerGroup, Direction: "ingress", Family: "IPv4", Needed: 250, Available: 300, Whole: true, Limits: limits}),
		"it needs 250 ingress rules for IPv4 on one interface, among them prefix lists that one group has to hold whole, and they do not fit into 5 groups of at most 60 rules"},
	{lacking(reason.Lack{Quota: reason.LimitSources, Needed: 4001, Available: 4000, AtLeast: true}),
		"its network security group would need at least 4001 source address prefixes, and Azure takes at most 4000 in one and raises that for nobody; " +
			"blocks of addresses that can be put together need fewer"},
	{lacking(reason.Lack{Quota: reason.LimitDestinations, Needed: 1, Available: 0}),
		"its network security group would need 1 destination address prefix, and Azure takes at most 0 in one and raises that for nobody; " +
			"blocks of addresses that can be put together need fewer"},
	{lacking(reason.Lack{Quota: reason.LimitSecurityRules, Needed: 1001, Available: 1000}),
		"its network security group would need 1001 security rules, and Azure takes at most 1000 in one and raises that for nobody; " +
			"blocks of addresses that can be put together need fewer"},
	{lacking(reason.Lack{Quota: reason.LimitApplicationGroups, Needed: 101, Available: 100}),
		"its network security group would need 101 application security groups, and Azure takes at most 100 in one and raises that for nobody; " +
			"blocks of addresses that can be put together need fewer"},
	{func() *reason.Reason {
		r := why(reason.GroupsShort, "eu-west-1").Counting(3, 1, 1)
		r.Lack = &reason.Lack{Quota: reason.QuotaGroupsPerRegion, Needed: 4, Available: 2, WouldDo: 4}
		return r
	}(), "no security group is left for it: all that is to be enforced in the region eu-west-1 needs 3 groups, and besides 1 other there is room for 1, because the quota is 2; " +
		"a quota of 4 groups would do"},
	{why(reason.WaitsBetween, "eni-1").From(why(reason.OrderOpposite)),
		"the interface eni-1 waits for others to become narrower, because the state in between does not fit: " +
			"it and its peers change in opposite directions, and there is no room for the state in between"},
	{why(reason.InterfaceStays, "eni-1").From(why(reason.OrderGroupLater)), "the interface eni-1 stays as it is: it waits for a group that is not there yet"},
	{why(reason.Kept).From(why(reason.Layer7)), "security groups do not see layer 7 protocols; what was last realized of the policy stays in force here"},
	{why(reason.NoInterface), "the VM has no interface"},
	{why(reason.NoClusterID), "the controller has no cluster id, so it could not tell its own security groups from others"},
	{why(reason.TooMuchWork), "nothing is changed, and what is enforced stays as it is: to plan this takes longer than is allowed for one round; " +
		"let fewer policies select these VMs, or tell fewer kinds of VMs apart"},
	{why(reason.TooManyKinds, "of namespace greedy").Counting(63),
		"the policies of namespace greedy tell 63 kinds of VMs apart, and to plan for all of them takes longer than is allowed for one round; " +
			"let fewer policies select these VMs, or tell fewer kinds of VMs apart"},
	{why(reason.PlannerFault).Quoting("index out of range"), "a fault of Nephele, please report it; what was enforced stays as it is: index out of range"},
	{about(reason.OrderLeak, cloud.Egress, tcp(5432), "10.0.0.0/16", "eni-1", "eni-2"),
		"no order of the changes keeps egress tcp 5432 of eni-1, eni-2 with 10.0.0.0/16 closed, which is allowed neither before nor after" + orWord},
	{about(reason.OrderGap, cloud.Ingress, flow.Service{Protocol: cloud.ICMP, From: 8 << 8, To: 8<<8 | 0xff}, "", "eni-1"),
		"no order of the changes keeps ingress icmp type 8 of eni-1 with peers that are not known here open, which is allowed before and after; " +
			"a free slot for groups on the interfaces that move would do" + orWord},
	{why(reason.OrderInterface).Counting(6, 5), "the change needs 6 groups on an interface for a moment, and the quota is 5" + orWord},
	{why(reason.OrderRules, "sg-1").Counting(61, 60),
		"the group sg-1 has no room for the old and the new rules together: the change needs 61 rules for a moment, and the quota is 60" + orWord},
	{why(reason.OrderRegion).Counting(1, 0), "the change needs 1 group in the region for a moment, and the quota is 0" + orWord},
	{why(reason.WaitsForWord, "vms/shop", "abcd", "eni-1").Counting(0),
		"every order of the changes of eni-1 would cut or open a flow meanwhile, so all of that stays as it is" + forWord},
	{why(reason.WaitsForWord, "vms/shop", "abcd", "eni-1", "eni-2", "eni-3", "eni-4").Quoting("old\n").Counting(2).From(pauses("eni-1", "eni-2")),
		"every order of the changes of eni-1, eni-2, eni-3, and 1 more (nephele plan names all) would cut or open a flow meanwhile, so all of that stays as it is" +
			`; the annotation nephele.io/force is "old", which is of another plan` + forWord +
			". For a moment that may cut ingress tcp 80 of eni-1 with 10.0.0.7; ingress tcp 80 of eni-2 with 10.0.0.7; and 2 more"},

	// Remarks.
	{why(reason.FormerGone, "sg-1"), "of its former groups sg-1 no longer exists and cannot be restored"},
	{why(reason.FormerGone, "sg-1", "sg-2"), "of its former groups sg-1, sg-2 no longer exist and cannot be restored"},
	{why(reason.FormerAllGone, "sg-0"), "none of its former groups exists any more; it gets the default group of the network, sg-0"},
	{why(reason.OpaqueDropped, "group sg-9"),
		"the native rules that refer to group sg-9 are left out where policies drop part of the same traffic, because its members are not known here"},
	{why(reason.StaysForBlocked, "eni-2").From(why(reason.OfService, "eni-2")), "it stays under control, without policies, until eni-2 can be given back, with which it would lose flows: the interface eni-2 belongs to a service of the cloud, its groups cannot be set"},
	{why(reason.StaysForUnread, "eni-2"), "rules of its own groups refer to groups, and eni-2 is of a service that cannot be read, so nobody knows whether it belongs to them"},
	{why(reason.NotWaiting), "it is given back without waiting for planned VMs: flows with these may be open or cut for the time of its edit"},
	{why(reason.NeededByGroup, "sg-2"), "it is no longer needed, but cannot be deleted while the group sg-2 refers to it"},
	{why(reason.NeededByHolder, "eni-2"), "it is no longer needed, but cannot be deleted while the interface eni-2 holds it"},

	// Warnings.
	{why(reason.RejectIsDrop), "Reject is realized as Drop: security groups cannot answer."},
	{why(reason.ProtocolsReduced, "ingress"),
		"Where a rule takes some ingress traffic out of what all protocols were allowed, of the others only these IP protocols stay open, and of ICMP the types in use: " +
			"icmp, igmp, ip-in-ip, tcp, udp, ipv6-in-ip, gre, esp, ah, icmpv6, eigrp, ospf, etherip, pim, vrrp, l2tp, sctp, udp-lite, mpls-in-ip."},

	// Why a step is made.
	{why(reason.ForClass, "guarded").Counting(3), "guarded class, interfaces: 3"},
	{why(reason.OnlyDescriptions), "only their descriptions"},
	{why(reason.NoLongerAllowed), "no longer allowed"},
	{why(reason.RulesNeedless), "not needed any more"},
	{why(reason.WithFormer), "with what the former groups allow"},
	{why(reason.TakenApart, "tcp 80", "shop/no-lab", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16", "10.5.0.0/16", "10.6.0.0/16").Counting(17),
		"17 rules for tcp 80, because shop/no-lab takes out 10.1.0.0/16, 10.2.0.0/16, 10.3.0.0/16, 10.4.0.0/16 and 2 more"},
	{why(reason.NoClass), "no class needs it"},
	{why(reason.TakeOver), "take over"},
	{why(reason.TakeOverNative), "take over with the rules of its own groups, because these refer to groups that others give up"},
	{why(reason.ChangeClass), "change class"},
	{why(reason.GiveBack), "give back"},
	{why(reason.Claims), "policies apply in this network"},
	{why(reason.NothingLeft), "nothing of ours is left in this network"},
	{why(reason.Remembers), "remember its groups"},
	{why(reason.Signs), "sign what it remembers"},
	{why(reason.Restored), "its groups are restored"},
	{why(reason.SaysInForce), "which policies are in force"},
	{why(reason.ByForce, "abcd", "alice"), "forced by the annotation nephele.io/force=abcd, set by alice"},
	{why(reason.ByForce, "abcd", ""), "forced by the annotation nephele.io/force=abcd"},

	// Drift.
	{why(reason.PutInto, "sg-1", "sg-2"), "somebody put the interface into sg-1, sg-2"},
	{why(reason.TakenOut), "somebody took the interface out of its group of ours"},
	{why(reason.RuleAdded, "ingress tcp 22 from 0.0.0.0/0"), "somebody added the rule: ingress tcp 22 from 0.0.0.0/0"},
	{why(reason.TagsChanged, "nephele-abc"), words.TagsChanged + "nephele-abc"},
	{about(reason.MayPause, cloud.Ingress, flow.Whole(cloud.TCP), "10.0.0.1/32 10.0.2.1/32 10.0.4.1/32 10.0.6.1/32 10.0.8.1/32", "eni-1"),
		"while that is put right, ingress tcp of eni-1 with 10.0.0.1, 10.0.2.1, 10.0.4.1 and 2 more may be cut"},
	{about(reason.RecordCuts, cloud.Egress, flow.Any(), "0.0.0.0/0 ::/0", "eni-1"),
		"rules of its own groups allow members of groups, and of interfaces whose record is not believed nobody knows whether they are members: " +
			"egress any protocol of eni-1 with anywhere is cut"},
}

func TestSentences(t *testing.T) {
	for _, c := range sentences {
		if got := words.Of(c.why); got != c.want {
			t.Errorf("%+v\n got %q\nwant %q", c.why, got, c.want)
		}
	}
}

// TestEveryCodeIsSaid: a new code needs a sentence, and a row above that shows it.
func TestEveryCodeIsSaid(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../reason/reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, c := range sentences {
		for r := c.why; r != nil; r = r.Because {
			rows[string(r.Code)] = true
		}
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
				codes++
				if name := spec.Names[0].Name; !rows[name] {
					t.Errorf("no row has the code %s", name)
				}
			}
		}
		return true
	})
	if codes < len(rows) {
		t.Errorf("%d codes were found in the source, and %d are in the rows", codes, len(rows))
	}
}

// TestAll: several reasons stand in their order, with what is given between them.
func TestAll(t *testing.T) {
	for want, all := range map[string][]*reason.Reason{
		"":                              nil,
		"take over":                     {why(reason.TakeOver)},
		"give back | no class needs it": {why(reason.GiveBack), why(reason.NoClass)},
	} {
		if got := words.All(all, " | "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
