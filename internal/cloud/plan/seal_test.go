package plan_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// testSeal is the seal of the test account, with a key that is made of one letter.
func testSeal(letter byte, lenient bool) *plan.Seal {
	s := plan.NewSeal(bytes.Repeat([]byte{letter}, plan.SealKeySize), testCluster, testAccount)
	s.Lenient = lenient
	return s
}

func sealed(s *plan.Seal) func(*plan.Input) { return func(in *plan.Input) { in.Seal = s } }

// signedOn returns the interfaces that hold a record, and fails unless the seal proves every one of
// them.
func signedOn(t *testing.T, f *fakeCloud, s *plan.Seal) (ids []string) {
	t.Helper()
	strict := *s
	strict.Lenient = false
	for i := range f.snap.Interfaces {
		n := &f.snap.Interfaces[i]
		if _, ok := n.Tags[cloud.TagFormer]; !ok {
			continue
		}
		if ids = append(ids, n.ID); !strict.Believes(testRegion, n) {
			t.Errorf("%s is not signed: %v", n.ID, n.Tags)
		}
	}
	return ids
}

// TestRecordsAreSigned: what is recorded is signed by the same call, costs one tag, and is given
// back with the signature removed.
func TestRecordsAreSigned(t *testing.T) {
	e := small()
	f := e.cloud()
	native := f.clone()
	seal := testSeal('k', false)
	res := settle(t, e, f, sealed(seal))
	if d := gocmp.Diff([]string{nicID(0)}, signedOn(t, f, seal)); d != "" {
		t.Errorf("recorded (-want +got):\n%s", d)
	}
	if n := f.nic(nicID(0)); len(n.Tags) != 2 {
		t.Errorf("tags %v", n.Tags)
	}
	if r := res.Records; r.Signed != 1 || r.Unsigned != 0 || len(r.Unproven) != 0 {
		t.Errorf("%+v", r)
	}
	e.History[0] = policySet{}
	settle(t, e, f, sealed(seal))
	if !reflect.DeepEqual(leftOver(f), leftOver(native)) {
		t.Errorf("not given back: %s", diffLeftOver(f, native))
	}
}

// TestRecordsAreSignedAnew: with another key nothing but signatures changes, records that a former
// one has signed are as good until then, and without the former one afterwards.
func TestRecordsAreSignedAnew(t *testing.T) {
	e := bothGuarded()
	f := e.cloud()
	was := testSeal('k', false)
	settle(t, e, f, sealed(was))
	before := f.clone()
	key := func(letter byte) []byte { return bytes.Repeat([]byte{letter}, plan.SealKeySize) }
	both := plan.NewSeal(key('x'), testCluster, testAccount, key('k'))
	for i := range f.snap.Interfaces {
		if n := &f.snap.Interfaces[i]; n.Tags[cloud.TagFormer] != "" && !both.Proves(testRegion, n) {
			t.Errorf("%s is not proven by the former key", n.ID)
		}
	}
	in := e.input(e.History[0], f.clone())
	in.Seal = both
	first := plan.Compute(in, lower.AWS{})
	if r := first.Records; r.Signed != 2 || r.Outdated != 2 || r.Unsigned != 0 || len(r.Unproven) != 0 {
		t.Errorf("%+v", r)
	}
	for _, s := range first.Plan.Steps {
		if s.Op.Kind != cloud.OpTag || len(s.Op.Tags) != 1 || s.Op.Tags[cloud.TagSignature] == "" {
			t.Errorf("%s", s.Op)
		}
	}
	res := settle(t, e, f, sealed(both))
	if r := res.Records; r.Signed != 2 || r.Outdated != 0 {
		t.Errorf("%+v", r)
	}
	signedOn(t, f, testSeal('x', false))
	for i := range f.snap.Interfaces {
		delete(f.snap.Interfaces[i].Tags, cloud.TagSignature)
		delete(before.snap.Interfaces[i].Tags, cloud.TagSignature)
	}
	if !reflect.DeepEqual(before.snap, f.snap) {
		t.Error("something else has changed")
	}
}

