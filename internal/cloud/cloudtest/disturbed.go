package cloudtest

import (
	"context"
	"slices"
	"sync"

	"github.com/nephele-io/nephele/internal/cloud"
)

func eventualConsistency(b *bench) {
	if b.Delay == nil {
		return
	}
	n := b.anyNIC()
	b.Delay(b.Patience / 4)
	id := b.create("web")
	b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{ports(80, 80)}})
	peer := b.create("peer")
	b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{
		{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 1), Peer: cloud.Peer{GroupID: peer}}}})
	third := b.create("third")
	b.apply(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: []string{id, third}})
	fourth := b.create("fourth")
	b.apply(cloud.Op{Kind: cloud.OpTag, Target: fourth, Tags: map[string]string{"nephele.io/a": "1"}})
	fifth := b.create("fifth")
	if again := b.create("fifth"); again != fifth {
		b.Errorf("created twice: %s and %s", fifth, again)
	}
	sixth := b.create("sixth")
	b.apply(cloud.Op{Kind: cloud.OpDeleteGroup, Target: sixth})
	if b.group(sixth) != nil {
		b.Error("a group came back after its deletion")
	}
	if len(b.mustGroup(id).Rules) != 2 {
		b.Errorf("rules %v", b.mustGroup(id).Rules)
	}
	b.Delay(10 * b.Patience)
	never := b.createOp("never")
	b.refused(never, cloud.NotFound)
}

// script is one op of every kind, each of which changes something, with a check that it took effect
// exactly once.
type step struct {
	op    cloud.Op
	check func()
}

func (b *bench) script() []step {
	n := b.anyNIC()
	id, old := b.create("target"), b.create("old")
	b.apply(cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{ports(1, 1)}})
	b.apply(cloud.Op{Kind: cloud.OpTag, Target: n.ID, Tags: map[string]string{"nephele.io/gone": "x"}})
	return []step{
		{b.createOp("new"), func() {
			found := 0
			for _, g := range b.observe().Groups {
				if g.Name == cloud.NamePrefix+"new" {
					found++
					b.wantRules(g.ID)
				}
			}
			if found != 1 {
				b.Errorf("%d groups were created", found)
			}
		}},
		{cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{ports(1, 1), ports(80, 80), ports(81, 81)}},
			func() { b.wantRules(id, ports(1, 1), ports(80, 80), ports(81, 81)) }},
		{cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: []cloud.Rule{ports(1, 1), ports(7, 7)}},
			func() { b.wantRules(id, ports(80, 80), ports(81, 81)) }},
		{cloud.Op{Kind: cloud.OpReplaceRules, Target: id, Replaced: []cloud.Rule{ports(80, 80)}, Rules: []cloud.Rule{ports(80, 90)}},
			func() { b.wantRules(id, ports(80, 90), ports(81, 81)) }},
		{cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: []string{id}}, func() {
			if have := b.nic(n.ID).GroupIDs; !slices.Equal(have, []string{id}) {
				b.Errorf("the interface holds %v", have)
			}
		}},
		{cloud.Op{Kind: cloud.OpTag, Target: n.ID, Tags: map[string]string{cloud.TagFormer: "sg-1 sg-2"}}, func() {
			if have := b.nic(n.ID).Tags; have[cloud.TagFormer] != "sg-1 sg-2" {
				b.Errorf("the interface has the tags %v", have)
			}
		}},
		{cloud.Op{Kind: cloud.OpUntag, Target: n.ID, Tags: map[string]string{"nephele.io/gone": ""}}, func() {
			if _, there := b.nic(n.ID).Tags["nephele.io/gone"]; there {
				b.Error("the tag is still there")
			}
		}},
		{cloud.Op{Kind: cloud.OpDeleteGroup, Target: old}, func() {
			if b.group(old) != nil {
				b.Error("the group is still there")
			}
		}},
	}
}

// lostAnswers loses the answer of each call of each op once; the op, repeated if it says so, ends
// in the wanted state.
func lostAnswers(b *bench) {
	for _, st := range b.script() {
		for _, call := range b.Writes[st.op.Kind] {
			b.Disturb(call, LostAnswer, 1)
			if _, err := b.Provider.Apply(b.ctx, b.Scope, st.op); err != nil {
				if class := cloud.ClassOf(err); class != cloud.Unavailable && class != cloud.Conflict {
					b.Errorf("%s, answer of %s lost: class %s: %v", st.op, call, class, err)
				}
				b.apply(st.op)
			}
			b.Calm()
			st.check()
		}
	}
}

// bridged disturbs each call once in ways that pass; the op must succeed.
func bridged(b *bench) {
	for _, st := range b.script() {
		for _, d := range []Disturbance{Throttle, Broken, NoConnection} {
			for _, call := range b.Writes[st.op.Kind] {
				b.Disturb(call, d, 1)
				b.apply(st.op)
				b.Calm()
			}
		}
		st.check()
	}
	for _, call := range b.Reads {
		b.Disturb(call, Throttle, 1)
		b.observe()
		b.Calm()
	}
}

func classified(b *bench) {
	want := map[Disturbance]cloud.Class{
		Throttle: cloud.Throttled, Broken: cloud.Unavailable, NoConnection: cloud.Unavailable, Refused: cloud.Auth,
	}
	for _, st := range b.script() {
		for _, d := range []Disturbance{Throttle, Broken, NoConnection, Refused} {
			b.Disturb(b.Writes[st.op.Kind][0], d, -1)
			b.refused(st.op, want[d])
			b.Calm()
		}
		b.apply(st.op)
		st.check()
	}
	for d, class := range want {
		b.Disturb(b.Reads[len(b.Reads)-1], d, -1)
		if _, err := b.Provider.Observe(b.ctx, b.Scope); err == nil || cloud.ClassOf(err) != class {
			b.Errorf("Observe, %s: %v; want class %s", d, err, class)
		}
		b.Calm()
	}
}

func endedContext(b *bench) {
	id := b.create("web")
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if s, err := b.Provider.Observe(ctx, b.Scope); s != nil || cloud.ClassOf(err) != cloud.Unavailable || err == nil {
		b.Errorf("Observe: %v, %v", s != nil, err)
	}
	op := cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{ports(80, 80)}}
	if _, err := b.Provider.Apply(ctx, b.Scope, op); err == nil || cloud.ClassOf(err) != cloud.Unavailable {
		b.Errorf("Apply: %v", err)
	}
	b.wantRules(id)
}

// concurrent lets several callers want the same things at the same time.
func concurrent(b *bench) {
	const callers = 8
	ids := make([]string, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			id, err := b.Provider.Apply(b.ctx, b.Scope, b.createOp("shared"))
			if err != nil {
				b.Errorf("create: %v", err)
				return
			}
			ids[c] = id
			op := cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{ports(80, 80), ports(100+c, 100+c)}}
			if _, err := b.Provider.Apply(b.ctx, b.Scope, op); err != nil {
				b.Errorf("add rules: %v", err)
			}
			if _, err := b.Provider.Observe(b.ctx, b.Scope); err != nil {
				b.Errorf("observe: %v", err)
			}
		})
	}
	wg.Wait()
	if ids = slices.Compact(ids); len(ids) != 1 {
		b.Fatalf("created %v", ids)
	}
	want := []cloud.Rule{ports(80, 80)}
	for c := range callers {
		want = append(want, ports(100+c, 100+c))
	}
	b.wantRules(ids[0], want...)
}
