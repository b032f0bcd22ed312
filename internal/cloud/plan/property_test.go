package plan_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestWorlds is the proof of the planner: random accounts with random policies, checked at every
// single operation. The number of worlds and the first seed can be set with NEPHELE_PLAN_WORLDS and
// NEPHELE_PLAN_SEED, and after how many of the operations of each change everything is forgotten
// with NEPHELE_PLAN_RESTARTS.
func TestWorlds(t *testing.T) {
	t.Parallel()
	checkWorlds(t, worldsOneIn(1), func(*estate) {})
}

// worldsOneIn is how many random worlds of a kind are played if nothing else is asked for: in make
// test-long one of so many of those that TestWorlds plays, and at most ten at each commit, beside
// all worlds that have failed once. make worlds plays thousands.
func worldsOneIn(of int) int {
	if n := envInt("NEPHELE_PLAN_WORLDS", 0); n > 0 {
		return n / of
	}
	return min(fullWorlds/of, tier.Pick(10, 10, fullWorlds))
}

func checkWorlds(t *testing.T, worlds int, prepare func(*estate)) stats {
	t.Helper()
	seed := envInt("NEPHELE_PLAN_SEED", 1)
	by := subjectOf(t)
	var st stats
	for i := range worlds {
		at := uint64(seed + i)
		e := randomEstate(rand.New(rand.NewPCG(at, 7)))
		prepare(&e)
		if err := by.checkEstate(&e, at, &st); err != nil {
			failed(t, &e, at, err, func(e *estate) error { return by.checkEstate(e, at, &stats{}) })
		}
	}
	t.Logf("seeds %d..%d: %+v", seed, seed+worlds-1, st)
	return st
}

// failed reports a world in which something went wrong. Unless NEPHELE_PLAN_SHRINK is 0, it ends
// the test with that world made smaller.
func failed(t *testing.T, e *estate, seed uint64, err error, play func(*estate) error) {
	t.Helper()
	t.Errorf("seed %d: %s", seed, shorten(err.Error()))
	tries := envInt("NEPHELE_PLAN_SHRINK", 150)
	if tries == 0 {
		return // what else there is
	}
	small := shrink(*e, tries, func(e *estate) bool { return play(e) != nil })
	text, err := json.Marshal(small)
	if err != nil {
		t.Fatal(err)
	}
	t.Fatalf("made smaller: %s\n%s", shorten(fmt.Sprint(play(&small))), text)
}

type stats struct {
	Phases, Ops, Rounds, Exact, WithRefusals, Flows, Restarts, Mirrored, Outside, SecondRegion int
	// Replaced are rules turned into others in place, Full such rules in groups that have no room
	// for both forms.
	Replaced, Full int
	// Together are interfaces that are tagged with others by one call.
	Together int
	// Forced are blocked plans that went on by a word.
	Forced int
	// Hasty are plans that give released interfaces back without waiting for planned ones.
	Hasty int
	// Whole are groups of which rules come and go by one call.
	Whole int
	// Twins are rules added to groups of others.
	Twins int
	// Late are rounds in which a policy is refused for want of groups that was not in the round
	// before.
	Late int
	// Listed are native rules for a prefix list of interfaces under control of which the list is
	// named still, Spelled the rules of which it is not.
	Listed, Spelled int
}