// TestCallsForSignatures: signing costs no call of its own, and hardly more calls for tags.
func TestCallsForSignatures(t *testing.T) {
	tagging := func(change func(*plan.Input)) (calls, interfaces int) {
		in, _ := bigInput(1000, byRole)
		if change != nil {
			change(&in)
		}
		for _, s := range plan.Compute(in, lower.AWS{}).Plan.Steps {
			if s.Op.Kind == cloud.OpTag && s.Op.Target != "vpc-0" {
				calls, interfaces = calls+1, interfaces+len(s.Op.Subjects())
				if len(s.Op.Tags) > 2 {
					t.Fatalf("%v", s.Op.Tags)
				}
				for _, v := range s.Op.Tags {
					if len(v) > 256 {
						t.Fatalf("%d characters", len(v))
					}
				}
			}
		}
		return calls, interfaces
	}
	before, n := tagging(nil)
	after, m := tagging(sealed(testSeal('k', false)))
	if n != 1000 || m != 1000 || after > 2*before-1 {
		t.Errorf("%d calls for %d interfaces with signatures, %d for %d without", after, m, before, n)
	}
	t.Logf("%d calls for tags with signatures, %d without", after, before)
}

// forgeries are what a user with the right to write tags may do to the record of the first
// interface of small, which holds a group of ours.
var forgeries = map[string]func(f *fakeCloud, n *cloud.Interface){
	"another group":         func(_ *fakeCloud, n *cloud.Interface) { n.Tags[cloud.TagFormer] = groupID(3) },
	"one more group":        func(_ *fakeCloud, n *cloud.Interface) { n.Tags[cloud.TagFormer] += " " + groupID(3) },
	"a continuation":        func(_ *fakeCloud, n *cloud.Interface) { n.Tags[cloud.TagFormer+".1"] = " " + groupID(3) },
	"an empty record":       func(_ *fakeCloud, n *cloud.Interface) { n.Tags[cloud.TagFormer] = "" },
	"the record is gone":    func(_ *fakeCloud, n *cloud.Interface) { delete(n.Tags, cloud.TagFormer) },
	"both are gone":         func(_ *fakeCloud, n *cloud.Interface) { n.Tags = nil },
	"the signature is gone": func(_ *fakeCloud, n *cloud.Interface) { delete(n.Tags, cloud.TagSignature) },
	"garbage for signature": func(_ *fakeCloud, n *cloud.Interface) {
		n.Tags[cloud.TagSignature] = "v1 \x00\xff" + strings.Repeat("é", 100)
	},
	"a signature of nothing": func(_ *fakeCloud, n *cloud.Interface) { n.Tags[cloud.TagSignature] = "v1 " },
	"of another version": func(_ *fakeCloud, n *cloud.Interface) {
		n.Tags[cloud.TagSignature] = strings.Replace(n.Tags[cloud.TagSignature], "v1", "v2", 1)
	},
	"the record and signature of another interface": func(f *fakeCloud, n *cloud.Interface) {
		n.Tags = maps.Clone(f.nic(nicID(1)).Tags)
	},
	"signed with another key": func(f *fakeCloud, n *cloud.Interface) {
		e := small()
		other := e.cloud()
		e.NICs[0].Groups = []int{3}
		for _, s := range plan.Compute(func() plan.Input { in := e.input(e.History[0], other); in.Seal = testSeal('x', false); return in }(), lower.AWS{}).Plan.Steps {
			if s.Op.Kind == cloud.OpTag && s.Op.Target == n.ID {
				n.Tags = maps.Clone(s.Op.Tags)
			}
		}
		n.Tags[cloud.TagFormer] = groupID(3)
	},
}

// bothGuarded is small with a policy for the first two VMs.
func bothGuarded() *estate {
	e := small()
	e.History[0].Applied[0] = []int{0, 1}
	return e
}

