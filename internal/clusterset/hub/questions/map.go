package questions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

// mapped answers a question for a map: each cluster is asked once, for what it decides at its own
// ends. What is not known is in Unread, by cluster.
func mapped(ctx context.Context, set Set, spec analysis.ReachReviewSpec) (analysis.ReachReviewStatus, error) {
	out := analysis.ReachReviewStatus{Flows: []analysis.ReachRow{}}
	m, err := mapOf(set, spec)
	if err != nil {
		return out, err
	}
	type answer struct {
		cluster string
		*setmap.Answer
		error
	}
	questions := m.Questions()
	answers := make(chan answer, len(questions))
	var asking sync.WaitGroup
	for name, q := range questions {
		asking.Go(func() {
			got, err := askMap(ctx, set, name, q)
			answers <- answer{name, got, err}
		})
	}
	asking.Wait()
	close(answers)
	if err := ctx.Err(); err != nil {
		return out, err
	}
	for a := range answers {
		m.Answer(a.cluster, a.Answer, a.error)
	}
	out.Map, out.Unread = m.Result()
	out.Total = out.Map.Total
	return out, nil
}

// mapOf is the map that a question is about, before anybody has answered.
func mapOf(set Set, spec analysis.ReachReviewSpec) (m *setmap.Map, err error) {
	set.Look(func(v View) { m, err = mapIn(v, spec) })
	return m, err
}

// mapIn is the map as of what is known.
func mapIn(v View, spec analysis.ReachReviewSpec) (*setmap.Map, error) {
	if spec.Members != "" || spec.GroupBy != "" || spec.Row != "" {
		return nil, errRowsOrMap
	}
	var all []setmap.Workload
	at := map[string]int{}
	gather := func(field, text string, asked func(*setmap.Workload)) error {
		ends, err := party(v, field, text, setmap.MaxWorkloads)
		if err != nil {
			return err
		}
		for _, e := range ends {
			if !e.entity {
				return wrong(field, " %q: want workloads of clusters, for addresses are not on the map of a set", wire.OneLine(text, 80))
			}
			i, known := at[e.title()]
			if !known {
				i = len(all)
				at[e.title()] = i
				all = append(all, setmap.Workload{Cluster: e.cluster, Ref: e.ref, Labels: e.labels, Addresses: e.addresses})
			}
			asked(&all[i])
		}
		return nil
	}
	if err := gather("from", spec.From, func(w *setmap.Workload) { w.From = true }); err != nil {
		return nil, err
	}
	if err := gather("to", spec.To, func(w *setmap.Workload) { w.To = true }); err != nil {
		return nil, err
	}
	if len(all) > setmap.MaxWorkloads {
		return nil, wrong("from", ": the map has %d workloads, want at most %d: name a Namespace or labels in from and to", len(all), setmap.MaxWorkloads)
	}
	m, err := setmap.New(spec, all, func(cluster string, at netip.Addr) setmap.View { return viewOf(v, cluster, at) })
	if f := (*policy.FieldError)(nil); errors.As(err, &f) {
		return nil, wrong(f.Field, " %q: want %s", wire.OneLine(f.Value, 80), f.Want)
	}
	return m, err
}

// viewOf is as what the Pods of a cluster are seen at an address.
func viewOf(v View, cluster string, at netip.Addr) setmap.View {
	as, hidden := peers.HiddenAt(v.Cluster(cluster), at)
	if !hidden {
		return setmap.View{}
	}
	out := setmap.View{Words: peers.HiddenWords(cluster, "another cluster", as)}
	for _, text := range as.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out
}

// askMap asks a member for its part of a map.
func askMap(ctx context.Context, set Set, cluster string, q *setmap.Question) (*setmap.Answer, error) {
	raw, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("write the question: %w", err)
	}
	answer, err := set.Put(ctx, cluster, wire.Question{Map: raw})
	if err != nil {
		return nil, err
	}
	return setmap.ParseAnswer(answer.Map, q)
}
