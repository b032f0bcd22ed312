package reason

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestBehind: what is asked of a reason is found in those behind it, the first that tells it first.
func TestBehind(t *testing.T) {
	lack := &Lack{Quota: QuotaRulesPerGroup, Direction: string(cloud.Egress), Needed: 73, Available: 60}
	short := Why(RulesShort)
	short.Lack = lack
	gap := Why(OrderGap, "eni-1")
	gap.Flow = &Flow{Direction: cloud.Ingress}
	for name, c := range map[string]struct {
		why       *Reason
		codes     []Code
		lack      *Lack
		direction cloud.Direction
	}{
		"none":                  {},
		"no more than a code":   {why: Why(NoInterface), codes: []Code{NoInterface}},
		"a shortage":            {short, []Code{RulesShort}, lack, cloud.Egress},
		"behind another one":    {Why(InterfaceStays, "eni-2").From(short), []Code{InterfaceStays, RulesShort}, lack, cloud.Egress},
		"a flow":                {gap, []Code{OrderGap}, nil, cloud.Ingress},
		"a flow, and who stays": {Why(InterfaceStays, "eni-2").From(gap), []Code{InterfaceStays, OrderGap}, nil, cloud.Ingress},
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

// TestCompare: reasons that say the same are equal, whoever has made them, and every difference
// counts.
func TestCompare(t *testing.T) {
	made := func() *Reason {
		return Why(OrderRules, "sg-1").Counting(73, 60).Quoting("words").From(Why(NoInterface))
	}
	if made().Compare(made()) != 0 || (*Reason)(nil).Compare(nil) != 0 {
		t.Error("the same reasons differ")
	}
	for name, other := range map[string]*Reason{
		"none":    nil,
		"code":    Why(OrderRegion, "sg-1").Counting(73, 60).Quoting("words").From(Why(NoInterface)),
		"object":  Why(OrderRules, "sg-2").Counting(73, 60).Quoting("words").From(Why(NoInterface)),
		"numbers": Why(OrderRules, "sg-1").Counting(74, 60).Quoting("words").From(Why(NoInterface)),
		"words":   Why(OrderRules, "sg-1").Counting(73, 60).Quoting("others").From(Why(NoInterface)),
		"behind":  Why(OrderRules, "sg-1").Counting(73, 60).Quoting("words").From(Why(NoClusterID)),
		"nothing": Why(OrderRules, "sg-1").Counting(73, 60).Quoting("words"),
	} {
		if a, b := made().Compare(other), other.Compare(made()); a == 0 || a != -b {
			t.Errorf("another %s: %d and %d", name, a, b)
		}
	}
}