// TestForgedRecord: after a restart nothing is given back by a record that somebody else wrote,
// whatever asks for it; what is held stays as it is; and it is said. What an authorised user names
// is given back.
func TestForgedRecord(t *testing.T) {
	for name, forge := range forgeries {
		for _, asks := range []string{"policies gone", string(plan.Released), string(plan.BreakGlass), "deselected", "account deleted"} {
			t.Run(name+"/"+asks, func(t *testing.T) {
				e := bothGuarded()
				f := e.cloud()
				native := f.clone()
				seal := testSeal('k', false)
				settle(t, e, f, sealed(seal))
				held := f.clone()
				forge(f, f.nic(nicID(0)))
				tags := maps.Clone(f.nic(nicID(0)).Tags)
				change := func(in *plan.Input) {
					in.Seal = seal
					switch asks {
					case "policies gone":
						in.Policies = nil
					case "deselected":
						delete(in.Entities, plan.EntityRef{Namespace: "vms", Name: vmID(0)})
						in.Policies = nil
					case "account deleted":
						in.Policies, in.Entities = nil, nil
					default:
						in.Modes = map[plan.VMRef]plan.Mode{}
						for i := range 2 {
							in.Modes[plan.VMRef{Region: testRegion, ID: vmID(i)}] = plan.Mode(asks)
						}
					}
				}
				res := settle(t, e, f, change)
				n := f.nic(nicID(0))
				if !maps.Equal(n.Tags, tags) {
					t.Errorf("tags %v, want those that somebody wrote: %v", n.Tags, tags)
				}
				for _, g := range n.GroupIDs {
					if f.group(g).Tags[cloud.TagCluster] == "" {
						t.Errorf("it was given %s", g)
					}
				}
				if d := gocmp.Diff(held.prober().ingress(0), f.prober().ingress(0)); d != "" {
					t.Errorf("it admits something else (-before +after):\n%s", d)
				}
				if len(res.Records.Unproven) != 1 || res.Records.Unproven[0].Interface != nicID(0) ||
					!strings.Contains(res.Records.Unproven[0].Message, "nephele.io/former-groups") {
					t.Errorf("%+v", res.Records)
				}
				if !slices.ContainsFunc(res.Drift, func(d plan.Drift) bool { return d.Object == nicID(0) && d.Kept }) {
					t.Errorf("drift %+v", res.Drift)
				}
				if d := gocmp.Diff(native.nic(nicID(1)).GroupIDs, f.nic(nicID(1)).GroupIDs); d != "" {
					t.Errorf("the other one (-want +got):\n%s", d)
				}
				settle(t, e, f, func(in *plan.Input) {
					change(in)
					in.Confirmed = map[string][]string{nicID(0): {groupID(1)}, nicID(1): {groupID(3)}, "eni-none": {"sg-none"}}
				})
				if !reflect.DeepEqual(leftOver(f), leftOver(native)) {
					t.Errorf("not given back: %s", diffLeftOver(f, native))
				}
			})
		}
	}
}

// ingress are the flows that the interface admits, from a few ends.
func (p *prober) ingress(nic int) (out []string) {
	for _, port := range []int{22, 80, 443} {
		for i := range 3 {
			ip := fmt.Sprintf("10.0.0.%d", 10+i)
			if p.half(nicID(nic), cloud.Ingress, remote{netip.MustParseAddr(ip), nicID(i)}, packet{cloud.TCP, port}) {
				out = append(out, fmt.Sprint(ip, port))
			}
		}
	}
	return out
}

// TestForgedWhileEnforced: policies that change do not reach an interface whose record is not
// believed, and say so; everybody else's do.
func TestForgedWhileEnforced(t *testing.T) {
	e := bothGuarded()
	f := e.cloud()
	seal := testSeal('k', false)
	settle(t, e, f, sealed(seal))
	before := f.prober().ingress(0)
	f.nic(nicID(0)).Tags[cloud.TagFormer] = groupID(3)
	e.History[0].Policies[0].Rules[0].Services[0].From, e.History[0].Policies[0].Rules[0].Services[0].To = 443, 443
	res := settle(t, e, f, sealed(seal))
	if d := gocmp.Diff(before, f.prober().ingress(0)); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
	for i, failed := range []bool{true, false} {
		if p := res.VMs[i].Policies[0]; (p.Message != "") != failed || p.Realized == failed {
			t.Errorf("VM %d: %+v", i, p)
		}
	}
	if n := res.VMs[0].Interfaces[0]; n.Unproven == "" || n.State != plan.Guarded {
		t.Errorf("%+v", n)
	}
	// The annotation puts the record right, and the policy reaches it.
	confirmed := func(in *plan.Input) {
		in.Seal, in.Confirmed = seal, map[string][]string{nicID(0): {groupID(1)}}
	}
	res = settle(t, e, f, confirmed)
	if len(res.Records.Unproven) != 0 || !res.VMs[0].Policies[0].Realized {
		t.Errorf("%+v %+v", res.Records, res.VMs[0])
	}
	signedOn(t, f, seal)
	if !admits(f, 0, "10.0.0.11", nicID(1), 443) || admits(f, 0, "10.0.0.11", nicID(1), 80) {
		t.Error("the policy has not reached it")
	}
}

