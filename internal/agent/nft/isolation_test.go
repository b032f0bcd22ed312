package nft_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestIsolationIsLogged: what isolation drops is logged if, and only if, a policy that isolates in
// that direction wants something logged.
func TestIsolationIsLogged(t *testing.T) {
	allow, drop, tier, priority := v1beta2.RuleActionAllow, v1beta2.RuleActionDrop, int32(250), 1.0
	for name, c := range map[string]struct {
		rule v1beta2.NetworkPolicyRule
		want bool
	}{
		"allows and logs":            {v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Action: &allow, EnableLogging: true, LogLabel: "audit"}, true},
		"allows":                     {v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Action: &allow}, false},
		"drops and logs":             {v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Action: &drop, EnableLogging: true}, false},
		"allows the other way, logs": {v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionOut, Action: &allow, EnableLogging: true}, false},
	} {
		p := &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "uid"}, AppliedToGroups: []string{"g"}, TierPriority: &tier, Priority: &priority, Rules: []v1beta2.NetworkPolicyRule{c.rule},
			SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "n", Name: "p"}}
		got := new(nft.Compiler).Compile(nft.Input{Computed: enforcer.Computed{Policies: []*v1beta2.NetworkPolicy{p}, AppliedToGroups: []*v1beta2.AppliedToGroup{{
			ObjectMeta: metav1.ObjectMeta{Name: "g"}, GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "n", Name: "e"}}}}}}})
		found := false
		for id, o := range got.Program.Logs() {
			if o.Kind == ruleset.OriginIsolation && o.Logged.Direction == ruleset.Ingress {
				found = true
				if o.Policy.Name != "p" || o.Logged.Label != "audit" || o.Logged.Action != drop || id == "" {
					t.Errorf("%s: logged as %+v", name, o)
				}
			}
		}
		if found != c.want {
			t.Errorf("%s: logged: %t", name, found)
		}
	}
}