// shorten cuts long lines and long texts.
func shorten(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if len(l) > 16000 {
			lines[i] = l[:1200] + " ... " + l[len(l)-350:]
		}
	}
	if len(lines) > 80 {
		lines = append(lines[:80], "...")
	}
	return strings.Join(lines, "\n")
}

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// checkEstate plays the history of an estate and then its end, when no policy is left.
func (by subject) checkEstate(e *estate, seed uint64, st *stats) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	whole := *e
	e = &whole // disturb changes the native groups
	e.Groups = slices.Clone(e.Groups)
	f := e.cloud()
	before := f.clone()
	if seed%3 == 0 && !e.Split && len(e.Claimed) == 0 {
		if f.mirror, err = e.newMirror(); err != nil {
			return fmt.Errorf("the simulator does not accept the estate: %w", err)
		}
	}
	flows := e.flows()
	r := rand.New(rand.NewPCG(seed, 99))
	var earlier *naive
	var last *plan.Result
	for i, set := range append(slices.Clone(e.History), policySet{}) {
		var drifted map[int]bool
		if i > 0 && i < len(e.History) {
			if drifted, err = e.disturb(f, rand.New(rand.NewPCG(seed, uint64(i)))); err != nil {
				return fmt.Errorf("before policy set %d: %w", i, err)
			}
			if err := e.editLists(f, rand.New(rand.NewPCG(seed, uint64(1000+i)))); err != nil {
				return fmt.Errorf("before policy set %d: %w", i, err)
			}
		}
		ph := &phase{estate: e, by: by, set: set, flows: flows, st: st, rand: r, drifted: drifted, earlier: earlier, twice: seed%10 == 0}
		if err := ph.run(f); err != nil {
			return fmt.Errorf("policy set %d: %w", i, err)
		}
		earlier, last = e.oracle(set, ph.result), ph.result
		st.Phases++
	}
	if !reflect.DeepEqual(leftOver(f), leftOver(before)) && !(last != nil && (kept(last) && (e.tiny() || e.Crowded) || blockedByRules(last))) {
		return fmt.Errorf("not everything was given back: %v", diffLeftOver(f, before))
	}
	return nil
}

func leftOver(f *fakeCloud) any {
	type nic struct {
		ID     string
		Groups []string
		Tags   int
	}
	var out []any
	for _, n := range f.snap.Interfaces {
		out = append(out, nic{n.ID, n.GroupIDs, len(n.Tags)})
	}
	for _, n := range f.snap.Networks {
		out = append(out, len(n.Tags))
	}
	for _, g := range f.snap.Groups {
		out = append(out, g.ID)
	}
	return out
}

func diffLeftOver(f, before *fakeCloud) string {
	return fmt.Sprintf("%+v\nbut before: %+v", leftOver(f), leftOver(before))
}

func (e *estate) lowerer() plan.Lowerer {
	if e.Stingy {
		return stingy{}
	}
	return lower.AWS{}
}

// disturb does what other people do: they edit their own groups, put interfaces that we hold into
// further groups, and change rules of our groups. It returns the interfaces concerned.
func (e *estate) disturb(f *fakeCloud, r *rand.Rand) (drifted map[int]bool, err error) {
	drifted = map[int]bool{}
	if e.Meddled {
		return drifted, e.meddle(f, r, drifted)
	}
	if r.IntN(3) == 0 {
		i := r.IntN(len(e.Groups))
		if err := e.editNative(f, i, e.fitting(f, i, e.randomNative(r, i))); err != nil {
			return nil, err
		}
	}
	var ours []string
	for _, g := range f.snap.Groups {
		if g.Tags[cloud.TagCluster] != "" {
			ours = append(ours, g.ID)
		}
	}
	if len(ours) > 0 && r.IntN(4) == 0 {
		g := f.group(pick(r, ours))
		op := cloud.Op{Kind: cloud.OpAddRules, Target: g.ID, Rules: []cloud.Rule{{
			Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 23, 23), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")},
		}}}
		if len(g.Rules) > 0 && r.IntN(2) == 0 {
			op.Kind, op.Rules = cloud.OpRemoveRules, []cloud.Rule{pick(r, g.Rules)}
		}
		full := f.clone().group(g.ID) // prefix lists count more than one rule
		full.Rules = append(full.Rules, op.Rules...)
		if slices.ContainsFunc(g.Rules, op.Rules[0].Same) == (op.Kind == cloud.OpRemoveRules) && len(g.Rules) < f.limits.RulesPerGroup && f.quota(full) == nil {
			if err := f.apply(g.NetworkID, op); err != nil {
				return nil, err
			}
			for i := range e.NICs {
				drifted[i] = drifted[i] || slices.Contains(f.nic(nicID(i)).GroupIDs, g.ID)
			}
		}
	}
	for i, n := range e.NICs {
		nic := f.nic(nicID(i))
		if nic.Tags[cloud.TagFormer] == "" || len(nic.GroupIDs) == f.limits.GroupsPerInterface || r.IntN(6) > 0 {
			continue
		}
		drifted[i] = true
		groups := slices.Clone(nic.GroupIDs)
		for k, g := range e.Groups {
			if g.Net == n.Net && !slices.Contains(groups, groupID(k)) {
				groups = append(groups, groupID(k))
				break
			}
		}
		if err := f.apply(nic.NetworkID, cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: groups}); err != nil {
			return nil, err
		}
	}
	return drifted, nil
}

