package explain

import (
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// Agent says which agent enforces policies on a host.
type Agent string

// The agents. A policy means something else to each: by ours an Allow rule isolates, by Antrea's it
// does not.
const (
	AgentOurs Agent = "Nephele"
	// AgentAntrea: an agent tells about itself, and does not say that it is one of ours.
	AgentAntrea Agent = "Antrea"
	// AgentUnknown: no agent has told anything. It is taken for one of Antrea.
	AgentUnknown Agent = "Unknown"
)

// agentsOf finds out who enforces policies on hosts, by enforcer key. An info that no agent has
// filled in says nothing.
func agentsOf(infos []*v1beta1.AntreaAgentInfo) map[string]Agent {
	out := map[string]Agent{}
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

// agentNotes say what is not known of what an agent at one of the ends does.
func agentNotes(ends ...end) []string {
	var out []string
	for _, e := range ends {
		switch e.agent {
		case AgentOurs:
			out = append(
				out,
				"An agent enforces policies on "+refText(e.ref)+". What it lets through whatever policies say, and what it refuses, only the host knows: nephele agent explain.",
			)
		case AgentUnknown:
			out = append(
				out,
				"No agent has told about itself on "+refText(e.ref)+". This is what an Antrea Agent would do; one of Nephele drops what no rule allows once an Allow rule applies.",
			)
		}
	}
	return out
}
