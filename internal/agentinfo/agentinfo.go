// Package agentinfo judges agents by their AntreaAgentInfos. An agent that has died leaves its last
// AntreaAgentInfo behind, so its age counts as well as what it says. All packages that report on
// agents use this one, so that they agree.
package agentinfo

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/handover"
)

// Silence is after how long nothing is known of an agent that says nothing. Agents say something
// every minute.
const Silence = handover.Silence

// Agent is what is known of one agent.
type Agent struct {
	// Key is that of the enforcer: NAMESPACE/NAME of its ExternalNode, or the name of its Node;
	// empty if it has not said yet.
	Key     string
	Version string
	// Kernel is that of the host; empty if the agent does not tell.
	Kernel string
	// Heard is when it said something last, by its own clock; zero if it never did.
	Heard time.Time
	// Silent tells that this is longer ago than Silence. What it enforced then it may enforce
	// still, but nobody confirms it. New agents have yet to say something.
	Silent, New bool
	// Healthy tells that it is well, and said so not long ago. Otherwise Message says why not.
	Healthy bool
	Message string
	// Policies is how many it has received.
	Policies int32
}

// Of judges an agent by what it says.
func Of(info *v1beta1.AntreaAgentInfo, now time.Time) Agent {
	out := Agent{
		Key: info.NodeRef.Name, Version: info.Version, Kernel: info.Annotations[cloudv1alpha1.AnnotationKernel],
		Policies: info.NetworkPolicyControllerInfo.NetworkPolicyNum,
	}
	if info.NodeRef.Namespace != "" {
		out.Key = info.NodeRef.Namespace + "/" + info.NodeRef.Name
	}
	marked := false
	for i := range info.AgentConditions {
		c := &info.AgentConditions[i]
		if c.LastHeartbeatTime.After(out.Heard) {
			out.Heard = c.LastHeartbeatTime.Time
		}
		marked = marked || c.Reason == cloudv1alpha1.ReasonSilent
		if c.Status != metav1.ConditionTrue && out.Message == "" {
			out.Message = fmt.Sprintf("%s is %s: %s", c.Type, c.Status, cmp.Or(c.Message, c.Reason))
		}
	}
	switch {
	case out.Heard.IsZero():
		out.Message = "it has said nothing yet"
		out.New = now.Sub(info.CreationTimestamp.Time) <= Silence
		out.Silent = !out.New
	case marked || now.Sub(out.Heard) > Silence:
		out.Silent, out.Message = true, SilentSince(out.Heard)
	}
	out.Healthy = out.Message == ""
	return out
}

// SilentSince says of an agent that it is silent.
func SilentSince(heard time.Time) string {
	return "not heard of since " + heard.UTC().Format(time.RFC3339) + ": what it enforces is not confirmed since"
}

// MarkSilent makes an info say that its agent is silent, and reports whether it did not yet. The
// heartbeats stay as the agent wrote them, and what it says next takes the mark away.
func MarkSilent(info *v1beta1.AntreaAgentInfo, heard time.Time) bool {
	changed := false
	for i := range info.AgentConditions {
		c := &info.AgentConditions[i]
		if c.Status == metav1.ConditionUnknown && c.Reason == cloudv1alpha1.ReasonSilent {
			continue
		}
		c.Status, c.Reason, c.Message, changed = metav1.ConditionUnknown, cloudv1alpha1.ReasonSilent, SilentSince(heard), true
	}
	return changed
}
