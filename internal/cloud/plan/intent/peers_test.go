package intent_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent/intenttest"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// member is a member of a group with the addresses that the maker of the group reports of it.
func member(namespace, name string, ips ...string) v1beta2.GroupMember {
	m := v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: namespace, Name: name}}
	for _, ip := range ips {
		m.IPs = append(m.IPs, netip.MustParseAddr(ip).AsSlice())
	}
	return m
}

func pod(ips ...string) v1beta2.GroupMember {
	m := member("", "", ips...)
	m.ExternalEntity, m.Pod = nil, &v1beta2.PodReference{Namespace: "shop", Name: "web"}
	return m
}

// TestPeers: the addresses by which web, in the network 10.0.0.0/24, lets a member of a group in.
func TestPeers(t *testing.T) {
	// A service holds eni-db, 10.0.0.12; the interface eni-app is an entity of its own.
	service := func(w *world) {
		w.Deselect("app", "db")
		w.NIC("db").Managed, w.NIC("db").VMID = true, ""
		w.NIC("app").VMID = ""
		w.Services = map[intent.EntityRef]intent.VMRef{
			{Namespace: "vms", Name: "rds"}: intenttest.VM("arn:rds"), {Namespace: "vms", Name: "eni"}: intenttest.VM("eni-app"), {Namespace: "vms", Name: "far"}: {Region: "there", ID: "arn:far"},
		}
	}
	unread := func(kinds ...cloud.ServiceKind) func(*world) {
		return func(w *world) {
			service(w)
			w.Snap.ServiceFaults = []cloud.ServiceFault{{API: "an API", Kinds: kinds, Err: errors.New("denied")}}
		}
	}
	apart := func(w *world) { // db is in another network, which has the same addresses
		w.Snap.Networks = append(w.Snap.Networks, cloud.Network{ID: "vpc-2", OwnerID: intenttest.Owner, CIDRs: w.Snap.Networks[0].CIDRs})
		w.NIC("db").NetworkID = "vpc-2"
	}
	peered := func(w *world) {
		apart(w)
		w.NIC("db").PrivateIPs = []netip.Addr{netip.MustParseAddr("10.1.0.12")}
		w.Snap.Networks[1].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}
		w.Snap.Peerings = []cloud.Peering{{ID: "pcx", A: cloud.PeeringEnd{NetworkID: "vpc", Region: "here"}, B: cloud.PeeringEnd{NetworkID: "vpc-2", Region: "here"}}}
	}
	for name, c := range map[string]struct {
		world  func(*world)
		member v1beta2.GroupMember
		want   string
	}{
		"a VM has the addresses that the cloud shows":                  {nil, member("vms", "app", "10.0.0.99", "203.0.113.1"), "10.0.0.11"},
		"and the blocks that are delegated to it":                      {func(w *world) { w.NIC("app").Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.64/28")} }, member("vms", "app"), "10.0.0.11, 10.0.0.64/28"},
		"one that is gone has none":                                    {func(w *world) { w.Snap.VMs = w.Snap.VMs[1:] }, member("vms", "app", "10.0.0.11"), ""},
		"one in another network without a way is known by public ones": {apart, member("vms", "db", "10.0.0.12", "203.0.113.12"), "203.0.113.12"},
		"one over a peering by its private ones":                       {peered, member("vms", "db", "10.9.9.9"), "10.1.0.12"},
		"one in another region by all that do not lie here": {func(w *world) {
			w.Entities[intent.EntityRef{Namespace: "vms", Name: "far"}] = intent.VMRef{Region: "there", ID: "far"}
		},
			member("vms", "far", "10.0.0.77", "10.7.0.1", "203.0.113.7"), "10.7.0.1, 203.0.113.7"},
		"a stranger by all that do not lie here":                    {nil, member("other", "vm", "10.0.0.78", "192.0.2.78"), "192.0.2.78"},
		"a VM of a shared network by those in it":                   {func(w *world) { w.Shared = map[intent.EntityRef]string{{Namespace: "other", Name: "vm"}: "vpc"} }, member("other", "vm", "10.0.0.78", "192.0.2.78"), "10.0.0.78"},
		"but not of one that is not seen":                           {func(w *world) { w.Shared = map[intent.EntityRef]string{{Namespace: "other", Name: "vm"}: "vpc-9"} }, member("other", "vm", "10.0.0.78"), ""},
		"a Pod by any, for it may be a host here":                   {nil, pod("10.0.0.77", "10.244.1.7"), "10.0.0.77, 10.244.1.7"},
		"an interface by those that are shown":                      {service, member("vms", "eni", "10.0.0.99"), "10.0.0.11"},
		"a service by those that one holds":                         {service, member("vms", "rds", "10.0.0.12", "10.0.0.11", "10.0.0.99", "192.0.2.9"), "10.0.0.12, 192.0.2.9"},
		"one of another region by those elsewhere":                  {service, member("vms", "far", "10.0.0.12", "192.0.2.9"), "192.0.2.9"},
		"while balancers cannot be read by those that nobody holds": {unread(cloud.RDSInstance, cloud.LoadBalancer), member("vms", "rds", "10.0.0.12", "10.0.0.11", "10.0.0.99"), "10.0.0.12, 10.0.0.99"},
		"which is not said of other services":                       {unread(cloud.RDSInstance), member("vms", "rds", "10.0.0.12", "10.0.0.11", "10.0.0.99"), "10.0.0.12"},
		"nor of one that is shown without addresses": {func(w *world) {
			unread(cloud.LoadBalancer)(w)
			w.Snap.Services = []cloud.Service{{ID: "arn:rds", Kind: cloud.LoadBalancer}}
		}, member("vms", "rds", "10.0.0.99"), ""},
	} {
		w := intenttest.New("web", "app", "db")
		w.Policy("p", "web", "allow ingress tcp 80 from app")
		w.AddressGroups[0].GroupMembers = []v1beta2.GroupMember{c.member}
		if c.world != nil {
			c.world(w)
		}
		want := "nothing"
		if c.want != "" {
			want = "tcp 80 " + c.want
		}
		if got := allowed(w, "web")[0]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// limited is a cloud without ports of SCTP.
type limited struct{}

func (limited) Unsupported(s flow.Service) string {
	if s.Protocol == cloud.SCTP {
		return "no ports of SCTP"
	}
	return ""
}

func codes(why *reason.Reason) string {
	var out []string
	for ; why != nil; why = why.Because {
		out = append(out, string(why.Code))
	}
	return strings.Join(out, ">")
}

// TestProblems: what cannot be expressed refuses its policy on the VMs that it is about, says in
// which rule, and leaves other policies alone.
func TestProblems(t *testing.T) {
	port, sctp, igmp, other := int32(1024), v1beta2.ProtocolSCTP, v1beta2.ProtocolIGMP, v1beta2.Protocol("DCCP")
	named, low := intstr.FromString("http"), intstr.FromInt32(90)
	high := int32(80)
	for want, change := range map[string]func(*v1beta2.NetworkPolicyRule){
		"InRule>SourcePort":     func(r *v1beta2.NetworkPolicyRule) { r.Services[0].SrcPort = &port },
		"InRule>PeerDomainName": func(r *v1beta2.NetworkPolicyRule) { r.From.FQDNs = []string{"example.com"} },
		"InRule>PeerService": func(r *v1beta2.NetworkPolicyRule) {
			r.From.ToServices = []v1beta2.ServiceReference{{Namespace: "a", Name: "b"}}
		},
		"InRule>PeerLabelSet": func(r *v1beta2.NetworkPolicyRule) { r.From.LabelIdentities = []uint32{1} },
		"InRule>Layer7":       func(r *v1beta2.NetworkPolicyRule) { r.L7Protocols = []v1beta2.L7Protocol{{}} },
		"InRule>IGMPDetails": func(r *v1beta2.NetworkPolicyRule) {
			r.Services = []v1beta2.Service{{Protocol: &igmp, GroupAddress: "224.0.0.1"}}
		},
		"InRule>UnknownProtocol": func(r *v1beta2.NetworkPolicyRule) { r.Services = []v1beta2.Service{{Protocol: &other}} },
		"InRule>BadPortRange":    func(r *v1beta2.NetworkPolicyRule) { r.Services[0].Port, r.Services[0].EndPort = &low, &high },
		"InRule>Unsupported":     func(r *v1beta2.NetworkPolicyRule) { r.Services = []v1beta2.Service{{Protocol: &sctp, Port: &low}} },
		"InRule>BadAddress": func(r *v1beta2.NetworkPolicyRule) {
			r.From.IPBlocks = []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: make([]byte, 5)}}}
		},
		"InRule>BadPrefixLength": func(r *v1beta2.NetworkPolicyRule) {
			r.From.IPBlocks = []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: make([]byte, 4), PrefixLength: 33}}}
		},
		"NamedPortUnknown": func(r *v1beta2.NetworkPolicyRule) { r.Services[0].Port, r.Services[0].EndPort = &named, nil },
		"GroupUnknown":     func(r *v1beta2.NetworkPolicyRule) { r.From.AddressGroups = []string{"nowhere"} },
		"":                 func(*v1beta2.NetworkPolicyRule) {},
	} {
		w := intenttest.New("web", "app", "db")
		p := w.Policy("p", "web", "allow ingress tcp 80 from app")
		w.Policy("q", "web db", "allow ingress tcp 80 from app")
		p.Rules[0].Name = "the one"
		change(&p.Rules[0])
		r := intent.New(w.Input, limited{}, nil).Regions[0]
		web := vmOf(r, "web")
		why := web.Problems[web.Policies[0]]
		if got := codes(why); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if why.Is(reason.InRule) && (why.Objects[0] != "the one" || why.Objects[1] != "ingress" || why.Numbers[0] != 0) {
			t.Errorf("%s is said of %q %v", want, why.Objects, why.Numbers)
		}
		if len(vmOf(r, "db").Problems) > 0 || web.Problems[web.Policies[1]] != nil {
			t.Errorf("%s: another policy, or another VM, has a problem", want)
		}
	}
}

// TestFaulty: a policy that the planner cannot cope with is refused unread, and so is one of a
// namespace whose policies tell too many kinds of VMs apart.
func TestFaulty(t *testing.T) {
	w := intenttest.New("web", "app")
	w.Policy("p", "web", "allow ingress tcp 80 from app")
	w.Policy("q", "web", "allow ingress tcp 80 from app")
	w.Faulty, w.Heavy = map[string]string{"p": "index out of range"}, map[string]int{"q": 63}
	web := vmOf(w.Region(), "web")
	p, q := web.Problems[web.Policies[0]], web.Problems[web.Policies[1]]
	if codes(p) != "PlannerFault" || p.Quoted != "index out of range" || codes(q) != "TooManyKinds" || q.Objects[0] != "of namespace vms" || q.Numbers[0] != 63 {
		t.Errorf("%+v, %+v", p, q)
	}
}
