package nfttest

import (
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// The size of World.
const (
	WorldPolicies = 1000
	WorldRules    = 10 // of each policy
	WorldGroups   = 20000
	WorldMembers  = 5 // of each group
)

// World is what a host receives in a large world. Every rule names two groups.
func World() enforcer.Computed {
	var out enforcer.Computed
	for g := range WorldGroups {
		out.AddressGroups = append(out.AddressGroups, enforcer.NewAddressGroup(WorldGroup(g, 0)))
	}
	out.AppliedToGroups = []*v1beta2.AppliedToGroup{{ObjectMeta: metav1.ObjectMeta{Name: "host"},
		GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: "web"}}}}}
	for p := range WorldPolicies {
		out.Policies = append(out.Policies, WorldPolicy(p, 8000))
	}
	return out
}

// WorldGroup is a group of World, with other addresses for every shift.
func WorldGroup(g, shift int) *v1beta2.AddressGroup {
	out := &v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("group-%d", g)}}
	for m := range WorldMembers {
		n := g*WorldMembers + m + shift<<20
		a := netip.AddrFrom4([4]byte{10 + byte(n>>24), byte(n >> 16), byte(n >> 8), byte(n)}).As16()
		out.GroupMembers = append(out.GroupMembers, v1beta2.GroupMember{Pod: &v1beta2.PodReference{Namespace: "n", Name: fmt.Sprint(n)}, IPs: []v1beta2.IPAddress{a[:]}})
	}
	return out
}

// WorldPolicy is a policy of World, about as many ports as it has rules, from one on.
func WorldPolicy(p, port int) *v1beta2.NetworkPolicy {
	tier, priority, allow, tcp := int32(250), float64(p), v1beta2.RuleActionAllow, v1beta2.ProtocolTCP
	out := &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("policy-%d", p)}, TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"host"},
		SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: fmt.Sprintf("policy-%d", p)}}
	for r := range WorldRules {
		n := intstr.FromInt(port + r)
		g := (p*WorldRules + r) * 2 % WorldGroups
		out.Rules = append(out.Rules, v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Priority: int32(r), Action: &allow, Name: fmt.Sprintf("r%d", r),
			From:     v1beta2.NetworkPolicyPeer{AddressGroups: []string{fmt.Sprintf("group-%d", g), fmt.Sprintf("group-%d", g+1)}},
			Services: []v1beta2.Service{{Protocol: &tcp, Port: &n}}})
	}
	return out
}