// fitting returns as many of the rules as one group can hold.
func (e *estate) fitting(f *fakeCloud, i int, rules []cloud.Rule) []cloud.Rule {
	for ; len(rules) > 0; rules = rules[:len(rules)-1] {
		other := *e
		other.Groups = slices.Clone(e.Groups)
		other.Groups[i].Rules = rules
		if f.quota(other.cloud().group(groupID(i))) == nil {
			break
		}
	}
	return rules
}

// editNative gives a native group other rules.
func (e *estate) editNative(f *fakeCloud, i int, rules []cloud.Rule) error {
	e.Groups[i].Rules = rules
	g, want := f.group(groupID(i)), e.cloud().group(groupID(i))
	if len(g.Rules) > 0 {
		if err := f.apply(g.NetworkID, cloud.Op{Kind: cloud.OpRemoveRules, Target: g.ID, Rules: g.Rules}); err != nil {
			return err
		}
	}
	if len(want.Rules) == 0 {
		return nil
	}
	return f.apply(g.NetworkID, cloud.Op{Kind: cloud.OpAddRules, Target: g.ID, Rules: want.Rules})
}

// phase is the way from one policy set to the next.
type phase struct {
	*estate
	by    subject
	set   policySet
	flows []connection
	st    *stats
	rand  *rand.Rand

	start *fakeCloud
	old   []bool
	trace []*fakeCloud // after every op
	seen  [][]bool     // verdicts after every op
	ops   []string
	// result is that of the last round, and first that of the first one.
	result, first *plan.Result
	// earlier decides flows as the phase before left them; nil if it was none.
	earlier *naive
	// strict keeps modes what they promise.
	strict *promises
	// drifted are the interfaces that somebody put into further groups, or whose groups somebody
	// edited. What only that made possible may pause while it is undone, even if it will be allowed
	// in the end for another reason.
	drifted map[int]bool
	// word is what lets a blocked plan go on, and forced are the interfaces for which it was given:
	// what they are allowed may pause.
	word   string
	forced map[int]bool
	// twice has every plan and every verdict computed a second time: the same input gives the same
	// result, and what the verdicts of the state before leave out changes none.
	twice bool
	// last are the verdicts of the state that was looked at last, and oracles the evaluators of
	// results, as far as they were asked for.
	last    *halves
	oracles map[*plan.Result]*naive
}

// halves are the verdicts of both ends of the flows in one state of the cloud.
type halves struct {
	*prober
	egress, ingress []half
}

// half is the verdict of one end of a flow, if it was asked for.
type half int8

const (
	unasked half = iota
	refuses
	admitsIt
)

