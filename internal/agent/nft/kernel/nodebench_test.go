package kernel_test

import (
	"fmt"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// BenchmarkOnePodMore has a Pod come to and go from a Node with 110 Pods of 55 classes, to each of
// which 10 policies apply: compiled and in the kernel.
func BenchmarkOnePodMore(b *testing.B) {
	const pods, classes, policies = 110, 55, 10
	var c enforcer.Computed
	node := &nft.Node{Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}
	allow, tier := v1beta2.RuleActionAllow, int32(250)
	for class := range classes {
		group := fmt.Sprintf("g%d", class)
		c.AppliedToGroups = append(c.AppliedToGroups, &v1beta2.AppliedToGroup{ObjectMeta: metav1.ObjectMeta{Name: group}})
		for n := range policies {
			priority := float64(n + 1)
			c.Policies = append(c.Policies, &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d-%d", class, n)}, AppliedToGroups: []string{group}, TierPriority: &tier, Priority: &priority,
				Rules: []v1beta2.NetworkPolicyRule{{Direction: v1beta2.DirectionIn, Action: &allow,
					From: v1beta2.NetworkPolicyPeer{IPBlocks: []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: []byte{10, byte(class), byte(n), 0}, PrefixLength: 24}}}}}}})
		}
	}
	for n := range pods {
		name := fmt.Sprintf("p%d", n)
		node.Pods = append(node.Pods, nft.Pod{Namespace: "n", Name: name, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, 0, byte(n + 2)})}})
		g := c.AppliedToGroups[n%classes]
		g.GroupMembers = append(g.GroupMembers, v1beta2.GroupMember{Pod: &v1beta2.PodReference{Namespace: "n", Name: name}})
	}
	fewer := *node
	fewer.Pods = node.Pods[:pods-1]
	table := open(b, nfttest.NewHost(b))
	var compiler nft.Compiler
	apply := func(n *nft.Node) {
		if _, err := table.Apply(compiler.Compile(nft.Input{Computed: c, Node: n}).Program); err != nil {
			b.Fatal(err)
		}
	}
	apply(node)
	for n := 0; b.Loop(); n++ {
		apply([...]*nft.Node{&fewer, node}[n%2])
	}
}