// TestPlantedRecord: what somebody writes on an interface before we take it over is not believed
// either.
func TestPlantedRecord(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"a record":               {cloud.TagFormer: groupID(3)},
		"a record, and its tail": {cloud.TagFormer: groupID(3), cloud.TagFormer + ".1": " " + groupID(2), cloud.TagSignature: "v1 AAAAAAAA"},
		"a tail":                 {cloud.TagFormer + ".1": " " + groupID(2)},
		"a signature":            {cloud.TagSignature: "v1 AAAAAAAA"},
	} {
		for of, seal := range map[string]*plan.Seal{"strict": testSeal('k', false), "lenient": testSeal('k', true), "none": nil} {
			if seal == nil && tags[cloud.TagFormer] != "" {
				continue // believed
			}
			t.Run(name+"/"+of, func(t *testing.T) {
				e := small()
				f := e.cloud()
				native := f.clone()
				f.nic(nicID(0)).Tags, f.nic(nicID(2)).Tags = maps.Clone(tags), maps.Clone(tags)
				settle(t, e, f, sealed(seal))
				if got := plan.Former(f.nic(nicID(0))); !slices.Equal(got, []string{groupID(1)}) {
					t.Errorf("recorded %v", got)
				}
				if seal != nil {
					signedOn(t, f, seal)
				}
				e.History[0] = policySet{}
				settle(t, e, f, sealed(seal))
				for _, n := range f.snap.Interfaces {
					if d := gocmp.Diff(native.nic(n.ID).GroupIDs, n.GroupIDs); d != "" {
						t.Errorf("%s (-want +got):\n%s", n.ID, d)
					}
				}
			})
		}
	}
}

// TestForgedPeerIsCutOff: nobody knows any more whether a VM with a forged record belongs to the
// group that the own group of another VM admits. What that cuts is told before it is done, and is
// there again when the right groups are confirmed.
func TestForgedPeerIsCutOff(t *testing.T) {
	e := bothGuarded()
	e.Groups[2].Rules = append(e.Groups[2].Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 8080, 8080), Peer: cloud.Peer{GroupID: "#1"}})
	e.History[0].Policies[0].Rules[0].Out = true // so that VM 1 admits what its own group does
	f := e.cloud()
	seal := testSeal('k', false)
	settle(t, e, f, sealed(seal))
	f.nic(nicID(0)).Tags = map[string]string{cloud.TagFormer: groupID(3)}
	e.History[0].Applied[0] = []int{0}
	if !admits(f, 1, "10.0.0.10", nicID(0), 8080) {
		t.Fatal("the test shows nothing")
	}
	in := e.input(e.History[0], f.clone())
	in.Seal = seal
	told := plan.Compute(in, lower.AWS{}).Drift
	if !slices.ContainsFunc(told, func(d plan.Drift) bool {
		return d.Object == nicID(1) && d.Code == reason.RecordCuts && strings.Contains(d.Message, "ingress tcp 8080 of "+nicID(1))
	}) {
		t.Errorf("not told: %+v", told)
	}
	settle(t, e, f, sealed(seal))
	if admits(f, 1, "10.0.0.10", nicID(0), 8080) {
		t.Error("VM 1 still admits VM 0, of which nobody knows where it belongs")
	}
	settle(t, e, f, func(in *plan.Input) { in.Seal, in.Confirmed = seal, map[string][]string{nicID(0): {groupID(1)}} })
	if !admits(f, 1, "10.0.0.10", nicID(0), 8080) {
		t.Error("VM 1 does not admit VM 0 again")
	}
}

// TestForgeryCostsLittle: that one interface of many has to be told from the others costs an edit
// of it, and none of the others.
func TestForgeryCostsLittle(t *testing.T) {
	in, f := bigInput(200, byRole)
	in.Seal = testSeal('k', false)
	settleBig(t, &in, f)
	f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 1000}
	f.snap.Interfaces[7].Tags[cloud.TagFormer] = "sg-03"
	if n := settledEdits(settleBig(t, &in, f)); n > 1 {
		t.Errorf("%d edits", n)
	}
}

