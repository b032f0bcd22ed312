package agentinfo

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func heard(ago time.Duration, status metav1.ConditionStatus) *v1beta1.AntreaAgentInfo {
	return &v1beta1.AntreaAgentInfo{NodeRef: v1beta1.ObjectReference{Namespace: "hosts", Name: "db"}, AgentConditions: []v1beta1.AgentCondition{
		{Type: v1beta1.AgentHealthy, Status: status, LastHeartbeatTime: metav1.NewTime(noon.Add(-ago)), Message: "in a test"},
	}}
}

// TestOf: what an agent says counts for three minutes, and what the controller marks until the
// agent says something again.
func TestOf(t *testing.T) {
	marked := heard(time.Minute, metav1.ConditionTrue)
	if !MarkSilent(marked, noon.Add(-time.Minute)) || MarkSilent(marked, noon) {
		t.Error("a mark is made once")
	}
	never := &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	fresh := &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute))}}
	for name, c := range map[string]struct {
		info         *v1beta1.AntreaAgentInfo
		well, silent bool
		says         string
	}{
		"well":   {heard(3*time.Minute, metav1.ConditionTrue), true, false, ""},
		"dead":   {heard(3*time.Minute+time.Second, metav1.ConditionTrue), false, true, "not heard of since 2026-03-01T11:56:59Z"},
		"ill":    {heard(0, metav1.ConditionFalse), false, false, "AgentHealthy is False: in a test"},
		"marked": {marked, false, true, "not heard of since 2026-03-01T11:59:00Z"},
		"never":  {never, false, true, "it has said nothing yet"},
		"new":    {fresh, false, false, "it has said nothing yet"},
	} {
		a := Of(c.info, noon)
		if a.Healthy != c.well || a.Silent != c.silent || !strings.HasPrefix(a.Message, c.says) || (a.Message == "") != (c.says == "") {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
