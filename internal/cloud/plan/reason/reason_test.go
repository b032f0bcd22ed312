package reason

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// TestBehind: what is asked of a reason is found in those behind it, the first that tells it first.
func TestBehind(t *testing.T) {
	lack := &Lack{Quota: QuotaRulesPerGroup, Direction: string(cloud.Egress), Needed: 73, Available: 60}
	short := Why(RulesShort)
	short.Lack = lack
	outer := &Lack{Quota: QuotaGroupsPerInterface, Direction: string(cloud.Ingress)}
	two := Why(TakeOverShort, "eni-1").From(short)
	two.Lack = outer
	gap := Why(OrderGap, "eni-1")
	gap.Flow = &Flow{Direction: cloud.Ingress}
	for name, c := range map[string]struct {
		why       *Reason
		codes     []Code
		lack      *Lack
		direction cloud.Direction
	}{
		"none":                                 {},
		"no more than a code":                  {why: Why(NoInterface), codes: []Code{NoInterface}},
		"a shortage":                           {short, []Code{RulesShort}, lack, cloud.Egress},
		"behind another one":                   {Why(InterfaceStays, "eni-2").From(short), []Code{InterfaceStays, RulesShort}, lack, cloud.Egress},
		"a flow":                               {gap, []Code{OrderGap}, nil, cloud.Ingress},
		"two shortages":                        {two, []Code{TakeOverShort, RulesShort}, outer, cloud.Ingress},
		"a flow, and the interface that stays": {Why(InterfaceStays, "eni-2").From(gap), []Code{InterfaceStays, OrderGap}, nil, cloud.Ingress},
	} {
		for _, code := range []Code{NoInterface, RulesShort, InterfaceStays, OrderGap} {
			if got := c.why.Is(code); got != slices.Contains(c.codes, code) {
				t.Errorf("%s: is %s: %v", name, code, got)
			}
		}
		if got := c.why.Shortage(); got != c.lack {
			t.Errorf("%s: the shortage is %+v", name, got)
		}
		if got := c.why.Direction(); got != c.direction {
			t.Errorf("%s: the direction is %q", name, got)
		}
	}
}

// TestSame: reasons say the same whatever layer has made them, and every difference counts.
func TestSame(t *testing.T) {
	made := func(change func(*Reason)) *Reason {
		r := Why(OrderRules, "sg-1", "sg-2").Counting(73, 60).Quoting("words").From(Why(NoInterface))
		r.Lack = &Lack{Quota: QuotaRulesPerGroup, Needed: 73, Limits: cloud.Limits{RulesPerGroup: 60}}
		r.Flow = &Flow{cloud.Ingress, flow.Whole(cloud.TCP), addrset.Of(netip.MustParseAddr("10.0.0.1"))}
		change(r)
		return r
	}
	plain := func(*Reason) {}
	if !made(plain).Same(made(plain)) || !(*Reason)(nil).Same(nil) {
		t.Error("the same reasons differ")
	}
	for name, change := range map[string]func(*Reason){
		"code":              func(r *Reason) { r.Code = OrderRegion },
		"object":            func(r *Reason) { r.Objects = []string{"sg-1", "sg-3"} },
		"number":            func(r *Reason) { r.Counting(73, 61) },
		"number of numbers": func(r *Reason) { r.Counting(73) },
		"quotation":         func(r *Reason) { r.Quoting("others") },
		"reason behind":     func(r *Reason) { r.From(Why(NoClusterID)) },
		"nothing behind":    func(r *Reason) { r.From(nil) },
		"need":              func(r *Reason) { r.Lack.Needed++ },
		"quota in numbers":  func(r *Reason) { r.Lack.Limits.RulesPerGroup++ },
		"no lack":           func(r *Reason) { r.Lack = nil },
		"direction":         func(r *Reason) { r.Flow.Direction = cloud.Egress },
		"service":           func(r *Reason) { r.Flow.Service = flow.Any() },
		"addresses":         func(r *Reason) { r.Flow.Addrs = addrset.Set{} },
		"no flow":           func(r *Reason) { r.Flow = nil },
		"all of it":         func(r *Reason) { *r = Reason{} },
	} {
		if other := made(change); made(plain).Same(other) || other.Same(made(plain)) {
			t.Errorf("%s: they are said to be the same", name)
		}
	}
	if made(plain).Same(nil) || (*Reason)(nil).Same(made(plain)) {
		t.Error("a reason is the same as none")
	}
}
