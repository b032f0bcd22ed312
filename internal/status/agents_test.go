package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// agentHeard is an agent that said so long ago how it is.
func agentHeard(name string, ago time.Duration, healthy metav1.ConditionStatus) *v1beta1.AntreaAgentInfo {
	return &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: name}, Version: "v1.2.3",
		NodeRef: v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "hosts", Name: name},
		AgentConditions: []v1beta1.AgentCondition{
			{Type: v1beta1.AgentHealthy, Status: healthy, LastHeartbeatTime: metav1.NewTime(noon.Add(-ago)), Message: "in a test"},
		}}
}

// TestAgents: an agent that has died goes on saying that it is well; three heartbeats later it is
// known that nothing is known of it.
func TestAgents(t *testing.T) {
	for name, c := range map[string]struct {
		ago    time.Duration
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"well":              {30 * time.Second, metav1.ConditionTrue, "", ""},
		"late":              {3 * time.Minute, metav1.ConditionTrue, "", ""},
		"dead":              {3*time.Minute + time.Second, metav1.ConditionTrue, "Silent", "not confirmed since"},
		"ill":               {30 * time.Second, metav1.ConditionFalse, "Unhealthy", "AgentHealthy is False: in a test"},
		"ill and then dead": {time.Hour, metav1.ConditionFalse, "Silent", "2026-03-01T11:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			r := collect(t, append(healthy(), agentHeard("db", c.ago, c.status)))
			if c.reason == "" {
				if r.State != Well || r.Agents.Total != 1 || r.Agents.Healthy != 1 || len(r.Agents.Wrong) != 0 {
					t.Errorf("%s, %+v", r.State, r.Agents)
				}
				return
			}
			if r.State != Attention || r.Agents.Healthy != 0 || len(r.Agents.Wrong) != 1 || len(r.Attention) != 1 {
				t.Fatalf("%s, %+v, %+v", r.State, r.Agents, r.Attention)
			}
			if f := r.Attention[0]; f.About != "agent db" || f.Reason != c.reason || !strings.Contains(f.Message, c.says) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestManyAgents: so many are listed, and the number of the others is told.
func TestManyAgents(t *testing.T) {
	objects := healthy()
	for i := range 25 {
		objects = append(objects, agentHeard(fmt.Sprintf("h%02d", i), time.Hour+time.Duration(i)*time.Second, metav1.ConditionTrue))
	}
	never := agentHeard("never", 0, metav1.ConditionTrue)
	never.AgentConditions = nil
	never.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	r := collect(t, append(objects, never))
	if r.Agents.Total != 26 || len(r.Agents.Wrong) != maxAgents || r.Agents.Wrong[0].Name != "never" || r.Agents.Wrong[1].Name != "h24" {
		t.Errorf("%d: %+v", r.Agents.Total, r.Agents.Wrong)
	}
	if len(r.Attention) != maxAgents+1 {
		t.Errorf("%d findings", len(r.Attention))
	}
}

// TestDifferingTraffic: a policy that is realized needs attention while traffic is not as it says,
// and the phase of one that has failed says why that is.
func TestDifferingTraffic(t *testing.T) {
	differs := v1beta1.NetworkPolicyCondition{Type: v1beta1.NetworkPolicyConditionTrafficAgrees, Status: metav1.ConditionFalse, Reason: "Leaks", Message: "it passes"}
	realized := policy("leaky", v1beta1.NetworkPolicyRealized, "")
	realized.Status.Conditions = append(realized.Status.Conditions, differs)
	failed := policy("broken", v1beta1.NetworkPolicyFailed, "no room")
	failed.Status.Conditions = append(failed.Status.Conditions, differs)
	upstream := &upstreamv1alpha1.AdminNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "admin"}}
	upstream.Status.Conditions = []metav1.Condition{
		{Type: "Realized", Status: metav1.ConditionTrue, Reason: string(Realized)}, {Type: string(differs.Type), Status: differs.Status, Reason: differs.Reason, Message: differs.Message},
	}
	r := collect(t, append(healthy(), realized, failed, upstream))
	var got []string
	for _, f := range r.Attention {
		got = append(got, f.About+" "+f.Reason+" "+f.Message)
	}
	slices.Sort(got)
	want := []string{
		"AdminNetworkPolicy admin Leaks it passes", "NetworkPolicy shop/broken Failed no room", "NetworkPolicy shop/broken Leaks it passes", "NetworkPolicy shop/leaky Leaks it passes",
	}
	if !slices.Equal(got, want) || r.State != Attention {
		t.Errorf("%q, want %q", got, want)
	}
}