// verdicts decides all flows. What an interface says of a flow is taken from the state before if it
// has the same rules as there, and their peers the same members.
func (p *phase) verdicts(f *fakeCloud) []bool {
	now := &halves{f.prober(), make([]half, len(p.flows)), make([]half, len(p.flows))}
	if p.last != nil {
		same := make([]bool, len(p.NICs))
		for i := range same {
			same[i] = now.decidesAs(p.last.prober, nicID(i))
		}
		for i := range p.flows {
			if src := p.flows[i].src; src >= 0 && same[src] {
				now.egress[i] = p.last.egress[i]
			}
			if dst := p.flows[i].dst; dst >= 0 && same[dst] {
				now.ingress[i] = p.last.ingress[i]
			}
		}
	}
	out := make([]bool, len(p.flows))
	for i := range p.flows {
		out[i] = now.allows(i, &p.flows[i])
	}
	if p.twice {
		for i, fl := range p.flows {
			if again := fl.verdict(func(nic int, d cloud.Direction, r remote, k packet) bool { return now.half(nicID(nic), d, r, k) }); again != out[i] {
				panic(fmt.Sprintf("%s: %v, and %v by the state before", fl, again, out[i]))
			}
		}
	}
	p.last = now
	p.st.Flows += len(out)
	return out
}

// allows decides the i-th flow.
func (h *halves) allows(i int, fl *connection) bool {
	decide := func(known *half, nic int, d cloud.Direction, r remote) bool {
		if *known == unasked {
			if *known = refuses; nic < 0 || h.half(nicID(nic), d, r, fl.packet) {
				*known = admitsIt
			}
		}
		return *known == admitsIt
	}
	return decide(&h.egress[i], fl.src, cloud.Egress, fl.remoteOfSource()) && decide(&h.ingress[i], fl.dst, cloud.Ingress, fl.remoteOfDest())
}

// oracleOf is the oracle of a result about the policies of this phase.
func (p *phase) oracleOf(res *plan.Result) *naive {
	v, known := p.oracles[res]
	if !known {
		v = p.oracle(p.set, res)
		if p.oracles == nil {
			p.oracles = map[*plan.Result]*naive{}
		}
		p.oracles[res] = v
	}
	return v
}

func (p *phase) run(f *fakeCloud) error {
	p.old = p.verdicts(f)
	start := f.clone()
	p.start = start
	p.drifted = p.stillDrifted(f)
	p.strict = p.promised(f)
	if err := p.converge(f, true); err != nil {
		return err
	}
	final := p.verdicts(f)
	p.lists(f)
	if f.mirror != nil {
		if err := f.mirror.compare(p.rand, p.flows, final, 4000); err != nil {
			return err
		}
	}
	if err := p.exact(final); err != nil {
		return err
	}
	for k, got := range p.seen {
		if err := p.between(got, final, p.old, f); err != nil {
			return fmt.Errorf("after op %d (%s): %w\nops:\n%s", k, p.ops[k], err, strings.Join(p.ops, "\n"))
		}
	}
	return p.restarts(start, f, final)
}

// stillDrifted are the drifted interfaces, and those that are still where somebody put them
// earlier, because nothing was done to them until now.
func (p *phase) stillDrifted(f *fakeCloud) map[int]bool {
	out, before := map[int]bool{}, p.cloud()
	for i := range p.NICs {
		nic, own := f.nic(nicID(i)), before.nic(nicID(i)).GroupIDs
		out[i] = p.drifted[i] || nic.Tags[cloud.TagFormer] != "" && slices.ContainsFunc(nic.GroupIDs, func(g string) bool {
			return f.group(g).Tags[cloud.TagCluster] == "" && !slices.Contains(own, g)
		})
	}
	return out
}

