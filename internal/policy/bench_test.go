package policy_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// worlds are those of the performance table.
var worlds = []func() *policytest.Scale{
	func() *policytest.Scale { return policytest.SmallNamespaces(25_000) },
	func() *policytest.Scale { return policytest.LargeNamespaces(100) },
	func() *policytest.Scale { return policytest.OneNamespace(10_000) },
	func() *policytest.Scale { return policytest.PolicyPerPod(10_000) },
	func() *policytest.Scale { return policytest.PolicyPerEntity(10_000) },
	func() *policytest.Scale { return policytest.ClusterScoped(1_000) },
	func() *policytest.Scale {
		s := policytest.PolicyPerEntity(100_000)
		s.Name = "PolicyPerEntity100k"
		return s
	},
}

// BenchmarkCompute measures a world from its objects in memory to the last event counted for every enforcer key, and the
// heap that the engine and its delta hold then.
func BenchmarkCompute(b *testing.B) {
	for _, world := range worlds {
		s := world()
		b.Run(s.Name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				before := heap()
				b.StartTimer()
				e := policy.New(policy.Options{})
				for _, o := range s.Objects {
					policytest.Put(e, o)
				}
				d := e.Commit()
				events := deliver(d)
				b.StopTimer()
				b.ReportMetric(float64(heap()-before)/1e6, "heapMB")
				b.ReportMetric(float64(events), "events")
				runtime.KeepAlive(e)
				runtime.KeepAlive(d)
				b.StartTimer()
			}
		})
	}
	b.Run("Churn", churn)
}

// deliver counts the events that the subscribers of all keys get, visiting every key and member as a publisher would.
func deliver(d *policy.Delta) int {
	n := len(d.Policies)
	for i := range d.AddressGroups {
		n += len(d.AddressGroups[i].SpanAdded)
	}
	for i := range d.AppliedToGroups {
		g := &d.AppliedToGroups[i]
		for _, m := range g.Added {
			if m.Host != "" {
				n++
			}
		}
	}
	for i := range d.Policies {
		n += len(d.Policies[i].SpanAdded)
	}
	return n
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// change is one kind of single change in a steady state; i counts repetitions.
type change struct {
	name  string
	apply func(i int)
}

// changes returns the changes measured under Churn: one label, one entity more or less, one policy edited.
func changes(e *policy.Engine, s *policytest.Scale) []change {
	var entities []policy.Entity
	var policies []policy.Policy
	for _, o := range s.Objects {
		switch o := o.(type) {
		case policy.Entity:
			entities = append(entities, o)
		case policy.Policy:
			policies = append(policies, o)
		}
	}
	return []change{
		{"label", func(i int) {
			x := entities[i%len(entities)]
			if i%2 == 1 {
				x.Labels = map[string]string{"app": "other"}
			}
			e.PutEntity(x)
		}},
		{"entity", func(i int) {
			x := entities[i/2%len(entities)]
			x.Name = "new"
			if i%2 == 0 {
				e.PutEntity(x)
			} else {
				e.DeleteEntity(x.EntityRef)
			}
		}},
		{"policy", func(i int) {
			p := policies[i%len(policies)]
			p.Generation = int64(i)
			p.Ingress = slices.Clone(p.Ingress)
			for j := range p.Ingress {
				p.Ingress[j].Ports = []policy.Port{{Port: &policy.PortRef{Number: int32(80 + i%2)}}}
			}
			e.PutPolicy(p)
		}},
	}
}

// churn measures single changes in the steady state of each world, each with its own Commit.
func churn(b *testing.B) {
	for _, world := range worlds {
		s := world()
		b.Run(s.Name, func(b *testing.B) {
			e := policy.New(policy.Options{})
			for _, o := range s.Objects {
				policytest.Put(e, o)
			}
			deliver(e.Commit())
			for _, c := range changes(e, s) {
				b.Run(c.name, func(b *testing.B) {
					b.ReportAllocs()
					took := make([]time.Duration, 0, b.N)
					for i := range b.N {
						start := time.Now()
						c.apply(i)
						deliver(e.Commit())
						took = append(took, time.Since(start))
					}
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
				})
			}
		})
	}
}