// TestForgedMember: an interface that keeps its own groups needs no record, and one that somebody
// writes is removed.
func TestForgedMember(t *testing.T) {
	e := small()
	f := e.cloud()
	seal := testSeal('k', false)
	settle(t, e, f, sealed(seal))
	member := f.clone()
	f.nic(nicID(1)).Tags = map[string]string{cloud.TagFormer: groupID(3)}
	res := settle(t, e, f, sealed(seal))
	if d := gocmp.Diff(member.nic(nicID(1)).GroupIDs, f.nic(nicID(1)).GroupIDs); d != "" || len(f.nic(nicID(1)).Tags) > 0 || len(res.Records.Unproven) > 0 {
		t.Errorf("tags %v, %+v (-want +got):\n%s", f.nic(nicID(1)).Tags, res.Records, d)
	}
}

// TestForgedMembership: a record that is not believed makes its interface a member of nobody's
// groups: rules of others that mean the members of a group do not come to mean it.
func TestForgedMembership(t *testing.T) {
	for _, mode := range []plan.Mode{plan.Enforce, plan.Planned} {
		e := bothGuarded()
		// The second VM's own group admits the members of the third VM's.
		e.Groups[2].Rules = append(e.Groups[2].Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 443, 443), Peer: cloud.Peer{GroupID: "#3"}})
		drop := policySpec{Tier: 250, Priority: 5, Applied: []int{0}, Rules: []ruleSpec{{Action: "Drop", Blocks: []blockSpec{{CIDR: "198.51.100.0/24"}},
			Services: []serviceSpec{{Protocol: "TCP", From: 1, To: 1, Type: -1}}}}}
		e.History[0].Policies = []policySpec{drop} // so its own groups decide
		f := e.cloud()
		seal := testSeal('k', false)
		settle(t, e, f, sealed(seal))
		if admits(f, 1, "10.0.0.10", nicID(0), 443) || !admits(f, 1, "10.0.0.12", nicID(2), 443) {
			t.Fatal("the test shows nothing")
		}
		f.nic(nicID(0)).Tags[cloud.TagFormer] = groupID(3)
		settle(t, e, f, func(in *plan.Input) {
			in.Seal = seal
			in.Modes = map[plan.VMRef]plan.Mode{{Region: testRegion, ID: vmID(0)}: mode}
		})
		if admits(f, 1, "10.0.0.10", nicID(0), 443) {
			t.Errorf("%q: the second VM admits the first one, because somebody wrote it into a tag", mode)
		}
	}
}

// TestOlderThanTheKey: records that are not signed are believed for an account of which it is not
// known that all are, and signed, many by one call, with nothing else done. That holds for such of
// another key too.
func TestOlderThanTheKey(t *testing.T) {
	for name, before := range map[string]*plan.Seal{"no key": nil, "another key": testSeal('x', false)} {
		t.Run(name, func(t *testing.T) {
			in, f := bigInput(100, byRole)
			in.Seal = before
			settleBig(t, &in, f)
			f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits}
			in.Seal = testSeal('k', true)
			res := plan.Compute(in, lower.AWS{})
			calls := 0
			for _, s := range res.Plan.Steps {
				if calls++; s.Op.Kind != cloud.OpTag || len(s.Op.Tags) != 1 {
					t.Fatalf("%s %v", s.Op, s.Op.Tags)
				}
			}
			if calls == 0 || calls > 5 || res.Records.Unsigned != 100 {
				t.Errorf("%d calls to sign %+v", calls, res.Records)
			}
			settleBig(t, &in, f)
			in.Seal = testSeal('k', false)
			if res := plan.Compute(in, lower.AWS{}); !res.Plan.Empty() || res.Records.Signed != 100 || res.Records.Unsigned != 0 {
				t.Errorf("%+v, %d steps", res.Records, len(res.Plan.Steps))
			}
		})
	}
}

// TestNoRoomToSign: an interface without room for one tag more stays believed as long as the
// account's records may be unsigned, and the others are signed; it is not taken over anew where the
// record would not fit with its signature.
func TestNoRoomToSign(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	n := f.nic(nicID(0))
	for i := 0; len(n.Tags) < e.Limits.TagsPerResource; i++ {
		n.Tags[fmt.Sprint("theirs-", i)] = ""
	}
	res := settle(t, e, f, sealed(testSeal('k', true)))
	if res.Records.Unsigned != 1 || len(res.Refusals) != 0 || len(res.Policies[0].Realized) != 1 {
		t.Errorf("%+v %+v", res.Records, res.Policies)
	}
	e = small()
	f = e.cloud()
	f.nic(nicID(0)).Tags = map[string]string{}
	for i := range e.Limits.TagsPerResource - 1 {
		f.nic(nicID(0)).Tags[fmt.Sprint("theirs-", i)] = ""
	}
	res = settle(t, e, f, sealed(testSeal('k', false)))
	if len(res.Refusals) != 1 || !res.Refusals[0].Why.Is(reason.TooManyTags) || !slices.Equal(res.Refusals[0].Why.Numbers, []int{2, 49, 50}) {
		t.Errorf("%+v", res.Refusals)
	}
}