// converge applies plans until there is nothing left to do.
func (p *phase) converge(f *fakeCloud, record bool) error {
	for round := 0; ; round++ {
		if round > 12 {
			return fmt.Errorf("no end after %d rounds; ops:\n%s", round, strings.Join(p.ops, "\n"))
		}
		observed := f.clone()
		in := p.input(p.set, observed)
		in.Force = p.word
		res := p.by.compute(in, p.lowerer())
		if err := p.guessed(res); err != nil {
			return fmt.Errorf("round %d: %w; ops:\n%s", round, err, strings.Join(p.ops, "\n"))
		}
		if p.result = res; p.first == nil {
			p.first = res
		}
		if p.twice {
			if again := p.by.compute(in, p.lowerer()); !reflect.DeepEqual(again, res) {
				return fmt.Errorf("the same input gives another result: %+v instead of %+v", again, res)
			}
		}
		if p.strict.take(res) {
			p.st.Hasty++
		}
		if res.Plan.Empty() {
			if p.force(res) {
				continue
			}
			if err := p.waitsForNothing(res); err != nil {
				return err
			}
			return p.strict.kept(f)
		}
		p.st.Rounds++
		for _, step := range p.oneByOne(f, p.anyOrder(res.Plan.Steps)) {
			text := fmt.Sprintf("round %d: %s %v%v%v", round, step.Op, step.Op.Replaced, step.Op.Rules, step.Op.Tags)
			text = text[:min(len(text), 900)]
			if record {
				p.ops = append(p.ops, text)
			}
			if err := p.strict.allows(step.Op); err != nil {
				return fmt.Errorf("%s: %w\nops:\n%s", text, err, strings.Join(p.ops, "\n"))
			}
			if err := f.apply(step.Network, step.Op); err != nil {
				return fmt.Errorf("%s: %w\nops:\n%s", text, err, strings.Join(p.ops, "\n"))
			}
			p.st.Ops++
			if step.Op.Kind == cloud.OpSetRules {
				p.st.Whole++
			}
			if step.Op.Kind == cloud.OpAddRules && slices.ContainsFunc(step.Op.Rules, func(r cloud.Rule) bool { return strings.HasPrefix(r.Description, cloud.TagFollow) }) {
				p.st.Twins += len(step.Op.Rules)
			}
			if err := f.unremembered(step.Op.Target); err != nil {
				return fmt.Errorf("%s: %w\nops:\n%s", text, err, strings.Join(p.ops, "\n"))
			}
			if len(step.Op.Others) > 0 {
				p.st.Together += 1 + len(step.Op.Others)
			}
			if step.Scope.Region == otherRegion {
				p.st.SecondRegion++
			}
			if !record {
				continue
			}
			p.trace = append(p.trace, f.clone())
			switch step.Op.Kind {
			case cloud.OpCreateGroup, cloud.OpTag, cloud.OpUntag, cloud.OpDeleteGroup:
				if len(p.seen) > 0 {
					p.seen = append(p.seen, p.seen[len(p.seen)-1])
				} else {
					p.seen = append(p.seen, p.old)
				}
			default:
				p.seen = append(p.seen, p.verdicts(f))
				if f.mirror != nil {
					if err := f.mirror.compare(p.rand, p.flows, p.seen[len(p.seen)-1], 100); err != nil {
						return fmt.Errorf("%s: %w", text, err)
					}
					p.st.Mirrored++
				}
			}
		}
	}
}

// force gives the word with which a blocked plan goes on. It reports whether that is a new one.
func (p *phase) force(res *plan.Result) bool {
	word, nics := wordOf(res)
	if word == "" || word == p.word {
		return false
	}
	p.word = word
	p.st.Forced++
	if p.forced == nil {
		p.forced = map[int]bool{}
	}
	for i := range p.NICs {
		p.forced[i] = p.forced[i] || slices.Contains(nics, nicID(i))
	}
	return true
}

// wordOf is the word with which what is blocked goes on, and the interfaces that it is about; empty
// if nothing is blocked.
func wordOf(res *plan.Result) (word string, nics []string) {
	for _, r := range res.Refusals {
		if r.Why.Code == reason.WaitsForWord {
			word, nics = r.Why.Objects[1], append(nics, r.Why.Objects[2:]...)
		}
	}
	return word, nics
}

