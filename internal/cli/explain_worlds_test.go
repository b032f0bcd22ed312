package cli

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// explainWorlds is how many random worlds are tried; NEPHELE_EXPLAIN_WORLDS says otherwise, and
// NEPHELE_EXPLAIN_SEED tries one.
const explainWorlds = 10

// TestExplainIsWhatTheCloudDoes holds what explain says of today against the simulator's own
// verdict: on random accounts whose policies are pending, enforced, refused, kept as they were, and
// suspended, and while a plan is half done.
func TestExplainIsWhatTheCloudDoes(t *testing.T) {
	first, n := uint64(1), uint64(explainWorlds)
	if text := os.Getenv("NEPHELE_EXPLAIN_WORLDS"); text != "" {
		n, _ = strconv.ParseUint(text, 10, 32)
	}
	if text := os.Getenv("NEPHELE_EXPLAIN_SEED"); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
		n = 1
	}
	seen := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		w := newExplainWorld(t, seed)
		w.live(t, seen)
		if t.Failed() {
			t.Fatalf("seed %d: try it alone with NEPHELE_EXPLAIN_SEED=%[1]d", seed)
		}
	}
	t.Logf("%v", seen)
	// Often enough, so that a state that hardly ever occurs any more is noticed. Refused, kept and
	// suspended policies have to be what decides the flow, not only named beside it.
	for what, least := range map[string]int{"Allow": 500, "Drop": 500, "NoRoute": 20, "policy Refused": 100, "policy Kept": 50, "policy Pending": 100, "policy Suspended": 100,
		"otherwise if enforced": 100, "stopped by an ACL": 100, "decided otherwise because of Refused": 5, "decided otherwise because of Kept": 5, "decided otherwise because of Suspended": 5} {
		if seen[what] < least && n >= explainWorlds {
			t.Errorf("%d flows with %s in %d worlds, want at least %d: %v", seen[what], what, n, least, seen)
		}
	}
}

// explainWorld is a random account and what is wanted there.
type explainWorld struct {
	*rand.Rand
	seed     uint64
	server   *sim.Server
	provider cloud.Provider
	planner  *preview.Planner
	networks []string
	tags     []string
}

