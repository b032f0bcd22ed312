package native

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestTurns: a new balancer is read first, then the one that was read longest ago, and one that is
// gone is forgotten.
func TestTurns(t *testing.T) {
	t.Parallel()
	var turns turns[int]
	ask := func(ids []string, again int, want ...string) {
		t.Helper()
		got := turns.next(ids, again)
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		for i, id := range got {
			turns.put(id, i)
		}
	}
	all := []string{"a", "b", "c", "d"}
	ask(all[:3], 2, "a", "b", "c")
	ask(all[:3], 2, "a", "b")
	ask(all[:3], 2, "c", "a")
	ask(all, 2, "d", "b", "c")
	ask(all[1:], 1, "d")
	if _, known := turns.get("a"); known {
		t.Error("a balancer that is gone is still known")
	}
	ask(all, 1, "a", "b")
	ask(all, 0)
}

// TestTargetsAreBounded: load balancers that a hostile endpoint invents, each with all groups at
// all listeners, are an error before they are memory.
func TestTargetsAreBounded(t *testing.T) {
	t.Parallel()
	r := &serviceReader{conn: &Conn{Bounds: cloud.Bounds{Objects: 10_000}}, book: &serviceBook{}}
	groups := map[string]elbtypes.TargetGroup{}
	for i := range 1000 {
		groups[fmt.Sprintf("arn:g/%d", i)] = elbtypes.TargetGroup{LoadBalancerArns: []string{"b"}, Protocol: elbtypes.ProtocolEnumHttp}
	}
	listeners := make([]listener, 1000)
	for i := range listeners {
		listeners[i] = listener{protocol: elbtypes.ProtocolEnumHttp, port: int32(i + 1)}
	}
	r.found = []description{{Service: cloud.Service{ID: "b", Kind: cloud.ApplicationLoadBalancer}}}
	r.book.balancers.listeners.put("b", listeners)
	var bound *cloud.BoundError
	if err := r.equip(groups); !errors.As(err, &bound) {
		t.Errorf("%v", err)
	}
	if n := len(r.found[0].Listeners); n > 11 {
		t.Errorf("%d listeners were made", n)
	}
}