// guessed reports a policy that the round before accepted on a VM and this one refuses.
func (p *phase) guessed(res *plan.Result) error {
	if p.result == nil || p.Stingy {
		return nil // with room for one reference, what is held back for a round may itself not fit in the next one
	}
	for _, r := range res.Refusals {
		if r.Policy.UID != "" && !slices.ContainsFunc(p.result.Refusals, func(o plan.Refusal) bool { return o.Policy.UID == r.Policy.UID && o.VM == r.VM }) {
			if p.Crowded && forGroups(r) {
				p.st.Late++
				return nil
			}
			return fmt.Errorf("a policy is refused that was not in the round before: %s on %s: %s", r.Policy.UID, r.VM.ID, r.Message)
		}
	}
	return nil
}

// unremembered reports an interface that we hold and that does not remember its own groups.
func (f *fakeCloud) unremembered(id string) error {
	n := f.nic(id)
	if n == nil || n.Tags[cloud.TagFormer] != "" {
		return nil
	}
	for _, g := range n.GroupIDs {
		if f.group(g).Tags[cloud.TagCluster] == "" {
			return nil
		}
	}
	return fmt.Errorf("%s holds only groups of ours, %v, and nothing remembers its own", id, n.GroupIDs)
}

// oneByOne has the rules of one call replaced one after the other, in any order: so may the cloud.
func (p *phase) oneByOne(f *fakeCloud, steps []plan.Step) []plan.Step {
	var out []plan.Step
	for _, s := range steps {
		if s.Op.Kind != cloud.OpReplaceRules {
			out = append(out, s)
			continue
		}
		p.st.Replaced += len(s.Op.Rules)
		if full := f.clone(); full.group(s.Op.Target) != nil {
			g := full.group(s.Op.Target)
			g.Rules = append(g.Rules, s.Op.Rules...)
			if full.quota(g) != nil {
				p.st.Full += len(s.Op.Rules)
			}
		}
		for _, i := range p.rand.Perm(len(s.Op.Rules)) {
			one := s
			one.Op.Rules, one.Op.Replaced = s.Op.Rules[i:i+1], s.Op.Replaced[i:i+1]
			out = append(out, one)
		}
	}
	return out
}

// anyOrder returns the steps in one of the orders that a plan allows: within a stage, those about
// different subjects are mixed, and parts that do not depend on one another are.
func (p *phase) anyOrder(steps []plan.Step) []plan.Step {
	return p.mixParts(p.mixStages(steps))
}

// mixParts mixes the steps of networks that no peerings connect.
func (p *phase) mixParts(steps []plan.Step) []plan.Step {
	part := map[string]string{}
	for i := range p.Networks {
		part[netID(i)] = netID(i)
	}
	for _, x := range p.Peerings {
		from, to := part[netID(x[0])], part[netID(x[1])]
		for id, home := range part {
			if home == from {
				part[id] = to
			}
		}
	}
	queues := map[string][]plan.Step{}
	var parts []string
	for _, s := range steps {
		key := s.Scope.Region + part[s.Network]
		if queues[key] == nil {
			parts = append(parts, key)
		}
		queues[key] = append(queues[key], s)
	}
	var out []plan.Step
	for len(parts) > 0 {
		i := p.rand.IntN(len(parts))
		key := parts[i]
		n := 1 + p.rand.IntN(len(queues[key]))
		out = append(out, queues[key][:n]...)
		if queues[key] = queues[key][n:]; len(queues[key]) == 0 {
			parts = slices.Delete(parts, i, i+1)
		}
	}
	return out
}

// mixStages mixes the steps of each stage that are about different subjects.
func (p *phase) mixStages(steps []plan.Step) []plan.Step {
	var out []plan.Step
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n].Stage == steps[0].Stage && steps[n].Scope == steps[0].Scope {
			n++
		}
		queues := map[string][]plan.Step{}
		var subjects []string
		for _, s := range steps[:n] {
			if queues[s.Subject()] == nil {
				subjects = append(subjects, s.Subject())
			}
			queues[s.Subject()] = append(queues[s.Subject()], s)
		}
		for len(subjects) > 0 {
			i := p.rand.IntN(len(subjects))
			q := queues[subjects[i]]
			out = append(out, q[0])
			if queues[subjects[i]] = q[1:]; len(q) == 1 {
				subjects = slices.Delete(subjects, i, i+1)
			}
		}
		steps = steps[n:]
	}
	return out
}

