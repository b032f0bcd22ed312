package explain_test

import (
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
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
		w := explainWorld{previewtest.NewWorld(t, seed)}
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

// explainWorld is a random account, which explain is asked about.
type explainWorld struct{ *previewtest.World }

// live lets the world go through all states, and compares in each.
func (w explainWorld) live(t *testing.T, seen map[string]int) {
	t.Helper()
	policies := w.Policies(3)
	w.Want(t, policies, "enforce")
	w.compare(t, "at first", seen)
	w.Want(t, policies, "enforce")
	w.Perform(t, 1+w.IntN(12))
	w.Want(t, policies, "enforce")
	w.compare(t, "half way", seen)
	w.Want(t, policies, "enforce")
	w.Perform(t, -1)
	w.Want(t, policies, "enforce")
	w.compare(t, "enforced", seen)
	for i := range policies { // some are changed into what cannot be enforced, so that what was stays
		switch w.IntN(3) {
		case 0:
			if !strings.Contains(policies[i], previewtest.Unsayable) {
				policies[i] = strings.Replace(policies[i], "ingress:\n", "ingress:\n"+previewtest.Unsayable, 1)
			}
		case 1:
			policies[i] = w.Policy(i)
		}
	}
	w.Want(t, policies, "enforce")
	w.compare(t, "changed", seen)
	w.Want(t, policies, "enforce")
	w.Perform(t, -1)
	w.Want(t, policies, "plan")
	w.compare(t, "suspended", seen)
	w.Want(t, policies, "enforce")
	w.compare(t, "refused and kept", seen)
}

// site is an end to ask about.
type site struct {
	text string
	packet.End
}

// compare asks about random flows.
func (w explainWorld) compare(t *testing.T, when string, seen map[string]int) {
	t.Helper()
	c, err := w.Planner.ReadAll(t.Context())
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
			src = outside[len(outside)-1-w.IntN(4)] // an address that no interface has
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
		truth, err := w.Server.World().Allowed(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Computed.Answer(q)
		if err != nil {
			t.Fatalf("seed %d, %s: %+v: %v", w.Seed, when, q, err)
		}
		if sent, err := netip.ParseAddr(sentTo(got)); err == nil && sent != f.Dst.Addr {
			// No way leads to the private address; explain says where the packet goes instead.
			seen["sent to a public address"]++
			f.Dst.Addr = sent
			if truth, err = w.Server.World().Allowed(f); err != nil {
				t.Fatal(err)
			}
		}
		seen[got.Verdict]++
		if !agrees(got, truth) {
			t.Errorf("seed %d, %s: %s\nthe simulator says %s\n%s", w.Seed, when, f, truth.Reason, previewtest.JSON(got))
			return
		}
		if got.Egress.Differs == explain.DiffersChanged || got.Ingress.Differs == explain.DiffersChanged {
			t.Errorf("seed %d, %s: nothing was changed by hand\n%s", w.Seed, when, previewtest.JSON(got))
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