// TestRecordsAreCountedAnyway: also where a plan takes too much work it is known which records are
// unsigned, and what is not believed is held.
func TestRecordsAreCountedAnyway(t *testing.T) {
	for _, allowed := range []int{math.MaxInt, 1} {
		e := bothGuarded()
		f := e.cloud()
		settle(t, e, f, nil)
		f.nic(nicID(1)).Tags = nil
		in := e.input(e.History[0], f.clone())
		in.Seal = testSeal('k', true)
		in.Modes = map[plan.VMRef]plan.Mode{{Region: testRegion, ID: vmID(1)}: plan.BreakGlass}
		res := plan.ComputeWithin(in, lower.AWS{}, allowed)
		if r := res.Records; r.Unsigned != 1 || len(r.Unproven) != 1 {
			t.Errorf("%+v", r)
		}
		for _, step := range res.Plan.Steps {
			if step.Op.Kind != cloud.OpTag || step.Op.Target == nicID(1) || slices.Contains(step.Op.Others, nicID(1)) || allowed == 1 {
				t.Errorf("a step %v", step)
			}
		}
		if n := res.VMs[1].Interfaces[0]; n.Unproven == "" || n.State != plan.Guarded {
			t.Errorf("%+v", n)
		}
	}
}

// TestStaleSignature: without a seal records are believed as they are, and a signature goes with
// the record.
func TestStaleSignature(t *testing.T) {
	e := small()
	f := e.cloud()
	native := f.clone()
	settle(t, e, f, sealed(testSeal('k', false)))
	e.History[0] = policySet{}
	settle(t, e, f, nil)
	if !reflect.DeepEqual(leftOver(f), leftOver(native)) {
		t.Errorf("not given back: %s", diffLeftOver(f, native))
	}
}

// TestSealedWorlds is TestWorlds with signed records.
func TestSealedWorlds(t *testing.T) {
	t.Parallel()
	next := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	checkWorlds(t, worldsOneIn(2), func(e *estate) {
		r := rand.New(rand.NewPCG(next, 44))
		if e.Sealed = true; r.IntN(2) == 0 {
			e.mix(r)
		}
		if r.IntN(3) == 0 {
			e.randomModes(r)
		}
		next++
	})
}

// TestForgedWorlds plays random accounts in which somebody writes into the records between the
// policies. Nothing is ever given groups that it did not have, no flow is opened that neither the
// old nor the new policies allow, and when the right groups are confirmed all is given back.
func TestForgedWorlds(t *testing.T) {
	t.Parallel()
	seed := envInt("NEPHELE_PLAN_SEED", 1)
	forged := 0
	// In the first two an interface is kept for a forged record whose rules have to name a group
	// of another network that is still to be created. In the last one a policy fits on a VM as soon
	// as one of its interfaces is kept.
	seeds := []uint64{721000031, 722000283, 724001660}
	for i := range worldsOneIn(1) {
		seeds = append(seeds, uint64(seed+i))
	}
	for _, at := range seeds {
		e := randomEstate(rand.New(rand.NewPCG(at, 7)))
		e.Sealed = true
		play := func(e *estate) error {
			n, err := playForged(e, rand.New(rand.NewPCG(at, 45)))
			forged += n
			return err
		}
		if err := play(&e); err != nil {
			failed(t, &e, at, err, play)
		}
	}
	if forged == 0 {
		t.Error("nothing was forged")
	}
	t.Logf("%d records forged", forged)
}