// exact compares the end with the naive evaluator.
func (p *phase) exact(final []bool) error {
	if len(p.result.Refusals) > 0 {
		p.st.WithRefusals++
		if slices.ContainsFunc(p.result.Refusals, func(r plan.Refusal) bool { return r.Kept || r.VM == plan.VMRef{} }) {
			return nil
		}
	}
	if slices.ContainsFunc(p.result.Notes, func(n plan.Note) bool { return n.Why.Is(reason.DependentLoses) || n.Why.Is(reason.ReferredAbroad) }) {
		p.st.Outside++ // somebody out of reach began to depend on an interface that is under control, and the planner says so
		return nil
	}
	p.st.Exact++
	v := p.oracleOf(p.result)
	for i, fl := range p.flows {
		if p.strict.stands[fl.src] || p.strict.stands[fl.dst] {
			continue
		}
		if want := fl.verdict(v.half); want != final[i] && !(want && !fl.verdict(v.sure)) {
			return fmt.Errorf("in the end %s: cloud %v, policies %v\nrefusals %v\nops:\n%s", fl, final[i], want, p.result.Refusals, strings.Join(p.ops, "\n"))
		}
	}
	return nil
}

func (p *phase) between(got, final, old []bool, end *fakeCloud) error {
	for i, fl := range p.flows {
		switch {
		case !p.breaks(fl, got[i], final[i], old[i], end):
		case got[i]:
			return fmt.Errorf("opens %s, which neither the old nor the new state allows", fl)
		default:
			return fmt.Errorf("blocks %s, which both the old and the new state allow", fl)
		}
	}
	return nil
}

// breaks reports whether a verdict on the way breaks what is promised of a flow: it is a leak if it
// allows the flow, else a gap.
func (p *phase) breaks(fl connection, got, final, old bool, end *fakeCloud) bool {
	if p.strict.breaks(fl) || got == old || got == final || p.by.mixes && p.mixed(fl, got) {
		return false
	}
	if got && ((p.tiny() || p.Crowded) && kept(p.result) || p.Crowded && kept(p.first)) && p.first != nil && fl.verdict(p.oracleOf(p.first).half) {
		return false // what is wanted allows it, and not all of that can be reached
	}
	if !got && (p.tiny() || p.Crowded) && (p.stays(fl.src) || p.stays(fl.dst)) && !fl.verdict(p.oracleOf(p.result).half) {
		return false // what is wanted does not allow it, and is said not to be reached
	}
	return got || !p.drifted[fl.src] && !p.drifted[fl.dst] && !p.forced[fl.src] && !p.forced[fl.dst] && fl.blindly(p.start) == fl.blindly(end)
}

// stays reports whether an interface is said to stay as it is in the end, although something else
// is wanted of it: it allows what it allowed before.
func (p *phase) stays(nic int) bool {
	return nic >= 0 && slices.ContainsFunc(p.result.Refusals, func(r plan.Refusal) bool {
		return r.Kept && r.Why.Is(reason.InterfaceStays) && p.NICs[nic].VM >= 0 && r.VM.ID == p.subject(p.NICs[nic].VM)
	})
}