func newExplainWorld(t *testing.T, seed uint64) *explainWorld {
	t.Helper()
	state, err := estate.Random(seed, estate.Shape{VPCs: 3, VMs: 4})
	if err != nil {
		t.Fatal(err)
	}
	putACLs(&state, rand.New(rand.NewPCG(seed, 11)))
	server := simulated(t, state, seed)
	provider := awsOn(t, server)
	w := &explainWorld{Rand: rand.New(rand.NewPCG(seed, 7)), seed: seed, server: server, provider: provider, tags: []string{"web", "db", "api", "batch"}}
	for _, r := range state.Regions {
		for _, v := range r.VPCs {
			w.networks = append(w.networks, v.ID)
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

// live lets the world go through all states, and compares in each.
func (w *explainWorld) live(t *testing.T, seen map[string]int) {
	t.Helper()
	policies := w.policies(3)
	w.want(t, policies, "enforce")
	w.compare(t, "at first", seen)
	w.want(t, policies, "enforce")
	w.perform(t, 1+w.IntN(12))
	w.want(t, policies, "enforce")
	w.compare(t, "half way", seen)
	w.want(t, policies, "enforce")
	w.perform(t, -1)
	w.want(t, policies, "enforce")
	w.compare(t, "enforced", seen)
	for i := range policies { // some are changed into what cannot be enforced, so that what was stays
		switch w.IntN(3) {
		case 0:
			if !strings.Contains(policies[i], unsayable) {
				policies[i] = strings.Replace(policies[i], "ingress:\n", "ingress:\n"+unsayable, 1)
			}
		case 1:
			policies[i] = w.policy(i)
		}
	}
	w.want(t, policies, "enforce")
	w.compare(t, "changed", seen)
	w.want(t, policies, "enforce")
	w.perform(t, -1)
	w.want(t, policies, "plan")
	w.compare(t, "suspended", seen)
	w.want(t, policies, "enforce")
	w.compare(t, "refused and kept", seen)
}

func (w *explainWorld) policies(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = w.policy(i)
	}
	return out
}

// unsayable is a rule that no security group can say.
const unsayable = "  - {name: sees, action: Allow, ports: [{port: 80}], l7Protocols: [{http: {host: x}}]}\n"

func (w *explainWorld) peer() string {
	switch w.IntN(4) {
	case 0:
		return fmt.Sprintf("{ipBlock: {cidr: 10.%d.0.0/16}}", w.IntN(3))
	case 1:
		return "{ipBlock: {cidr: 0.0.0.0/0}}"
	}
	return "{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: " + w.tags[w.IntN(len(w.tags))] + "}}}"
}

func (w *explainWorld) policy(i int) string {
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
  `, i, i+1, w.tags[w.IntN(len(w.tags))])
	text += rules("ingress", "from")
	if w.IntN(2) == 0 {
		text += "  " + rules("egress", "to")
	}
	if w.IntN(5) == 0 {
		text = strings.Replace(text, "ingress:\n", "ingress:\n"+unsayable, 1)
	}
	return text
}

// want makes what is wanted the policies, on the VMs of all networks but the last, in a mode.
func (w *explainWorld) want(t *testing.T, policies []string, mode string) {
	t.Helper()
	var matches []string
	for _, n := range w.networks[:len(w.networks)-1] {
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
	w.planner = plannerOf(t, w.provider, manifests)
}

// perform applies plans until nothing is left to do, or so many steps are done. It stops where
// nothing changes any more.
func (w *explainWorld) perform(t *testing.T, steps int) {
	t.Helper()
	for range 8 {
		planned, err := w.planner.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if planned.Accounts[0].Result.Plan.Empty() {
			return
		}
		ids := map[string]string{}
		for _, g := range planned.Accounts[0].Regions[0].Snapshot.Groups {
			ids[g.NetworkID+"/"+g.Name] = g.ID
		}
		for _, s := range planned.Accounts[0].Result.Plan.Steps {
			if steps == 0 {
				return
			}
			steps--
			id, err := w.provider.Apply(t.Context(), s.Scope, s.Op.Resolve(s.Network, ids))
			if err != nil {
				t.Fatalf("seed %d: %s: %v", w.seed, s.Op, err)
			}
			if s.Op.Kind == cloud.OpCreateGroup {
				ids[s.Network+"/"+s.Op.Group.Name] = id
			}
		}
	}
}

// site is an end to ask about.
type site struct {
	text string
	packet.End
}

// compare asks about random flows.
func (w *explainWorld) compare(t *testing.T, when string, seen map[string]int) {
	t.Helper()
	c, err := w.planner.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var inside, outside []site
	for _, n := range c.Computed.Objects.Observed[0].Snapshots[0].Interfaces {
		for _, a := range n.PrivateIPs {
			inside = append(inside, site{a.String(), packet.End{NIC: n.ID, Addr: a}})
		}
		for _, a := range n.PublicIPs {
			outside = append(outside, site{a.String(), packet.End{NIC: n.ID, Addr: a}})
		}
	}
	for _, a := range []string{"203.0.113.7", "8.8.8.8", "198.51.100.9", "172.16.0.9"} {
		outside = append(outside, site{a, packet.End{Addr: netip.MustParseAddr(a)}})
	}
	for range 150 {
		src := inside[w.IntN(len(inside))]
		dst := inside[w.IntN(len(inside))]
		switch w.IntN(4) {
		case 0:
			dst = outside[w.IntN(len(outside))]
		case 1:
			src = outside[len(outside)-1-w.IntN(4)] // who has no interface
		}
		if src.Addr.Is4() != dst.Addr.Is4() {
			continue
		}
		f := packet.Flow{Src: src.End, Dst: dst.End, Protocol: 6, Port: []int{22, 80, 300, 443, 444}[w.IntN(5)]}
		q := explain.Question{From: src.text, To: dst.text, Protocol: "TCP", Port: strconv.Itoa(f.Port)}
		if w.IntN(4) == 0 {
			f.Protocol, f.Port, f.ICMPType = 1, 0, 8
			if src.Addr.Is6() {
				f.Protocol, f.ICMPType = 58, 128
			}
			q.Protocol, q.Port = "ICMP", ""
		}
		truth, err := w.server.World().Allowed(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Computed.Answer(q)
		if err != nil {
			t.Fatalf("seed %d, %s: %+v: %v", w.seed, when, q, err)
		}
		if sent, err := netip.ParseAddr(sentTo(got)); err == nil && sent != f.Dst.Addr {
			// No way leads to the private address; explain says where the packet goes instead.
			seen["sent to a public address"]++
			f.Dst.Addr = sent
			if truth, err = w.server.World().Allowed(f); err != nil {
				t.Fatal(err)
			}
		}
		seen[got.Verdict]++
		if !agrees(got, truth) {
			t.Errorf("seed %d, %s: %s\nthe simulator says %s\n%s", w.seed, when, f, truth.Reason, show.Explanation(got))
			return
		}
		if got.Egress.Differs == explain.DiffersChanged || got.Ingress.Differs == explain.DiffersChanged {
			t.Errorf("seed %d, %s: nobody has changed anything by hand\n%s", w.seed, when, show.Explanation(got))
		}
		note(seen, got)
	}
}

// agrees reports whether an answer is what the simulator says. It does not look at routes; of a
// source without a public address it takes the private one to be seen, where explain says that it
// does not know.
func agrees(got *analysis.FlowAnswer, truth packet.Verdict) bool {
	half := func(d *analysis.Decision, h packet.Half) bool {
		if !h.Filtered {
			return d.Outcome == "Allow"
		}
		return (d.Outcome == "Allow") == h.Allowed && (d.Outcome == "Allow" || d.Outcome == "Drop" || d.Outcome == "Reject")
	}
	unknown := got.Path != nil && len(got.Path.Remarks) > 0 && got.Path.Remarks[0] == explain.RemarkSourceUnknown
	// Where an ACL stops a packet, the simulator must say so too.
	if stopped := got.Path != nil && got.Path.StoppedBy != nil; stopped && truth.Obstacle == "" && !unknown {
		return false
	}
	if got.Egress == nil || !half(got.Egress, truth.Egress) || !unknown && !half(got.Ingress, truth.Ingress) {
		return false
	}
	switch got.Verdict {
	case "Allow":
		return truth.Allowed || unknown
	case "Drop", "Reject":
		return !truth.Allowed || unknown
	case explain.NoRoute:
		return got.Path.FromNetwork != got.Path.ToNetwork
	case "Unknown":
		return unknown
	}
	return false
}

// sentTo is the address that an answer says the packet is sent to, if that is not the one that was
// asked about.
func sentTo(x *analysis.FlowAnswer) string {
	if x.Path == nil {
		return ""
	}
	return x.Path.SentTo
}

func note(seen map[string]int, x *analysis.FlowAnswer) {
	if x.Path != nil && x.Path.StoppedBy != nil {
		seen["stopped by an ACL"]++
	}
	for _, d := range []*analysis.Decision{x.Egress, x.Ingress} {
		for _, p := range d.Policies {
			seen["policy "+string(p.State)]++
		}
		if d.NotEnforced != "" {
			seen["policy Suspended"]++
		}
		if d.IfEnforced != nil && d.IfEnforced.Outcome != d.Outcome {
			seen["otherwise if enforced"]++
			states := map[string]bool{}
			for _, p := range d.Policies {
				states[string(p.State)] = true
			}
			if d.NotEnforced != "" {
				states["Suspended"] = true
			}
			for state := range states {
				seen["decided otherwise because of "+state]++
			}
		}
		if d.Differs != "" {
			seen["differs "+string(d.Differs)]++
		}
	}
}