func playForged(e *estate, r *rand.Rand) (forged int, err error) {
	f := e.cloud()
	native := f.clone()
	flows := e.flows()
	confirmed := map[string][]string{}
	for _, n := range native.snap.Interfaces {
		confirmed[n.ID] = n.GroupIDs
	}
	planted := map[string]bool{} // interfaces with a signature of others, which proves nothing and stays
	history := append(slices.Clone(e.History), policySet{})
	for i, set := range history {
		if i > 0 {
			was, before := (&phase{estate: e, flows: flows, st: &stats{}}).verdicts(f), e.unproven(f)
			stuck, without := e.outOfOrder(f, history[i-1]), e.decided(f, history[i-1]).without
			forged += e.forge(f, r, planted)
			cut := e.cutByRecords(f, history[i-1])
			restored := slices.ContainsFunc(before, func(id string) bool { return !slices.Contains(e.unproven(f), id) }) // by chance
			// A restart, and nothing else: nothing is opened for it, and nothing is cut.
			if err := e.playSet(f, native, history[i-1], flows, nil); err != nil {
				return forged, fmt.Errorf("policy set %d, forged: %w", i-1, err)
			}
			v := e.decided(f, history[i-1])
			fits := !maps.Equal(without, v.without)
			held, enforced := e.unproven(f), f.prober()
			unknown := func(nic int) bool { return nic >= 0 && slices.Contains(held, nicID(nic)) }
			for k, is := range (&phase{estate: e, flows: flows, st: &stats{}}).verdicts(f) {
				wanted := flows[k].verdict(v.half)
				if is && wanted {
					continue // other ICMP types may be told where all protocols are allowed
				}
				if is == wanted && stuck {
					continue // it was blocked before, and the interface that is stopped now no longer stops it
				}
				// What is asked of the interfaces of a VM together may fit when one is left out.
				if fits && is == flows[k].verdict(func(nic int, d cloud.Direction, r remote, p packet) bool {
					if slices.Contains(held, nicID(nic)) {
						return enforced.half(nicID(nic), d, r, p)
					}
					return v.half(nic, d, r, p)
				}) {
					continue
				}
				if told := cut[flows[k].src] || cut[flows[k].dst]; !is && told && (unknown(flows[k].src) || unknown(flows[k].dst)) {
					continue // nobody knows which groups it belongs to, and what that cuts was told
				}
				if is != was[k] && !restored {
					return forged, fmt.Errorf("policy set %d, forged: %s becomes %v", i-1, flows[k], is)
				}
			}
		}
		if err := e.playSet(f, native, set, flows, nil); err != nil {
			return forged, fmt.Errorf("policy set %d: %w", i, err)
		}
	}
	if err := e.playSet(f, native, policySet{}, flows, confirmed); err != nil {
		return forged, fmt.Errorf("confirmed: %w", err)
	}
	for i := range f.snap.Interfaces {
		n := &f.snap.Interfaces[i]
		if n.Managed {
			continue // nothing is ever written to it
		}
		if _, signed := n.Tags[cloud.TagSignature]; signed && !planted[n.ID] || plan.Former(n) != nil || !slices.Equal(n.GroupIDs, confirmed[n.ID]) {
			return forged, fmt.Errorf("%s holds %v with %v in the end, and held %v", n.ID, n.GroupIDs, n.Tags, confirmed[n.ID])
		}
	}
	return forged, nil
}

// outOfOrder reports whether something stays as it is because there is no order of the changes, or
// because its next form does not fit, so that what is in force is not what is wanted, and may be
// when others come to stay.
func (e *estate) outOfOrder(f *fakeCloud, set policySet) bool {
	return slices.ContainsFunc(plan.Compute(e.input(set, f.clone()), e.lowerer()).Refusals, func(r plan.Refusal) bool {
		return r.Kept || slices.ContainsFunc([]reason.Code{
			reason.OrderOpposite, reason.OrderLeak, reason.OrderGap, reason.OrderInterface, reason.OrderRules, reason.OrderRegion, reason.OrderGroupLater,
		}, r.Why.Is)
	})
}

// cutByRecords are the interfaces of which is told that they cease to allow something, because of a
// record that is not believed.
func (e *estate) cutByRecords(f *fakeCloud, set policySet) map[int]bool {
	out := map[int]bool{}
	for _, d := range plan.Compute(e.input(set, f.clone()), e.lowerer()).Drift {
		for i := range e.NICs {
			out[i] = out[i] || d.Code == reason.RecordCuts && d.Object == nicID(i)
		}
	}
	return out
}