// restarts forgets everything at some operations and plans anew from there.
func (p *phase) restarts(start, end *fakeCloud, final []bool) error {
	if len(p.trace) == 0 {
		return nil
	}
	for range min(envInt("NEPHELE_PLAN_RESTARTS", 2), len(p.trace)) {
		k := p.rand.IntN(len(p.trace))
		again := &phase{estate: p.estate, by: p.by, earlier: p.earlier, set: p.set, flows: p.flows, st: p.st, rand: p.rand, old: p.seen[k], drifted: p.drifted, forced: maps.Clone(p.forced), start: p.trace[k]}
		f := p.trace[k].clone()
		again.strict = again.promised(f)
		if err := again.converge(f, true); err != nil {
			return fmt.Errorf("restarted after op %d (%s): %w", k, p.ops[k], err)
		}
		p.st.Restarts++
		got := again.verdicts(f)
		for i, fl := range p.flows {
			if got[i] != final[i] && !p.depends() && !again.depends() {
				return fmt.Errorf(
					"restarted after op %d (%s): in the end %s is %v instead of %v\nops:\n%s\nthen:\n%s",
					k,
					p.ops[k],
					fl,
					got[i],
					final[i],
					strings.Join(p.ops, "\n"),
					strings.Join(again.ops, "\n"),
				)
			}
		}
		for j, mid := range again.seen {
			if err := again.between(mid, got, p.seen[k], f); err != nil {
				return fmt.Errorf("restarted after op %d (%s), after op %d (%s): %w\nops:\n%s", k, p.ops[k], j, again.ops[j], err, strings.Join(again.ops, "\n"))
			}
		}
		if !p.depends() && !again.depends() {
			if a, b := shape(end), shape(f); !reflect.DeepEqual(a, b) {
				return fmt.Errorf("restarted after op %d (%s): other groups in the end:\n%v\ninstead of\n%v", k, p.ops[k], b, a)
			}
		}
	}
	return nil
}

// tiny reports whether the quota of rules is less than half of what clouds give by default. There a
// change may be blocked, also the one that gives everything back, as long as it is said. The same
// goes for regions with room for a few groups only.
func (e *estate) tiny() bool { return e.Limits.RulesPerGroup < 30 }

// kept reports whether the end depends on the beginning, because something that was in force stays
// so as far as it can.
func kept(r *plan.Result) bool {
	return slices.ContainsFunc(r.Refusals, func(r plan.Refusal) bool { return r.Kept || forGroups(r) })
}

// blockedByRules reports whether an interface stays as it is because the state in between takes
// more rules than the quotas permit, which is said with the numbers. An address that is taken out
// of ::/0 takes 128 of them, so that happens with the quotas that clouds give by default, too.
func blockedByRules(r *plan.Result) bool {
	return slices.ContainsFunc(r.Refusals, func(r plan.Refusal) bool {
		return r.Kept && r.Why.Is(reason.InterfaceStays) && r.Why.Is(reason.RulesShort) && r.Lack != nil && r.Lack.Needed > r.Lack.Available
	})
}

// depends reports whether the end depends on the beginning; in a region with room for a few groups
// only, also because something was given back at first for want of groups.
func (p *phase) depends() bool { return kept(p.result) || p.Crowded && kept(p.first) }

// forGroups reports whether something is refused for want of groups: a class that has one keeps it.
func forGroups(r plan.Refusal) bool { return r.Why.Is(reason.GroupsShort) }

// shape describes the classes without the names of their groups and without the distribution of
// rules over them: which interfaces hold each, and its rules with the peers named by their holders.
func shape(f *fakeCloud) map[string][]string {
	holders := map[string]string{}
	for _, n := range f.snap.Interfaces {
		for _, g := range n.GroupIDs {
			holders[g] += n.ID + " "
		}
	}
	out := map[string][]string{}
	for _, g := range f.snap.Groups {
		if g.Tags[cloud.TagCluster] == "" {
			continue
		}
		rules := out[holders[g.ID]]
		for _, r := range g.Rules {
			peer := r.Peer.String()
			if o := f.group(r.Peer.GroupID); o != nil && o.Tags[cloud.TagCluster] != "" {
				peer = "holders " + holders[o.ID]
			}
			rules = append(rules, fmt.Sprintf("%s %s %s", r.Direction, r.Match, peer))
		}
		slices.Sort(rules)
		out[holders[g.ID]] = rules
	}
	return out
}
