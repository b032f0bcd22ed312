package flowlogs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
)

// inputsSum is another number when policies, machines or groups are others than before. Pods count
// where they are the other end of an interface: each connection looks up the Pod of that time.
func inputsSum(c *explain.Computation, acls []cloud.NetworkACL) (sum uint64) {
	add := func(format string, args ...any) {
		// The sum is the same in any order. Parts of a hash with a structure, as FNV, could cancel.
		h := sha256.Sum256(fmt.Appendf(nil, format, args...))
		sum += binary.BigEndian.Uint64(h[:])
	}
	for _, p := range policiesOf(c.Objects) {
		add("policy %s %d %v", p.GetUID(), p.GetGeneration(), p.GetAnnotations())
	}
	for _, g := range c.Objects.Groups {
		add("group %s %d", g.UID, g.Generation)
	}
	for _, g := range c.Objects.ClusterGroups {
		add("group %s %d", g.UID, g.Generation)
	}
	for _, t := range c.Objects.Tiers {
		add("tier %s %d", t.UID, t.Generation)
	}
	for _, s := range c.Objects.Selectors {
		add("selector %s %d %v", s.UID, s.Generation, s.Annotations)
	}
	for _, a := range c.Objects.Accounts {
		add("account %s %d %v", a.UID, a.Generation, a.Annotations)
	}
	for ref, e := range c.Ends {
		if ref.Kind == policy.KindExternalEntity {
			add("entity %v %v %v", ref, e.Labels, e.Addresses)
		}
	}
	for _, a := range c.Objects.Observed {
		for _, s := range a.Snapshots {
			for i := range s.Interfaces {
				add("interface %s %v %v %v", s.Interfaces[i].ID, s.Interfaces[i].GroupIDs, s.Interfaces[i].PrivateIPs, s.Interfaces[i].SubnetID)
			}
			for i := range s.Groups {
				add("rules %s %v", s.Groups[i].ID, s.Groups[i].Rules)
			}
		}
	}
	for i := range acls {
		add("acl %v", acls[i])
	}
	return sum
}

// policiesOf are all policies.
func policiesOf(o *input.Objects) (out []client.Object) {
	for _, p := range o.Policies {
		out = append(out, p)
	}
	for _, p := range o.ClusterPolicies {
		out = append(out, p)
	}
	for _, p := range o.K8sPolicies {
		out = append(out, p)
	}
	for _, p := range o.AdminPolicies {
		out = append(out, p)
	}
	for _, p := range o.BaselinePolicies {
		out = append(out, p)
	}
	for _, p := range o.UpstreamPolicies {
		out = append(out, p)
	}
	return out
}

// uidsOf finds the UIDs of policies by what they are called.
func uidsOf(o *input.Objects) func(analysis.Policy) string {
	uids := map[analysis.Policy]string{}
	add := func(kind policy.PolicyKind, p client.Object) {
		uids[analysis.Policy{Type: string(kind), Namespace: p.GetNamespace(), Name: p.GetName()}] = string(p.GetUID())
	}
	for _, p := range o.Policies {
		add(policy.AntreaNetworkPolicy, p)
	}
	for _, p := range o.ClusterPolicies {
		add(policy.AntreaClusterNetworkPolicy, p)
	}
	for _, p := range o.K8sPolicies {
		add(policy.KubernetesNetworkPolicy, p)
	}
	for _, p := range o.AdminPolicies {
		add(policy.AdminNetworkPolicy, p)
	}
	for _, p := range o.BaselinePolicies {
		add(policy.BaselineAdminNetworkPolicy, p)
	}
	for _, p := range o.UpstreamPolicies {
		add(policy.ClusterNetworkPolicy, p)
	}
	return func(p analysis.Policy) string { return uids[p] }
}

// addressesOf are the addresses of the interfaces of an account, and these by ID and MAC address.
func addressesOf(c *explain.Computation, account string) (addresses map[string][]netip.Addr, own map[string]bool) {
	addresses, own = map[string][]netip.Addr{}, map[string]bool{}
	for _, a := range c.Objects.Observed {
		if a.Key != account {
			continue
		}
		for _, s := range a.Snapshots {
			for i := range s.Interfaces {
				n := &s.Interfaces[i]
				addresses[n.ID], own[n.ID] = n.PrivateIPs, true
				if n.MAC != "" {
					own[n.MAC] = true
				}
			}
		}
	}
	return addresses, own
}