// decided is what the policies decide, but for those that the planner refuses.
func (e *estate) decided(f *fakeCloud, set policySet) *naive {
	return e.oracle(set, plan.Compute(e.input(set, f.clone()), e.lowerer()))
}

// unproven are the interfaces whose records are not believed.
func (e *estate) unproven(f *fakeCloud) (ids []string) {
	for _, u := range plan.Compute(e.input(policySet{}, f.clone()), e.lowerer()).Records.Unproven {
		ids = append(ids, u.Interface)
	}
	return ids
}

// forge writes into the records of some interfaces, and notes where a signature may be left alone.
func (e *estate) forge(f *fakeCloud, r *rand.Rand, planted map[string]bool) (forged int) {
	for i := range f.snap.Interfaces {
		n := &f.snap.Interfaces[i]
		if r.IntN(3) > 0 {
			continue
		}
		other := pick(r, f.snap.Interfaces)
		tags := maps.Clone(n.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		switch r.IntN(5) {
		case 0:
			tags[cloud.TagFormer] = groupID(r.IntN(len(e.Groups)))
		case 1:
			delete(tags, cloud.TagFormer)
		case 2:
			delete(tags, cloud.TagSignature)
		case 3:
			tags[cloud.TagFormer+".1"] = " " + groupID(r.IntN(len(e.Groups)))
		default:
			for _, k := range []string{cloud.TagFormer, cloud.TagSignature} {
				if v, ok := other.Tags[k]; ok {
					tags[k] = v
				}
			}
		}
		if !maps.Equal(tags, n.Tags) {
			forged++
			planted[n.ID] = true
		}
		n.Tags = tags
	}
	return forged
}

// playSet applies plans until nothing is left to do, and looks at every flow after every operation.
func (e *estate) playSet(f, native *fakeCloud, set policySet, flows []connection, confirmed map[string][]string) error {
	ph := &phase{estate: e, set: set, flows: flows, st: &stats{}}
	old := ph.verdicts(f)
	var seen [][]bool
	var ops []string
	word := ""
	for round := 0; ; round++ {
		if round > 12 {
			return fmt.Errorf("no end; ops:\n%s", strings.Join(ops, "\n"))
		}
		in := e.input(set, f.clone())
		in.Confirmed, in.Force = confirmed, word
		res := plan.Compute(in, e.lowerer())
		if next, _ := wordOf(res); res.Plan.Empty() && next != word {
			word = next
			continue
		}
		if res.Plan.Empty() {
			break
		}
		unproven := map[string]bool{}
		for _, u := range res.Records.Unproven {
			unproven[u.Interface] = true
		}
		for _, s := range res.Plan.Steps {
			ops = append(ops, s.Op.String())
			if err := f.apply(s.Network, s.Op); err != nil {
				return fmt.Errorf("%s: %w; ops:\n%s", s.Op, err, strings.Join(ops, "\n"))
			}
			if s.Op.Kind == cloud.OpSetInterfaceGroups {
				for _, g := range f.nic(s.Op.Target).GroupIDs {
					foreign := f.group(g).Tags[cloud.TagCluster] == ""
					if foreign && (unproven[s.Op.Target] || !slices.Contains(native.nic(s.Op.Target).GroupIDs, g)) {
						return fmt.Errorf("%s: %s was not among its groups, or nobody knows; ops:\n%s", s.Op, g, strings.Join(ops, "\n"))
					}
				}
			}
			seen = append(seen, ph.verdicts(f))
		}
	}
	final := ph.verdicts(f)
	for k, got := range seen {
		for i, fl := range flows {
			if got[i] && !old[i] && !final[i] {
				return fmt.Errorf("after op %d, %s: opens %s; ops:\n%s", k, ops[k], fl, strings.Join(ops, "\n"))
			}
		}
	}
	return nil
}

// BenchmarkChecking looks at an account that is as planned, with and without signed records.
func BenchmarkChecking(b *testing.B) {
	for name, seal := range map[string]*plan.Seal{"unsigned": nil, "signed": testSeal('k', false)} {
		b.Run(name, func(b *testing.B) {
			in, f := bigInput(5000, byRole)
			in.Seal = seal
			settleBig(b, &in, f)
			for b.Loop() {
				if res := plan.Compute(in, lower.AWS{}); !res.Plan.Empty() || len(res.Records.Unproven) > 0 {
					b.Fatal(len(res.Plan.Steps))
				}
			}
		})
	}
}
