package explain

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// The agents that enforce policies on hosts. A policy means something else to each: by ours an
// Allow rule isolates, by Antrea's it does not.
const (
	AgentOurs = "Nephele"
	// AgentAntrea: an agent tells about itself, and does not say that it is one of ours.
	AgentAntrea = "Antrea"
	// AgentUnknown: no agent has told anything. It is taken for one of Antrea.
	AgentUnknown = "Unknown"
)

// agentsOf finds the kind of agent on each host, by enforcer key. An info that no agent has filled
// in is ignored.
func agentsOf(infos []*v1beta1.AntreaAgentInfo) map[string]string {
	out := map[string]string{}
	for _, i := range infos {
		key := i.NodeRef.Namespace + "/" + i.NodeRef.Name
		switch {
		case i.NodeRef.Kind != "ExternalNode":
		case i.Labels[cloudv1alpha1.LabelAllowIsolates] == "true":
			out[key] = AgentOurs
		case i.Version != "" && out[key] == "":
			out[key] = AgentAntrea
		}
	}
	return out
}

// Bounds of what is taken in of what a host tells: it may be in a stranger's hands.
const (
	mostFilters  = 20
	mostFailsafe = 64
	mostText     = 64 << 10
)

// hostInfo is what the agent of a host tells of how packets fare besides the policies.
type hostInfo struct {
	failsafe []plan.FailsafeFlow
	// filters holds the filters of others, for people.
	filters []string
	// forwards are families of which it passes packets on between others.
	forwards []string
}

// hostInfosOf reads what our agents tell of hosts, by enforcer key.
func hostInfosOf(infos []*v1beta1.AntreaAgentInfo) map[string]hostInfo {
	out := map[string]hostInfo{}
	for _, i := range infos {
		if i.NodeRef.Kind != "ExternalNode" || i.Labels[cloudv1alpha1.LabelAllowIsolates] != "true" {
			continue
		}
		var h hostInfo
		var flows []cloudv1alpha1.FailsafeFlow
		if text := i.Annotations[cloudv1alpha1.AnnotationHostFailsafe]; len(text) <= mostText && json.Unmarshal([]byte(text), &flows) == nil {
			h.failsafe = plan.ParseFailsafe(flows[:min(len(flows), mostFailsafe)])
		}
		if text := i.Annotations[cloudv1alpha1.AnnotationForeignFilters]; text != "" && len(text) <= mostText {
			lines := strings.Split(text, "\n")
			h.filters = lines[:min(len(lines), mostFilters)]
		}
		for _, family := range []string{"IPv4", "IPv6"} {
			if slices.Contains(strings.Split(i.Annotations[cloudv1alpha1.AnnotationForwards], ","), family) {
				h.forwards = append(h.forwards, family)
			}
		}
		out[i.NodeRef.Namespace+"/"+i.NodeRef.Name] = h
	}
	return out
}

// agentNotes say what is not known of what an agent at one of the ends does.
func (c *Computation) agentNotes(ends ...end) []string {
	var out []string
	for _, e := range ends {
		switch e.agent {
		case AgentOurs:
			out = append(out, "An agent enforces policies on "+refText(e.ref)+". Which policies it refuses, the host knows best: nephele-agent status.")
			if filters := c.hostInfos[e.enforcer].filters; len(filters) > 0 {
				out = append(out, "Others filter the traffic of "+refText(e.ref)+" as well. What they drop stays dropped, and where no policy decides, they do: "+strings.Join(filters, "; ")+".")
			}
			if forwards := c.hostInfos[e.enforcer].forwards; len(forwards) > 0 {
				out = append(out, refText(e.ref)+" routes "+strings.Join(forwards, " and ")+". Policies do not judge what it only passes on: not what comes to containers behind its published ports, nor what they send.")
			}
		case AgentUnknown:
			out = append(
				out,
				"No agent has told about itself on "+refText(e.ref)+". This is what an Antrea Agent would do; one of Nephele drops what no rule allows once an Allow rule applies.",
			)
		}
	}
	return out
}
