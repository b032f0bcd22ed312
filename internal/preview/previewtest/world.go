package previewtest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// World is a random account and what is wanted there.
type World struct {
	*rand.Rand
	Seed     uint64
	Server   *sim.Server
	Provider cloud.Provider
	Planner  *preview.Planner
	// Networks are the ids of the VPCs, Tags what machines may have under the key app.
	Networks, Tags []string
}

// NewWorld draws an account of three VPCs, some subnets of which have network ACLs.
func NewWorld(t testing.TB, seed uint64) *World {
	t.Helper()
	state, err := estate.Random(seed, estate.Shape{VPCs: 3, VMs: 4})
	if err != nil {
		t.Fatal(err)
	}
	putACLs(&state, rand.New(rand.NewPCG(seed, 11)))
	server := Simulated(t, state, seed)
	provider := AWS(t, server, "us-west-2")
	w := &World{Rand: rand.New(rand.NewPCG(seed, 7)), Seed: seed, Server: server, Provider: provider, Tags: []string{"web", "db", "api", "batch"}}
	for _, r := range state.Regions {
		for _, v := range r.VPCs {
			w.Networks = append(w.Networks, v.ID)
		}
	}
	return w
}

// putACLs gives some subnets network ACLs that let through some of what the worlds ask about, and
// some of the answers.
func putACLs(s *aws.State, random *rand.Rand) {
	for i := range s.Regions {
		r := &s.Regions[i]
		for k, subnet := range r.Subnets {
			if random.IntN(3) != 0 {
				continue
			}
			id := fmt.Sprintf("%017x", 0xac1000+i*256+k)
			acl := aws.NetworkACL{ID: "acl-" + id, Account: r.Account, VPCID: subnet.VPCID, Associations: []aws.SubnetAssociation{{ID: "aclassoc-" + id, SubnetID: subnet.ID}}}
			for n := range 8 {
				e := aws.ACLEntry{Number: 10 * (n + 1), Egress: random.IntN(2) == 0, Allow: random.IntN(3) != 0, Protocol: []int{-1, -1, 6, 1}[random.IntN(4)]}
				e.CIDR = netip.MustParsePrefix([]string{"0.0.0.0/0", "0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "203.0.113.0/24", "::/0"}[random.IntN(6)])
				switch e.Protocol {
				case 6:
					e.FromPort, e.ToPort = []int{0, 80, 1024}[random.IntN(3)], []int{443, 65535}[random.IntN(2)]
					if e.FromPort > e.ToPort {
						e.ToPort = 65535
					}
				case 1:
					e.FromPort, e.ToPort = []int{-1, 0, 8}[random.IntN(3)], -1
				}
				acl.Entries = append(acl.Entries, e)
			}
			r.NetworkACLs = append(r.NetworkACLs, acl)
		}
	}
}

// Policies draws so many policies.
func (w *World) Policies(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = w.Policy(i)
	}
	return out
}

// Unsayable is a rule that no security group can say.
const Unsayable = "  - {name: sees, action: Allow, ports: [{port: 80}], l7Protocols: [{http: {host: x}}]}\n"

func (w *World) peer() string {
	switch w.IntN(4) {
	case 0:
		return fmt.Sprintf("{ipBlock: {cidr: 10.%d.0.0/16}}", w.IntN(3))
	case 1:
		return "{ipBlock: {cidr: 0.0.0.0/0}}"
	}
	return "{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: " + w.Tags[w.IntN(len(w.Tags))] + "}}}"
}

// Policy draws the policy of a number, which names it and is its priority.
func (w *World) Policy(i int) string {
	rules := func(list, peers string) string {
		text := list + ":\n"
		for k := range 1 + w.IntN(2) {
			action := []string{"Allow", "Allow", "Drop"}[w.IntN(3)]
			port := []string{"ports: [{port: 22}]", "ports: [{port: 80, endPort: 443}]", "protocols: [{icmp: {icmpType: 8}}]"}[w.IntN(3)]
			text += fmt.Sprintf("  - {name: %s%d, action: %s, %s: [%s], %s}\n", list, k, action, peers, w.peer(), port)
		}
		return text
	}
	text := fmt.Sprintf(`---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: p%d, namespace: vms}
spec:
  priority: %d
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: %s}}}]
  `, i, i+1, w.Tags[w.IntN(len(w.Tags))])
	text += rules("ingress", "from")
	if w.IntN(2) == 0 {
		text += "  " + rules("egress", "to")
	}
	if w.IntN(5) == 0 {
		text = strings.Replace(text, "ingress:\n", "ingress:\n"+Unsayable, 1)
	}
	return text
}

// Want makes what is wanted the policies, on the VMs of all networks but the last, in a mode.
func (w *World) Want(t testing.TB, policies []string, mode string) {
	t.Helper()
	var matches []string
	for _, n := range w.Networks[:len(w.Networks)-1] {
		matches = append(matches, "{vpcMatch: {matchID: "+n+"}}")
	}
	manifests := fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: a, namespace: vms}
spec:
  awsConfig: {region: [us-west-2], secretRef: {name: s, namespace: vms, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: all, namespace: vms}
spec: {accountName: a, accountNamespace: vms, mode: %s, vmSelector: [%s]}
`, mode, strings.Join(matches, ", ")) + strings.Join(policies, "")
	w.Planner = Planner(t, w.Provider, manifests)
}

// Perform applies plans until nothing is left to do, or so many steps are done. It stops where
// nothing changes any more.
func (w *World) Perform(t testing.TB, steps int) {
	t.Helper()
	for range 8 {
		done, empty := Apply(t, w.Provider, w.Planner, steps)
		if empty {
			return
		}
		if steps -= done; steps == 0 {
			return
		}
	}
}
